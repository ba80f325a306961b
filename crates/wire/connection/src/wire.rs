use std::fmt::Debug;
use std::time::Duration;

use counters::table::ConnectionCounters;
use counters::{Counter, Flow};

use crate::{Disconnect, SendBuffer};

/// What a protocol adds to a [`Machine`](crate::Machine): its handshake, its frames, its reasons. The value itself is
/// what one connection keeps from its handshake to its end.
pub trait Wire: Memory + Debug + Sized {
    /// This side's part in the handshake.
    type Handshake: Memory + Debug;
    /// What there is from the end of the handshake to the end of the connection.
    type Open: Memory + Debug;
    /// The way out.
    type Output: Output + Debug;
    /// Why a connection is over.
    type Reason: Copy + Debug + From<Disconnect> + From<TimedOut> + From<<Self::Output as Output>::Stop>;

    /// A third of the ping timeout has passed: gives unused memory back, and pings if the peer would otherwise hear
    /// nothing, or has to show that it lives.
    ///
    /// # Errors
    /// Why the connection is over.
    fn on_tick(
        &mut self,
        open: &mut Self::Open,
        tick: Tick,
        output: &mut Self::Output,
    ) -> Result<(), Self::Reason>;

    /// The connection has ended: completes what was written before, adds the last words to it, gives memory back.
    fn on_closed(&mut self, reason: &Self::Reason, output: &mut Self::Output);

    /// Why a connection is over that the TCP connection has ended in the middle of the handshake.
    fn unfinished(&self, handshake: &Self::Handshake, cause: Disconnect) -> Self::Reason {
        let _ = handshake;
        cause.into()
    }

    /// The name of the compression that was agreed on, as long as it is in use.
    fn compression(open: Option<&Self::Open>, output: &Self::Output) -> Option<&'static str>;

    /// The one counter of a reason.
    fn close_counter<'c>(
        reason: &Self::Reason,
        counters: &'c <Self::Output as Output>::Counters,
    ) -> &'c Counter;
}

/// How a protocol reads what has arrived, for one kind of handler `H`.
pub trait Reads<H: ?Sized>: Wire {
    /// Takes from `bytes` what belongs to the handshake. Nothing is left of them unless it is complete.
    ///
    /// # Errors
    /// Why the connection is over.
    fn read_handshake(
        &mut self,
        handshake: &mut Self::Handshake,
        bytes: &mut &[u8],
        output: &mut Self::Output,
        handler: &mut H,
    ) -> Result<Option<Opened<Self::Open>>, Self::Reason>;

    /// Hands to `handler` what is complete with `bytes`, and adds to `flow` what it was, but for its bytes.
    ///
    /// # Errors
    /// Why the connection is over.
    fn read_frames(
        &mut self,
        open: &mut Self::Open,
        bytes: &[u8],
        output: &mut Self::Output,
        handler: &mut H,
        flow: &mut Flow,
    ) -> Result<(), Self::Reason>;
}

/// The way out of a connection as its driver uses it: frames wait in a [`SendBuffer`] for the socket.
pub trait Output: Memory {
    /// What is counted of connections.
    type Counters: ConnectionCounters;
    /// Why this side ends a connection.
    type Stop;
    /// This side ends it for a reason of its own.
    const APPLICATION: Self::Stop;

    /// This side ends it because the oldest byte for the peer has waited so many milliseconds.
    #[must_use]
    fn stalled(waited_ms: u32) -> Self::Stop;

    /// Where bytes wait for the socket.
    fn buffer(&self) -> &SendBuffer<Self::Counters>;

    /// Completes what is written. All bytes that wait for the socket, in whole frames.
    fn flush(&mut self) -> &[u8];

    /// The socket has taken the first `count_bytes` of [`Output::flush`].
    ///
    /// # Panics
    /// If that is more than is pending.
    fn consume(&mut self, count_bytes: usize);

    /// Takes over frames of which the socket has taken the first `written_bytes`; the rest waits behind what is
    /// pending.
    ///
    /// # Errors
    /// The rest does not fit: the stream has a hole and the connection must be closed.
    ///
    /// # Panics
    /// If `written_bytes` is more than there are.
    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), Self::Stop>;
}

/// What uses memory of the heap.
pub trait Memory {
    /// Heap memory in use.
    fn memory_bytes(&self) -> usize;
}

/// What a handshake has led to.
#[derive(Debug)]
pub struct Opened<O> {
    /// The open connection.
    pub open: O,
    /// The peer is pinged each third of it, and given up when it is silent for so long.
    pub ping_timeout: Duration,
    /// The peer has agreed to ping: it may not be silent.
    pub peer_pings: bool,
    /// This side has agreed to ping.
    pub we_ping: bool,
}

/// A third of the ping timeout has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// This side has agreed to ping.
    pub may_ping: bool,
    /// Something has arrived since the last tick.
    pub heard: bool,
}

/// A peer was not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// The handshake was not completed before its deadline.
    Handshake {
        /// Time allowed.
        limit_ms: u32,
    },
    /// Nothing arrived for the whole ping timeout.
    Silent {
        /// The ping timeout.
        limit_ms: u32,
    },
}
