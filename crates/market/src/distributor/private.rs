//! Streams that one client has for itself: each is one stream at a provider, and nothing of it is kept.

use rdm::ToVec;
use rwf::{
    AckMsg, CloseMsg, DataState, DataType, Domain, Key, Msg, NakCode, PostMsg, RequestMsg, State, StateCode,
    StatusMsg, StreamState,
};
use units::Nanos;

use super::messages::Conversation;
use super::providers::Target;
use super::timers::Due;
use super::{Distributor, DistributorSink, PeerId, ProviderId, Timer, peers};
use crate::backbone::LinkDown;

/// A private stream at a provider.
#[derive(Debug)]
pub(super) struct PrivateStream {
    from: Conversation,
    pub(super) provider: ProviderId,
    stream_id: i32,
    pub(super) service: u16,
    domain: Domain,
    /// It goes on after its first image.
    streaming: bool,
    /// Until when it has to be answered, as long as it is not.
    due: Option<Due>,
}

/// From clients.
impl Distributor {
    /// A client wants a stream of its own.
    pub(super) fn on_private_request(
        &mut self,
        now: Nanos,
        from: Conversation,
        service: u16,
        request: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Ok(request) = RequestMsg::parse(request) else {
            self.counters.link_messages_refused.inc();
            return;
        };
        if let Some(place) = self.private_of(from) {
            self.pass_request(place, &request, sink);
        } else if let Err(state) = self.open_private(now, from, service, &request, sink) {
            self.counters.private_streams_refused.inc();
            self.tell_private(from, request.domain, state, sink);
        }
    }

    fn open_private(
        &mut self,
        now: Nanos,
        from: Conversation,
        service: u16,
        request: &RequestMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), State<'static>> {
        let known = self.listed(service).ok_or(NO_SERVICE)?;
        known.requested().ok_or(NOT_PRIVATE)?;
        if self.privates.len() >= self.config.private_streams_max {
            return Err(TOO_MANY);
        }
        let window = self.config.requests_outstanding_max;
        let provider = self.choose_for(service, request.domain, window, None).ok_or(NO_PROVIDER)?;
        let place = self.privates.vacant_key();
        let (stream_id, _) =
            self.take_stream(provider, service, Target::Private(place)).ok_or(NO_PROVIDER)?;
        let due = self.timers.set(now + self.config.request_timeout, Timer::Private(place));
        self.privates.insert(PrivateStream {
            from,
            provider,
            stream_id,
            service,
            domain: request.domain,
            streaming: request.streaming,
            due: Some(due),
        });
        if let Some(peer) = self.peers.get_mut(&from.0) {
            peer.privates.insert(from.1, place);
        }
        self.counters.private_streams.set(self.privates.len() as u64);
        self.pass_request(place, request, sink);
        Ok(())
    }

    /// Something that a client says on its stream.
    pub(super) fn on_private_message(
        &mut self,
        from: Conversation,
        message: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Some(place) = self.private_of(from) else {
            // The stream has ended meanwhile.
            self.counters.messages_unasked.inc();
            return;
        };
        let (provider, stream_id) = (self.privates[place].provider, self.privates[place].stream_id);
        match Msg::parse(message) {
            Ok(Msg::Close(_)) => self.close_private(place, sink),
            Ok(Msg::Request(request)) => self.pass_request(place, &request, sink),
            Ok(Msg::Post(post)) => self.pass_post(place, &post, sink),
            Ok(Msg::Generic(generic)) => {
                self.counters.generics_in.inc();
                let generic = rwf::GenericMsg { stream_id, ..generic };
                sink.to_provider(provider, self.encoding.encode(|w| generic.encode(w)));
            }
            _ => self.counters.link_messages_refused.inc(),
        }
    }

    fn private_of(&self, (peer, conversation): Conversation) -> Option<usize> {
        self.peers.get(&peer)?.privates.get(&conversation).copied()
    }

    /// A request as the provider is to see it.
    fn pass_request(&mut self, place: usize, request: &RequestMsg<'_>, sink: &mut impl DistributorSink) {
        let PrivateStream { provider, stream_id, service, .. } = self.privates[place];
        let theirs = self.offer(provider, service).map(|offer| offer.theirs);
        let key = Key { service_id: theirs, ..request.key };
        let request = RequestMsg { stream_id, private_stream: true, key, ..*request };
        self.counters.requests_out.inc();
        sink.to_provider(provider, self.encoding.encode(|w| request.encode(w)));
    }

    fn pass_post(&mut self, place: usize, msg: &PostMsg<'_>, sink: &mut impl DistributorSink) {
        self.counters.posts_in.inc();
        let PrivateStream { provider, stream_id, service, from, .. } = self.privates[place];
        if !self.dialled(provider).is_some_and(|d| d.takes_posts) {
            self.counters.posts_refused.inc();
            let text = "the provider takes no posts";
            if let Some(nak) = rdm::post::nak(msg, NakCode::DENIED_BY_SOURCE, text) {
                let nak = AckMsg { private_stream: true, ..nak };
                let message = self.encoding.encode(|w| nak.encode(w));
                sink.to_peer(from.0, &LinkDown::PrivateMessage { conversation: from.1, message });
            }
            return;
        }
        let theirs = self.offer(provider, service).map(|offer| offer.theirs);
        let key = msg.key.map(|key| Key { service_id: key.service_id.and(theirs), ..key });
        self.counters.posts_out.inc();
        let post = PostMsg { stream_id, key, ..*msg };
        sink.to_provider(provider, self.encoding.encode(|w| post.encode(w)));
    }

    /// A link is gone, and with it the private streams behind it, which are these.
    pub(super) fn close_privates(&mut self, places: Vec<usize>, sink: &mut impl DistributorSink) {
        for place in places {
            self.close_private(place, sink);
        }
    }

    fn close_private(&mut self, place: usize, sink: &mut impl DistributorSink) {
        let Some(gone) = self.end_private(place) else { return };
        let close = CloseMsg::new(gone.domain, gone.stream_id, DataType::NO_DATA).to_vec();
        sink.to_provider(gone.provider, &close.expect("no part of a close can be too long"));
    }
}

