//! What clients say to providers: posts and generic messages, and streams that one client has for itself.
//!
//! A client's stream on which something goes up gets a number, its *conversation*, under which the instance
//! answers. It lives as long as the stream.

use std::collections::HashMap;
use std::sync::Arc;

use counters::table::PointToPoint as Counters;
use rwf::{AckMsg, CloseMsg, DataType, DecodeError, Domain, Key, Msg, MsgClass, NakCode, StreamState};
use units::Nanos;

use super::base::Watcher;
use super::posts::{Posts, Unanswered};
use super::sink::ServerSink;
use crate::backbone::LinkUp;
use crate::encoding::Encoding;

/// The conversations of all clients.
pub(super) struct Conversations {
    pub(super) known: HashMap<u64, Conversation>,
    last: u64,
    /// Posts whose acknowledgement is still to come.
    pub(super) posts: Posts,
    encoding: Encoding,
    counters: Arc<Counters>,
}

/// A client's stream, as instances know it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) watcher: Watcher,
    pub(super) private: Option<Private>,
}

/// What is to be known of a private stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Private {
    pub(super) instance: u64,
    pub(super) service: u16,
    pub(super) domain: Domain,
    /// It goes on after its first image.
    pub(super) streaming: bool,
}

impl Private {
    /// Whether a message of the stream is its last.
    pub(super) fn ends_with(&self, msg: &Msg<'_>) -> bool {
        match msg {
            Msg::Refresh(refresh) => {
                refresh.complete && !self.streaming || refresh.state.stream != StreamState::Open
            }
            Msg::Status(status) => status.state.is_some_and(|state| state.stream != StreamState::Open),
            _ => false,
        }
    }
}

impl Conversations {
    pub(super) fn new(counters: Arc<Counters>) -> Conversations {
        let (known, posts, encoding) = (HashMap::new(), Posts::default(), Encoding::default());
        Conversations { known, last: 0, posts, encoding, counters }
    }

    /// Begins a conversation. Its number has not been used before.
    pub(super) fn begin(&mut self, watcher: Watcher, private: Option<Private>) -> u64 {
        self.last += 1;
        self.known.insert(self.last, Conversation { watcher, private });
        self.last
    }

    /// Ends a conversation: nothing is expected any more.
    pub(super) fn end(&mut self, number: u64) -> Option<Private> {
        self.posts.forget(number);
        self.known.remove(&number)?.private
    }

    /// The private streams at an instance.
    pub(super) fn private_at(&self, instance: u64) -> Vec<(u64, Watcher, Domain)> {
        let known = self.known.iter();
        let private = known.filter_map(|(&number, c)| Some((number, c.watcher, c.private?)));
        private
            .filter(|(_, _, private)| private.instance == instance)
            .map(|(number, watcher, private)| (number, watcher, private.domain))
            .collect()
    }
}

pub(super) fn unwanted(msg: &Msg<'_>, wanted: MsgClass) -> DecodeError {
    DecodeError::OtherMsgClass { class: msg.class() as u8, wanted: wanted as u8 }
}

/// A message of a private stream as the client is to see it.
pub(super) fn as_private(msg: Msg<'_>, service: u16) -> Msg<'_> {
    match msg {
        Msg::Refresh(m) => {
            Msg::Refresh(rwf::RefreshMsg { private_stream: true, key: at(m.key, service), ..m })
        }
        Msg::Status(m) => Msg::Status(rwf::StatusMsg { private_stream: true, key: at(m.key, service), ..m }),
        Msg::Update(m) => Msg::Update(rwf::UpdateMsg { key: at(m.key, service), ..m }),
        other => other,
    }
}

/// A key with the service's id here in place of the provider's.
pub(super) fn at(key: Option<Key<'_>>, service: u16) -> Option<Key<'_>> {
    key.map(|key| Key { service_id: key.service_id.and(Some(service)), ..key })
}

impl Conversations {
    /// An acknowledgement, or a generic message for one client alone.
    pub(super) fn on_client_answer(
        &mut self,
        number: u64,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), DecodeError> {
        let msg = Msg::parse(message)?;
        let Some(watcher) = self.known.get(&number).map(|c| c.watcher) else {
            self.counters.answers_late.inc();
            return Ok(());
        };
        match msg {
            Msg::Ack(ack) => self.on_ack((number, watcher), &ack, message, sink),
            Msg::Generic(_) => {
                self.counters.generics_out.inc();
                sink.fan_out(&[watcher], message);
            }
            other => return Err(unwanted(&other, MsgClass::Ack)),
        }
        Ok(())
    }

    pub(super) fn on_ack(
        &mut self,
        (number, watcher): (u64, Watcher),
        ack: &AckMsg<'_>,
        message: &[u8],
        sink: &mut impl ServerSink,
    ) {
        if !self.posts.answer((number, ack.ack_id), ack.seq_num) {
            self.counters.answers_late.inc();
            return;
        }
        self.counters.posts_outstanding.set(self.posts.len() as u64);
        self.counters.acks_out.inc();
        sink.fan_out(&[watcher], message);
    }

    /// Refuses posts whose acknowledgement has not come in time.
    pub(super) fn check_posts(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        let overdue = self.posts.take_overdue(now);
        self.refuse_posts(overdue, NakCode::NO_RESPONSE, "no acknowledgement came in time", sink);
    }

    pub(super) fn refuse_posts(
        &mut self,
        posts: Vec<Unanswered>,
        code: NakCode,
        text: &str,
        sink: &mut impl ServerSink,
    ) {
        for post in posts {
            self.counters.posts_refused.inc();
            let Some(conversation) = self.known.get(&post.conversation) else { continue };
            let nak = AckMsg {
                ack_id: post.post_id,
                nak_code: Some(code),
                text: Some(text.as_bytes()),
                seq_num: post.seq_num,
                private_stream: post.is_private,
                ..AckMsg::new(post.domain, conversation.watcher.stream_id, DataType::NO_DATA)
            };
            sink.send(conversation.watcher.client, self.encoding.encode(|w| nak.encode(w)));
        }
        self.counters.posts_outstanding.set(self.posts.len() as u64);
    }
}

impl Conversations {
    /// A client is done with a private stream.
    pub(super) fn close_private(&mut self, number: u64, sink: &mut impl ServerSink) {
        let Some(private) = self.end(number) else { return };
        let close = CloseMsg::new(private.domain, 0, DataType::NO_DATA);
        let message = self.encoding.encode(|w| close.encode(w));
        sink.to_instance(private.instance, &LinkUp::PrivateMessage { conversation: number, message });
    }
}
