use std::sync::Arc;
use std::time::Duration;

use counters::table::Line as Counters;
use rssl::Outbound;
use units::Nanos;

use crate::lifecycle::{SessionLayer, Tallies, tallies};
use crate::{DisconnectReason, HostPort};

/// What the owner of a [`Line`](crate::Line) is told.
#[derive(Clone, Copy, Debug)]
pub enum LineEvent<'a> {
    /// The connection handshake is done.
    Connected {
        /// The server.
        host: &'a HostPort,
        /// What was agreed.
        session: &'a rssl::Session<'a>,
    },
    /// A whole message of the server.
    Message(&'a [u8]),
    /// The connection, or an attempt at one, is over.
    Disconnected {
        /// The server.
        host: &'a HostPort,
        /// Why.
        reason: DisconnectReason,
        /// How long it is to the next attempt; `None` if there is none.
        retry_in: Option<Duration>,
    },
}

/// What stands in for a session: whether there is a connection, and what the owner thinks of it.
pub(super) struct LineSession {
    is_connected: bool,
    is_accepted: bool,
    is_hung_up: bool,
    counters: Arc<Counters>,
}

impl LineSession {
    pub(super) fn new(counters: Arc<Counters>) -> LineSession {
        LineSession { is_connected: false, is_accepted: false, is_hung_up: false, counters }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns whether that is news.
    pub(super) fn accept(&mut self) -> bool {
        !std::mem::replace(&mut self.is_accepted, self.is_connected) && self.is_connected
    }

    pub(super) fn hang_up(&mut self) {
        self.is_hung_up = self.is_connected;
    }
}

impl SessionLayer for LineSession {
    type Event<'a> = LineEvent<'a>;

    fn connected<'e>(host: &'e HostPort, session: &'e rssl::Session<'e>) -> LineEvent<'e> {
        LineEvent::Connected { host, session }
    }

    fn disconnected(host: &HostPort, reason: DisconnectReason, retry_in: Option<Duration>) -> LineEvent<'_> {
        LineEvent::Disconnected { host, reason, retry_in }
    }

    fn tallies(&self) -> Tallies<'_> {
        tallies!(self.counters, None)
    }

    fn is_logged_in(&self) -> bool {
        self.is_accepted
    }

    fn on_connected(&mut self, _: Nanos, _: &mut Outbound) -> Result<(), DisconnectReason> {
        self.is_connected = true;
        Ok(())
    }

    #[inline]
    fn on_message<F: FnMut(LineEvent<'_>)>(
        &mut self,
        _: Nanos,
        message: &[u8],
        _: &mut Outbound,
        sink: &mut F,
    ) -> Result<(), DisconnectReason> {
        self.counters.messages_in.inc();
        sink(LineEvent::Message(message));
        Ok(())
    }

    fn on_wakeup(
        &mut self,
        _: Nanos,
        _: &mut Outbound,
        _: &mut dyn FnMut(LineEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        if std::mem::take(&mut self.is_hung_up) { Err(DisconnectReason::Stopped) } else { Ok(()) }
    }

    fn next_wakeup(&self) -> Nanos {
        if self.is_hung_up { Nanos::ZERO } else { Nanos::NEVER }
    }

    fn pump(&mut self, _: Nanos, _: &mut Outbound, _: &mut dyn FnMut(LineEvent<'_>)) {}

    fn on_drained(&mut self) {}

    fn on_disconnected(&mut self, _: Nanos, _: &mut dyn FnMut(LineEvent<'_>)) {
        self.is_connected = false;
        self.is_accepted = false;
        self.is_hung_up = false;
    }

    fn log_out(&self, _: &mut Outbound) {}
}