const NO_SERVICE: State<'static> =
    peers::CLOSED.because(StateCode::SOURCE_UNKNOWN, "the service is not published here");
const NOT_PRIVATE: State<'static> =
    peers::CLOSED.because(StateCode::NOT_FOUND, "the service has no private streams");
const TOO_MANY: State<'static> =
    peers::CLOSED_RECOVER.because(StateCode::TOO_MANY_ITEMS, "there are too many private streams");
const NO_PROVIDER: State<'static> =
    peers::CLOSED_RECOVER.because(StateCode::NO_RESOURCES, "no provider of the service takes a request now");
const UNANSWERED: State<'static> =
    peers::CLOSED_RECOVER.because(StateCode::TIMEOUT, "the provider does not answer");

/// From providers.
impl Distributor {
    /// A message on a private stream; `bytes` are those of `msg`.
    pub(super) fn on_private_answer(
        &mut self,
        now: Nanos,
        place: usize,
        msg: &Msg<'_>,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Some(private) = self.privates.get_mut(place) else { return };
        let (peer, conversation) = private.from;
        let (ends, answers) = match msg {
            Msg::Refresh(m) => {
                let is_over = m.complete && !private.streaming;
                (is_over || m.state.stream != StreamState::Open, true)
            }
            Msg::Status(m) => (m.state.is_some_and(|state| state.stream != StreamState::Open), true),
            _ => (false, false),
        };
        let (provider, service) = (private.provider, private.service);
        if let Some(due) = private.due.filter(|_| answers) {
            private.due = None;
            self.timers.cancel(due);
            if let Some(offer) = self.offer_mut(provider, service) {
                offer.pending_count -= 1;
                offer.open_count += 1;
            }
        }
        self.counters.private_messages_out.inc();
        sink.to_peer(peer, &LinkDown::PrivateMessage { conversation, message: bytes });
        if ends {
            self.end_private(place);
        }
        if answers {
            self.pump(now, service, sink);
        }
    }

    /// The provider has not answered a request in time.
    pub(super) fn private_overdue(&mut self, place: usize, sink: &mut impl DistributorSink) {
        self.counters.requests_unanswered.inc();
        let Some(private) = self.privates.get(place) else { return };
        let (from, domain) = (private.from, private.domain);
        self.close_private(place, sink);
        self.tell_private(from, domain, UNANSWERED, sink);
    }

    /// The stream is over, because the provider or its service is.
    pub(super) fn private_lost(&mut self, place: usize, state: State<'_>, sink: &mut impl DistributorSink) {
        let Some(private) = self.privates.get(place) else { return };
        let (from, domain, provider) = (private.from, private.domain, private.provider);
        if self.providers.contains_key(&provider) {
            self.close_private(place, sink);
        } else {
            self.end_private(place);
        }
        let closed = State { stream: StreamState::ClosedRecover, data: DataState::Suspect, ..state };
        self.tell_private(from, domain, closed, sink);
    }

    fn tell_private(
        &mut self,
        (peer, conversation): Conversation,
        domain: Domain,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let status = StatusMsg {
            private_stream: true,
            state: Some(state),
            ..StatusMsg::new(domain, 0, DataType::NO_DATA)
        };
        let message = self.encoding.encode(|w| status.encode(w));
        sink.to_peer(peer, &LinkDown::PrivateMessage { conversation, message });
    }

    fn end_private(&mut self, place: usize) -> Option<PrivateStream> {
        let gone = self.privates.try_remove(place)?;
        if let Some(due) = gone.due {
            self.timers.cancel(due);
        }
        // They end with the offer.
        let service = (gone.service, u64::MAX);
        self.end_stream(gone.provider, gone.stream_id, service, gone.due.is_some());
        let (peer, conversation): (PeerId, u64) = gone.from;
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.privates.remove(&conversation);
        }
        self.counters.private_streams.set(self.privates.len() as u64);
        Some(gone)
    }
}
