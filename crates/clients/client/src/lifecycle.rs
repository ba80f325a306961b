//! What consumer and provider do alike between socket and session: connecting, losing, waking, writing.

use std::ops::ControlFlow;
use std::time::Duration;

use counters::Counter;
use rssl::{CloseReason, Disconnect, Handler, Outbound, Stop};
use units::Nanos;

use crate::connector::Connector;
use crate::{Attempt, ConnectFailure, DisconnectReason, Endpoint, HostPort, Socket};

/// All of a client but its connection.
pub(crate) trait SessionLayer: 'static {
    /// What the application is told.
    type Event<'a>;

    /// The event of a connection whose handshake is done.
    fn connected<'e>(host: &'e HostPort, session: &'e rssl::Session<'e>) -> Self::Event<'e>;

    /// The event of a connection, or an attempt at one, that is over.
    fn disconnected(host: &HostPort, reason: DisconnectReason, retry_in: Option<Duration>)
    -> Self::Event<'_>;

    fn connect_counters(&self) -> ConnectCounters<'_>;

    /// Whether the server has let the session in.
    fn is_logged_in(&self) -> bool;

    /// The handshake of the connection is done, which was told.
    ///
    /// # Errors
    /// Why the connection is to be ended.
    fn on_connected(&mut self, now: Nanos, out: &mut Outbound) -> Result<(), DisconnectReason>;

    /// A whole message of the server.
    ///
    /// # Errors
    /// Why the connection is to be ended.
    fn on_message<F: FnMut(Self::Event<'_>)>(
        &mut self,
        now: Nanos,
        message: &[u8],
        out: &mut Outbound,
        sink: &mut F,
    ) -> Result<(), DisconnectReason>;

    /// As [`Handler::messages_ahead`]: nothing is shown unless the session says so.
    fn messages_ahead(&self) -> usize {
        0
    }

    /// As [`Handler::on_coming`].
    fn on_coming<F: FnMut(Self::Event<'_>)>(&mut self, message: &[u8], sink: &mut F) {
        let _ = (message, sink);
    }

    /// Looks at the time.
    fn on_wakeup(
        &mut self,
        now: Nanos,
        out: &mut Outbound,
        sink: &mut dyn FnMut(Self::Event<'_>),
    ) -> Result<(), DisconnectReason>;

    /// When [`SessionLayer::on_wakeup`] or [`SessionLayer::pump`] has something to do.
    fn next_wakeup(&self) -> Nanos;

    /// Sends what is due.
    fn pump(&mut self, now: Nanos, out: &mut Outbound, sink: &mut dyn FnMut(Self::Event<'_>));

    /// Room in the backlog again.
    fn on_drained(&mut self);

    /// The connection is lost.
    fn on_disconnected(&mut self, now: Nanos, sink: &mut dyn FnMut(Self::Event<'_>));

    /// Ends the login, if there is one.
    fn log_out(&self, out: &mut Outbound);
}

/// What is counted of connecting.
pub(crate) struct ConnectCounters<'a> {
    pub(crate) connect_attempts: &'a Counter,
    pub(crate) version_fallbacks: &'a Counter,
    pub(crate) connect_failures: &'a Counter,
    pub(crate) disconnects: &'a Counter,
    pub(crate) lookup_failures: &'a Counter,
    pub(crate) certificate_failures: &'a Counter,
    /// Messages that cost the connection; none without a session that reads them.
    pub(crate) messages_refused: Option<&'a Counter>,
}

/// The connect_counters of a table of counters.
macro_rules! connect_counters {
    ($counters:expr, $messages_refused:expr) => {
        $crate::lifecycle::ConnectCounters {
            connect_attempts: &$counters.connect_attempts,
            version_fallbacks: &$counters.version_fallbacks,
            connect_failures: &$counters.connect_failures,
            disconnects: &$counters.disconnects,
            lookup_failures: &$counters.lookup_failures,
            certificate_failures: &$counters.certificate_failures,
            messages_refused: $messages_refused,
        }
    };
}

pub(crate) use connect_counters;

impl ConnectCounters<'_> {
    /// An attempt has failed before the server has let the session in.
    fn failed(&self, reason: DisconnectReason) {
        self.connect_failures.inc();
        match reason {
            DisconnectReason::Connect(ConnectFailure::UnknownHost | ConnectFailure::LookupTimeout { .. }) => {
                self.lookup_failures.inc();
            }
            DisconnectReason::Connect(ConnectFailure::Certificate) => self.certificate_failures.inc(),
            _ => {}
        }
    }
}

/// The handler of one input: gives what comes over the connection to the session.
struct Input<'s, S, F> {
    session: &'s mut S,
    now: Nanos,
    host: &'s HostPort,
    sink: &'s mut F,
    /// Why the session has ended the connection, if it has.
    fault: Option<DisconnectReason>,
}

impl<S, F> Input<'_, S, F> {
    #[inline]
    fn flow(&mut self, result: Result<(), DisconnectReason>) -> ControlFlow<Stop> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => {
                self.fault = Some(fault);
                ControlFlow::Break(Stop::Application)
            }
        }
    }
}

impl<S: SessionLayer, F: FnMut(S::Event<'_>)> Handler for Input<'_, S, F> {
    fn on_connected(&mut self, session: &rssl::Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        (self.sink)(S::connected(self.host, session));
        let result = self.session.on_connected(self.now, out);
        self.flow(result)
    }

    #[inline]
    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        let result = self.session.on_message(self.now, message, out, self.sink);
        self.flow(result)
    }

    #[inline]
    fn messages_ahead(&self) -> usize {
        self.session.messages_ahead()
    }

    #[inline]
    fn on_coming(&mut self, message: &[u8]) {
        self.session.on_coming(message, self.sink);
    }
}

