//! What a driver and a core say to each other.

use rssl::Disconnect;
use units::Nanos;

use crate::{Attempt, ConnectFailure, Socket};

/// A client session without its socket: [`ConsumerCore`](crate::ConsumerCore),
/// [`ProviderCore`](crate::ProviderCore).
///
/// The driver (or the simulator) keeps to this order, again and again:
///
/// 1. [`socket`](Endpoint::socket): close or open the TCP connection as told;
/// 2. say what became of it and what it had to read: [`on_established`](Endpoint::on_established),
///    [`on_connect_failed`](Endpoint::on_connect_failed), [`on_bytes`](Endpoint::on_bytes),
///    [`on_disconnected`](Endpoint::on_disconnected);
/// 3. [`on_wakeup`](Endpoint::on_wakeup) and [`probe`](Endpoint::probe) when
///    [`next_wakeup`](Endpoint::next_wakeup) is reached;
/// 4. write [`pending`](Endpoint::pending), and [`consume`](Endpoint::consume) what the socket took.
///
/// Inputs for a socket that the core does not know of (any more) are ignored.
pub trait Endpoint: 'static {
    /// What the application is told. It borrows from the message at hand.
    type Event<'a>;

    /// What the socket is to be now.
    fn socket(&mut self, now: Nanos) -> Socket<'_>;

    /// The TCP connection stands.
    fn on_established(&mut self, now: Nanos);

    /// The TCP connection could not be made.
    fn on_connect_failed(
        &mut self,
        now: Nanos,
        failure: ConnectFailure,
        sink: &mut dyn FnMut(Self::Event<'_>),
    );

    /// Bytes were read, in pieces of any size.
    fn on_bytes<F: FnMut(Self::Event<'_>)>(&mut self, now: Nanos, bytes: &[u8], sink: &mut F);

    /// The TCP connection has ended.
    fn on_disconnected(&mut self, now: Nanos, cause: Disconnect, sink: &mut dyn FnMut(Self::Event<'_>));

    /// A time is reached. Read the socket first: what waits there counts as heard.
    fn on_wakeup(&mut self, now: Nanos, sink: &mut dyn FnMut(Self::Event<'_>));

    /// The preferred server if it is time to look whether it takes TCP connections again, while the session
    /// is at another. Said once for each look.
    fn probe(&mut self, now: Nanos) -> Option<Attempt<'_>>;

    /// The preferred server takes connections: the session moves to it.
    fn on_reachable(&mut self, now: Nanos, sink: &mut dyn FnMut(Self::Event<'_>));

    /// When [`on_wakeup`](Endpoint::on_wakeup) or [`socket`](Endpoint::socket) is to be called again,
    /// whatever the socket does; [`Nanos::NEVER`] if there is no such time.
    fn next_wakeup(&self) -> Nanos;

    /// Completes what was written and returns what waits for the socket.
    fn pending(&mut self) -> &[u8];

    /// The socket took the first `count_bytes` of [`pending`](Endpoint::pending).
    fn consume(&mut self, now: Nanos, count_bytes: usize);
}
