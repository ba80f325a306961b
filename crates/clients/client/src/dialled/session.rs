use std::sync::Arc;
use std::time::Duration;

use counters::table::DialledConnection as Counters;
use rssl::Outbound;
use units::Nanos;

use crate::lifecycle::{ConnectCounters, SessionLayer, connect_counters};
use crate::{DisconnectReason, HostPort};

/// What the owner of a [`DialledConnection`](crate::DialledConnection) is told.
#[derive(Clone, Copy, Debug)]
pub enum DialledEvent<'a> {
    /// The connection handshake is done.
    Connected {
        /// The server.
        host: &'a HostPort,
        /// What was agreed.
        session: &'a rssl::Session<'a>,
    },
    /// A whole message of the server.
    Message(&'a [u8]),
    /// A message that comes soon, if the connection lives: a hint, which an owner gets that looks ahead
    /// ([`look_ahead`](crate::DialledConnection::look_ahead)).
    Coming(&'a [u8]),
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
pub(super) struct RawSession {
    is_connected: bool,
    is_accepted: bool,
    is_hung_up: bool,
    messages_ahead: usize,
    counters: Arc<Counters>,
}

impl RawSession {
    pub(super) fn new(counters: Arc<Counters>) -> RawSession {
        RawSession { is_connected: false, is_accepted: false, is_hung_up: false, messages_ahead: 0, counters }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns whether that is news.
    pub(super) fn accept(&mut self) -> bool {
        !std::mem::replace(&mut self.is_accepted, self.is_connected) && self.is_connected
    }

    pub(super) fn look_ahead(&mut self, messages: usize) {
        self.messages_ahead = messages;
    }

    pub(super) fn hang_up(&mut self) {
        self.is_hung_up = self.is_connected;
    }
}

impl SessionLayer for RawSession {
    type Event<'a> = DialledEvent<'a>;

    fn connected<'e>(host: &'e HostPort, session: &'e rssl::Session<'e>) -> DialledEvent<'e> {
        DialledEvent::Connected { host, session }
    }

    fn disconnected(
        host: &HostPort,
        reason: DisconnectReason,
        retry_in: Option<Duration>,
    ) -> DialledEvent<'_> {
        DialledEvent::Disconnected { host, reason, retry_in }
    }

    fn connect_counters(&self) -> ConnectCounters<'_> {
        connect_counters!(self.counters, None)
    }

    fn is_logged_in(&self) -> bool {
        self.is_accepted
    }

    fn on_connected(&mut self, _: Nanos, _: &mut Outbound) -> Result<(), DisconnectReason> {
        self.is_connected = true;
        Ok(())
    }

    #[inline]
    fn on_message<F: FnMut(DialledEvent<'_>)>(
        &mut self,
        _: Nanos,
        message: &[u8],
        _: &mut Outbound,
        sink: &mut F,
    ) -> Result<(), DisconnectReason> {
        self.counters.messages_in.inc();
        sink(DialledEvent::Message(message));
        Ok(())
    }

    #[inline]
    fn messages_ahead(&self) -> usize {
        self.messages_ahead
    }

    #[inline]
    fn on_coming<F: FnMut(DialledEvent<'_>)>(&mut self, message: &[u8], sink: &mut F) {
        sink(DialledEvent::Coming(message));
    }

    fn on_wakeup(
        &mut self,
        _: Nanos,
        _: &mut Outbound,
        _: &mut dyn FnMut(DialledEvent<'_>),
    ) -> Result<(), DisconnectReason> {
        if std::mem::take(&mut self.is_hung_up) { Err(DisconnectReason::Stopped) } else { Ok(()) }
    }

    fn next_wakeup(&self) -> Nanos {
        if self.is_hung_up { Nanos::ZERO } else { Nanos::NEVER }
    }

    fn pump(&mut self, _: Nanos, _: &mut Outbound, _: &mut dyn FnMut(DialledEvent<'_>)) {}

    fn on_drained(&mut self) {}

    fn on_disconnected(&mut self, _: Nanos, _: &mut dyn FnMut(DialledEvent<'_>)) {
        self.is_connected = false;
        self.is_accepted = false;
        self.is_hung_up = false;
    }

    fn log_out(&self, _: &mut Outbound) {}
}
