use std::sync::Arc;

use counters::table::Distributor as Counters;
use rwf::{
    AckMsg, DataState, DataType, Domain, Key, Msg, NakCode, PostMsg, RequestMsg, State, StateCode, StatusMsg,
    StreamState,
};
use slab::Slab;
use units::Nanos;

use super::base::{Conversation, DistributorConfig, PeerId, ProviderId, Timer};
use super::items::Items;
use super::provider::Target;
use super::sink::DistributorSink;
use super::status::{CLOSED, CLOSED_RECOVER, close_at};
use super::timers::Due;
use crate::backbone::LinkDown;
use crate::encoding::Encoding;

/// The private streams of all clients.
pub(super) struct Privates {
    pub(super) config: Arc<DistributorConfig>,
    table: Slab<PrivateStream>,
    encoding: Encoding,
    counters: Arc<Counters>,
}

impl Privates {
    pub(super) fn new(config: Arc<DistributorConfig>, counters: Arc<Counters>) -> Privates {
        Privates { config, table: Slab::new(), encoding: Encoding::default(), counters }
    }
}

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

const NO_SERVICE: State<'static> =
    CLOSED.because(StateCode::SOURCE_UNKNOWN, "the service is not published here");

const NOT_PRIVATE: State<'static> =
    CLOSED.because(StateCode::NOT_FOUND, "the service has no private streams");

const TOO_MANY: State<'static> =
    CLOSED_RECOVER.because(StateCode::TOO_MANY_ITEMS, "there are too many private streams");

const NO_PROVIDER: State<'static> =
    CLOSED_RECOVER.because(StateCode::NO_RESOURCES, "no provider of the service takes a request now");

const UNANSWERED: State<'static> = CLOSED_RECOVER.because(StateCode::TIMEOUT, "the provider does not answer");

impl Privates {
    /// Private streams at a provider are over, those of one service if it is named. They are bounded by
    /// `private_streams_max`.
    pub(super) fn privates_lost(
        &mut self,
        items: &mut Items,
        provider: ProviderId,
        service: Option<u16>,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let of_provider = self.table.iter().filter(|(_, private)| private.provider == provider);
        let meant = of_provider.filter(|(_, private)| service.is_none_or(|id| private.service == id));
        for place in meant.map(|(place, _)| place).collect::<Vec<usize>>() {
            self.private_lost(items, place, state, sink);
        }
    }
}

impl Privates {
    /// A client wants a stream of its own.
    pub(super) fn on_private_request(
        &mut self,
        items: &mut Items,
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
        if let Some(place) = self.private_of(items, from) {
            self.pass_request(items, place, &request, sink);
        } else if let Err(state) = self.open_private(items, now, from, service, &request, sink) {
            self.counters.private_streams_refused.inc();
            self.report_to_private(from, request.domain, state, sink);
        }
    }

    fn open_private(
        &mut self,
        items: &mut Items,
        now: Nanos,
        from: Conversation,
        service: u16,
        request: &RequestMsg<'_>,
        sink: &mut impl DistributorSink,
    ) -> Result<(), State<'static>> {
        let known = items.suppliers.listed(service).ok_or(NO_SERVICE)?;
        known.requested().ok_or(NOT_PRIVATE)?;
        if self.table.len() >= self.config.private_streams_max {
            return Err(TOO_MANY);
        }
        let window = self.config.requests_outstanding_max;
        let provider =
            items.suppliers.choose_for(service, request.domain, window, None).ok_or(NO_PROVIDER)?;
        let place = self.table.vacant_key();
        let (stream_id, _) =
            items.suppliers.take_stream(provider, service, Target::Private(place)).ok_or(NO_PROVIDER)?;
        let due = items.timers.set(now + self.config.request_timeout, Timer::Private(place));
        self.table.insert(PrivateStream {
            from,
            provider,
            stream_id,
            service,
            domain: request.domain,
            streaming: request.streaming,
            due: Some(due),
        });
        if let Some(peer) = items.links.peers.get_mut(&from.0) {
            peer.privates.insert(from.1, place);
        }
        self.counters.private_streams.set(self.table.len() as u64);
        self.pass_request(items, place, request, sink);
        Ok(())
    }

    /// Something that a client says on its stream.
    pub(super) fn on_private_message(
        &mut self,
        items: &mut Items,
        from: Conversation,
        message: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Some(place) = self.private_of(items, from) else {
            // The stream has ended meanwhile.
            self.counters.messages_unasked.inc();
            return;
        };
        let (provider, stream_id) = (self.table[place].provider, self.table[place].stream_id);
        match Msg::parse(message) {
            Ok(Msg::Close(_)) => self.close_private(items, place, sink),
            Ok(Msg::Request(request)) => self.pass_request(items, place, &request, sink),
            Ok(Msg::Post(post)) => self.pass_post(items, place, &post, sink),
            Ok(Msg::Generic(generic)) => {
                self.counters.generics_in.inc();
                let generic = rwf::GenericMsg { stream_id, ..generic };
                sink.to_provider(provider, self.encoding.encode(|w| generic.encode(w)));
            }
            _ => self.counters.link_messages_refused.inc(),
        }
    }

    fn private_of(&self, items: &mut Items, (peer, conversation): Conversation) -> Option<usize> {
        items.links.peers.get(&peer)?.privates.get(&conversation).copied()
    }

    /// A request as the provider is to see it.
    fn pass_request(
        &mut self,
        items: &mut Items,
        place: usize,
        request: &RequestMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let private = &mut self.table[place];
        private.streaming = request.streaming;
        let PrivateStream { provider, stream_id, service, .. } = *private;
        let theirs = items.suppliers.offer(provider, service).map(|offer| offer.theirs);
        let key = Key { service_id: theirs, ..request.key };
        let request = RequestMsg { stream_id, private_stream: true, key, ..*request };
        self.counters.requests_out.inc();
        sink.to_provider(provider, self.encoding.encode(|w| request.encode(w)));
    }

    fn pass_post(
        &mut self,
        items: &mut Items,
        place: usize,
        msg: &PostMsg<'_>,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.posts_in.inc();
        let PrivateStream { provider, stream_id, service, from, .. } = self.table[place];
        if !items.suppliers.dialled(provider).is_some_and(|d| d.takes_posts) {
            self.counters.posts_refused.inc();
            let text = "the provider takes no posts";
            if let Some(nak) = rdm::post::nak(msg, NakCode::DENIED_BY_SOURCE, text) {
                let nak = AckMsg { private_stream: true, ..nak };
                let message = self.encoding.encode(|w| nak.encode(w));
                sink.to_peer(from.0, &LinkDown::PrivateMessage { conversation: from.1, message });
            }
            return;
        }
        let theirs = items.suppliers.offer(provider, service).map(|offer| offer.theirs);
        let key = msg.key.map(|key| Key { service_id: key.service_id.and(theirs), ..key });
        self.counters.posts_out.inc();
        let post = PostMsg { stream_id, key, ..*msg };
        sink.to_provider(provider, self.encoding.encode(|w| post.encode(w)));
    }

    /// A link is gone, and with it the private streams behind it, which are these.
    pub(super) fn close_privates(
        &mut self,
        items: &mut Items,
        places: Vec<usize>,
        sink: &mut impl DistributorSink,
    ) {
        for place in places {
            self.close_private(items, place, sink);
        }
    }

    fn close_private(&mut self, items: &mut Items, place: usize, sink: &mut impl DistributorSink) {
        let Some(gone) = self.end_private(items, place) else { return };
        close_at((gone.provider, gone.stream_id), gone.domain, sink);
    }
}

