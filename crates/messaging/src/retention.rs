//! What sources retain for those who join late or lost it, and the answers to them at the request port.

use lbt::recovery::{ClientId, Responder};
use lbt::stream::StreamMessage;
use lbt::wire::lbmc::{Header, Kind};
use units::{Nanos, Sqn};

use crate::base::Base;
use crate::error::ContextError;
use crate::outgoing::Place;
use crate::publishing::Publishing;

/// The retained messages of a context's sources. Sessions go by their slots.
pub(crate) struct Retained {
    pub(crate) responder: Responder,
    /// The first datagram that was not looked at yet, of each session with sources that retain.
    written: Vec<Option<Sqn>>,
}

impl Retained {
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

impl Publishing {
    /// Whether a source at `place` is to retain what it sends.
    pub(crate) fn retains(&self, base: &Base, asked: Option<bool>, place: Place) -> bool {
        // Who knows of a fixed one by configuration is not told where to ask.
        asked.unwrap_or(base.config.late_join) && !matches!(place, Place::Fixed(_))
    }

    /// Begins to retain a topic of a session.
    pub(crate) fn retain_topic(
        &mut self,
        base: &mut Base,
        session: usize,
        topic_index: u32,
    ) -> Result<(), ContextError> {
        let now = base.now;
        let config = base.config.retention();
        if base.retained.is_none() {
            let responder = Responder::new(&config, now, base.counters.retention.clone())?;
            base.retained = Some(Box::new(Retained { responder, written: Vec::new() }));
        }
        let Some(retained) = &mut base.retained else { return Ok(()) };
        retained.responder.add_topic(session as u32, topic_index, &config)?;
        if retained.written.len() <= session {
            retained.written.resize(session + 1, None);
        }
        let written = &mut retained.written[session];
        if written.is_none() {
            *written = Some(self.outgoing[session].keep_written());
        }
        Ok(())
    }

    /// Retains what a session has closed since the last time.
    #[inline]
    pub(crate) fn retain(&mut self, base: &mut Base, now: Nanos, session: usize) {
        if base.retained.is_some() {
            self.retain_written(base, now, session);
        }
    }

    #[inline(never)]
    fn retain_written(&mut self, base: &mut Base, now: Nanos, session: usize) {
        let Some(Retained { responder, written }) = base.retained.as_deref_mut() else { return };
        if let Some(Some(from)) = written.get_mut(session)
            && let Some(outgoing) = self.outgoing.get_mut(session)
        {
            outgoing.written(from, |messages| responder.retain(now, session as u32, messages));
        }
    }
}
