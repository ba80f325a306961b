use crate::config::LbtruReceiverConfig;
use crate::wire::extension::{SUBTYPE_LEAVE, emit_extension};
use crate::wire::lbtru::{Body, Options, Packet};
use counters::table::LbtruConnection;
use std::net::SocketAddrV4;
use std::time::Duration;
use units::{Nanos, Sqn};

/// What tells the sessions of LBT-RU apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// Address and port of the source, to which everything is sent and from which everything comes.
    pub source: SocketAddrV4,
    /// The session's id; `None` if it was not advertised: then the source's answer says whether there is one.
    pub session_id: Option<u32>,
}

/// Data of the extension with which a receiver leaves: its version, and what is reserved.
pub(super) const LEAVE: [u8; 4] = [1, 0, 0, 0];

/// Connect intervals in which a source that has sent a reset may prove that the session goes on.
pub const RESET_INTERVALS: u32 = 10;

/// What a receiver says to its source, NAKs aside: requests until it is answered, signs of life afterwards.
pub(super) struct Connection {
    pub(super) key: SessionKey,
    client_id: u32,
    /// The id that every datagram must bear.
    pub(super) session_id: Option<u32>,
    connect: Duration,
    acknowledge: Duration,
    /// Requests that may still be sent before the first answer.
    requests_left: u32,
    next_request: Nanos,
    next_ack: Nanos,
    /// The source has answered, and sent something since: it knows this receiver.
    confirmed: bool,
    /// The source was told that this receiver leaves.
    has_left: bool,
    /// When a reset counts, if nothing of the session is heard until then.
    reset_at: Nanos,
}

impl Connection {
    pub(super) fn new(
        config: &LbtruReceiverConfig,
        key: SessionKey,
        client_id: u32,
        now: Nanos,
    ) -> Connection {
        Connection {
            key,
            client_id,
            session_id: key.session_id,
            connect: config.connect_interval,
            acknowledge: config.acknowledgement_interval,
            requests_left: config.connect_maximum,
            next_request: now,
            next_ack: Nanos::NEVER,
            confirmed: false,
            has_left: false,
            reset_at: Nanos::NEVER,
        }
    }

    /// Whether an answer is meant for this receiver, and speaks of the session it wants.
    pub(super) fn is_answered_by(&mut self, options: Options) -> bool {
        let ours = options.client_id.is_none_or(|id| id == self.client_id);
        let unknown = self.key.session_id.is_none() && !self.is_connected();
        if ours && unknown {
            self.session_id = options.session_id;
        }
        ours && options.session_id == self.session_id
    }

    /// Whether somebody has answered this receiver's request, at the session's address, for another session. As this one
    /// is gone then, the address is not kept from the other.
    pub(super) fn is_answered_by_another(&self, options: Options) -> bool {
        options.client_id == Some(self.client_id) && options.session_id != self.session_id
    }

    /// Whether the source has answered.
    fn is_connected(&self) -> bool {
        self.next_ack != Nanos::NEVER
    }

    /// The source has answered: it is told at once that this receiver is there.
    pub(super) fn answered(&mut self, now: Nanos) {
        self.next_ack = now;
        self.confirmed = false;
    }

    /// Something of the session was heard; returns whether a reset had said that it is over.
    pub(super) fn heard(&mut self) -> bool {
        std::mem::replace(&mut self.reset_at, Nanos::NEVER) != Nanos::NEVER
    }

    /// The source sends to this receiver.
    pub(super) fn confirmed(&mut self) {
        self.confirmed = true;
    }

    /// A reset arrived: the source is asked whether it means it.
    pub(super) fn doubt(&mut self, now: Nanos) {
        if self.reset_at == Nanos::NEVER {
            self.reset_at = now + self.connect * RESET_INTERVALS;
            self.next_request = self.next_request.max(now);
        }
    }

    /// This receiver was stopped: a source that was asked whether it means a reset is asked again.
    pub(super) fn after_pause(&mut self, now: Nanos) {
        if self.reset_at != Nanos::NEVER {
            self.reset_at = self.reset_at.max(now + self.connect * RESET_INTERVALS);
        }
    }

    /// Whether a reset counts.
    pub(super) fn is_reset(&self, now: Nanos) -> bool {
        now >= self.reset_at
    }

    /// Whether the source was asked often enough without an answer.
    pub(super) fn has_failed(&self, now: Nanos) -> bool {
        self.requests_left == 0 && !self.is_connected() && now >= self.next_request
    }

    /// When there is something to do.
    #[inline]
    pub(super) fn due(&self) -> Nanos {
        let request = if self.is_connected() && self.reset_at == Nanos::NEVER {
            Nanos::NEVER
        } else {
            self.next_request
        };
        request.min(self.next_ack).min(self.reset_at)
    }

    /// Writes to `out` that this receiver leaves, if the source has answered it and was not told before.
    pub(super) fn write_leave(
        &mut self,
        highest: Sqn,
        out: &mut Vec<u8>,
        counters: &LbtruConnection,
    ) -> bool {
        if !self.is_connected() || std::mem::replace(&mut self.has_left, true) {
            return false;
        }
        counters.acks_sent.inc();
        write(&Packet::new(Body::Ack { sqn: highest }, Options::session(self.session_id)), out);
        emit_extension(out, SUBTYPE_LEAVE, &LEAVE);
        true
    }

    /// Writes the request or the sign of life that is due to `out`; false if none is.
    pub(super) fn write_due(
        &mut self,
        now: Nanos,
        highest: Sqn,
        out: &mut Vec<u8>,
        counters: &LbtruConnection,
    ) -> bool {
        let asks = !self.is_connected() && self.requests_left > 0 || self.reset_at != Nanos::NEVER;
        if asks && now >= self.next_request {
            self.requests_left = self.requests_left.saturating_sub(1);
            self.next_request = now + self.connect;
            counters.creqs_sent.inc();
            let options = Options { session_id: None, client_id: Some(self.client_id) };
            write(&Packet::new(Body::ConnectRequest, options), out);
            return true;
        }
        if now >= self.next_ack {
            self.next_ack = now + if self.confirmed { self.acknowledge } else { self.connect };
            counters.acks_sent.inc();
            write(&Packet::new(Body::Ack { sqn: highest }, Options::session(self.session_id)), out);
            return true;
        }
        false
    }
}

fn write(packet: &Packet<'_>, out: &mut Vec<u8>) {
    out.clear();
    packet.emit(out);
}
