//! What sources retain for those who join late or lost it, and the answers to them at the request port.

use std::sync::Arc;

use counters::table::LbmRetention;
use lbt::config::{ConfigError, RetentionConfig};
use lbt::recovery::{ClientId, Responder};
use lbt::stream::StreamMessage;
use lbt::wire::lbmc::{Header, Kind};
use units::{Nanos, Sqn};

/// The retained messages of a context's sources. Sessions go by their slots.
pub(crate) struct Retained {
    pub(crate) responder: Responder,
    /// The first datagram that was not looked at yet, of each session with sources that retain.
    written: Vec<Option<Sqn>>,
}

impl Retained {
    pub(crate) fn new(
        config: &RetentionConfig,
        now: Nanos,
        counters: Arc<LbmRetention>,
    ) -> Result<Retained, ConfigError> {
        Ok(Retained { responder: Responder::new(config, now, counters)?, written: Vec::new() })
    }

    /// Begins to retain a topic of a session; with the first one `keep` lets it keep what is written, and gives the
    /// number of its next datagram.
    pub(crate) fn add_topic(
        &mut self,
        session: usize,
        topic_index: u32,
        config: &RetentionConfig,
        keep: impl FnOnce() -> Sqn,
    ) -> Result<(), ConfigError> {
        self.responder.add_topic(session as u32, topic_index, config)?;
        if self.written.len() <= session {
            self.written.resize(session + 1, None);
        }
        self.written[session].get_or_insert_with(keep);
        Ok(())
    }

    /// What of a session was not looked at yet, if it has topics that are retained, and where it is retained.
    pub(crate) fn of(&mut self, session: usize) -> Option<(&mut Sqn, &mut Responder)> {
        Some((self.written.get_mut(session)?.as_mut()?, &mut self.responder))
    }

    /// Takes a request of a connection; false if it is none. `client` is what the connection is called, once
    /// it has asked for something.
    pub(crate) fn take_request(
        &mut self,
        client: &mut Option<ClientId>,
        message: &StreamMessage<'_>,
    ) -> bool {
        if message.kind != Kind::Control || !message.headers.iter().any(is_request) {
            return false;
        }
        if client.is_none() {
            *client = self.responder.open();
        }
        client.is_some_and(|client| self.responder.on_message(client, message))
    }
}

fn is_request(header: Header<'_>) -> bool {
    matches!(header, Header::LateJoinInfoRequest { .. } | Header::RetransmissionRequest { .. })
}