impl Privates {
    /// A message on a private stream; `bytes` are those of `msg`.
    pub(super) fn on_private_answer(
        &mut self,
        items: &mut Items,
        now: Nanos,
        place: usize,
        msg: &Msg<'_>,
        bytes: &[u8],
        sink: &mut impl DistributorSink,
    ) {
        let Some(private) = self.table.get_mut(place) else { return };
        let (peer, conversation) = private.from;
        // A provider that says `Open` of what is one image goes on if it is not told.
        let (ends, is_open, answers) = match msg {
            Msg::Refresh(m) => {
                let (is_over, is_open) =
                    (m.complete && !private.streaming, m.state.stream == StreamState::Open);
                (is_over || !is_open, is_open, true)
            }
            Msg::Status(m) => (m.state.is_some_and(|state| state.stream != StreamState::Open), false, true),
            _ => (false, false, false),
        };
        let (provider, service) = (private.provider, private.service);
        if let Some(due) = private.due.filter(|_| answers) {
            private.due = None;
            items.timers.cancel(due);
            if let Some(offer) = items.suppliers.offer_mut(provider, service) {
                offer.pending_count -= 1;
                offer.open_count += 1;
            }
        }
        self.counters.private_messages_out.inc();
        sink.to_peer(peer, &LinkDown::PrivateMessage { conversation, message: bytes });
        if ends && is_open {
            self.close_private(items, place, sink);
        } else if ends {
            self.end_private(items, place);
        }
        if answers {
            items.pump(now, service, sink);
        }
    }

    /// The provider has not answered a request in time.
    pub(super) fn private_overdue(
        &mut self,
        items: &mut Items,
        place: usize,
        sink: &mut impl DistributorSink,
    ) {
        self.counters.requests_unanswered.inc();
        let Some(private) = self.table.get(place) else { return };
        let (from, domain) = (private.from, private.domain);
        self.close_private(items, place, sink);
        self.report_to_private(from, domain, UNANSWERED, sink);
    }

    /// The stream is over, because the provider or its service is.
    pub(super) fn private_lost(
        &mut self,
        items: &mut Items,
        place: usize,
        state: State<'_>,
        sink: &mut impl DistributorSink,
    ) {
        let Some(private) = self.table.get(place) else { return };
        let (from, domain, provider) = (private.from, private.domain, private.provider);
        if items.suppliers.providers.contains_key(&provider) {
            self.close_private(items, place, sink);
        } else {
            self.end_private(items, place);
        }
        let closed = State { stream: StreamState::ClosedRecover, data: DataState::Suspect, ..state };
        self.report_to_private(from, domain, closed, sink);
    }

    fn report_to_private(
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

    fn end_private(&mut self, items: &mut Items, place: usize) -> Option<PrivateStream> {
        let gone = self.table.try_remove(place)?;
        if let Some(due) = gone.due {
            items.timers.cancel(due);
        }
        // They end with the offer.
        let service = (gone.service, u64::MAX);
        items.suppliers.end_stream(gone.provider, gone.stream_id, service, gone.due.is_some());
        let (peer, conversation): (PeerId, u64) = gone.from;
        if let Some(peer) = items.links.peers.get_mut(&peer) {
            peer.privates.remove(&conversation);
        }
        self.counters.private_streams.set(self.table.len() as u64);
        Some(gone)
    }
}