/// A session and the way to its servers.
pub(crate) struct Lifecycle<S> {
    pub(crate) connector: Connector,
    pub(crate) session: S,
}

impl<S: SessionLayer> Lifecycle<S> {
    /// Logs out and ends the connection; nothing more is tried.
    pub(crate) fn stop(&mut self, now: Nanos, sink: &mut dyn FnMut(S::Event<'_>)) {
        if self.connector.is_stopped() {
            return;
        }
        if let Some(connection) = self.connector.connection() {
            self.session.log_out(connection.outbound());
        }
        self.connector.stop();
        sink(S::disconnected(self.connector.host(), DisconnectReason::Stopped, None));
        self.session.on_disconnected(now, sink);
    }

    /// The connection, or the attempt at one, is over.
    pub(crate) fn lose(&mut self, now: Nanos, reason: DisconnectReason, sink: &mut dyn FnMut(S::Event<'_>)) {
        let (connect_counters, was_in) = (self.session.connect_counters(), self.session.is_logged_in());
        if let DisconnectReason::Connection(CloseReason::Unanswered { next: Some(version), .. }) = reason {
            connect_counters.version_fallbacks.inc();
            return self.connector.fall_back(now, version);
        }
        if let (DisconnectReason::Message(_), Some(refused)) = (reason, connect_counters.messages_refused) {
            refused.inc();
        }
        if was_in {
            connect_counters.disconnects.inc()
        } else {
            connect_counters.failed(reason)
        }
        let host = self.connector.host().clone();
        let retry_in = if let DisconnectReason::LoginRefused { .. } = reason {
            self.connector.stop();
            self.connector.drop_last();
            None
        } else {
            Some(self.connector.failed(now))
        };
        sink(S::disconnected(&host, reason, retry_in));
        self.session.on_disconnected(now, sink);
    }

    fn pump(&mut self, now: Nanos, sink: &mut dyn FnMut(S::Event<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            self.session.pump(now, connection.outbound(), sink);
        }
    }
}

impl<S: SessionLayer> Endpoint for Lifecycle<S> {
    type Event<'a> = S::Event<'a>;

    fn socket(&mut self, now: Nanos) -> Socket<'_> {
        let socket = self.connector.socket(now);
        if let Socket::Connect(_) = socket {
            self.session.connect_counters().connect_attempts.inc();
        }
        socket
    }

    fn on_established(&mut self, now: Nanos) {
        self.connector.open(now);
    }

    fn on_connect_failed(&mut self, now: Nanos, failure: ConnectFailure, sink: &mut dyn FnMut(S::Event<'_>)) {
        if self.connector.is_opening() {
            self.lose(now, failure.into(), sink);
        }
    }

    fn on_bytes<F: FnMut(S::Event<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F) {
        let was_logged_in = self.session.is_logged_in();
        let Some((host, connection)) = self.connector.open_parts() else { return };
        let mut input = Input { session: &mut self.session, now, host, sink, fault: None };
        let result = connection.on_bytes(now, bytes, &mut input);
        let fault = input.fault;
        if !was_logged_in && self.session.is_logged_in() {
            self.connector.succeeded();
        }
        match result {
            Ok(()) => self.pump(now, sink),
            Err(reason) => self.lose(now, fault.unwrap_or(reason.into()), sink),
        }
    }

    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut dyn FnMut(S::Event<'_>)) {
        if let Some((_, connection)) = self.connector.open_parts() {
            let reason = connection.on_disconnected(cause);
            self.lose(now, reason.into(), sink);
        }
    }

    fn on_wakeup(&mut self, now: Nanos, sink: &mut dyn FnMut(S::Event<'_>)) {
        if let Some(limit_ms) = self.connector.exceeded_ms(now) {
            return self.lose(now, ConnectFailure::Timeout { limit_ms }.into(), sink);
        }
        let Some((_, connection)) = self.connector.open_parts() else { return };
        let kept = connection.on_wakeup(now).map_err(DisconnectReason::from);
        match kept.and_then(|()| self.session.on_wakeup(now, connection.outbound(), sink)) {
            Ok(()) => self.pump(now, sink),
            Err(reason) => {
                connection.stop(Stop::Application);
                self.lose(now, reason, sink);
            }
        }
    }

    fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>> {
        self.connector.probe(now)
    }

    fn on_reachable(&mut self, now: Nanos, sink: &mut dyn FnMut(S::Event<'_>)) {
        if let Some(left) = self.connector.prefer_first(now) {
            sink(S::disconnected(&left, DisconnectReason::Preferred, Some(Duration::ZERO)));
            self.session.on_disconnected(now, sink);
        }
    }

    fn next_wakeup(&self) -> Nanos {
        self.connector.next_wakeup().min(self.session.next_wakeup())
    }

    fn pending(&mut self) -> &[u8] {
        self.connector.connection().map_or(&[], |connection| connection.outbound().flush())
    }

    fn consume(&mut self, _: Nanos, count_bytes: usize) {
        if let Some(connection) = self.connector.connection() {
            connection.outbound().consume(count_bytes);
            self.session.on_drained();
            if connection.outbound().depth_bytes() == 0 {
                self.connector.drop_last();
            }
        }
    }
}
