//! Connections that this side has ended while the peer may still send. A socket that is closed with unread input resets
//! the connection, and what was sent last may never be read. So the output is ended, and what comes is dropped for a
//! while, until the peer has ended its side as well.

use std::time::Duration;

use net::tcp::Moved;
use net::{Registrar, Transport};
use units::Nanos;

/// Most of them; others are closed at once.
const ENDED_MAX: usize = 64;
/// For so long, and up to so many bytes, what a peer sends is dropped.
const DRAIN_TIME: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 1 << 20;
/// What is read in one go at least.
const READ_BYTES_MIN: usize = 16 << 10;
/// They are looked at as often as this, for they are not in the poller.
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct EndedConnections {
    all: Vec<Ended>,
    look_at: Nanos,
}

struct Ended {
    stream: Transport,
    output_ended: bool,
    until: Nanos,
    left_bytes: usize,
}

impl EndedConnections {
    /// Takes a connection over that was in the poller.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        stream: Transport,
        registrar: &Registrar,
        buffer: &mut Vec<u8>,
    ) {
        if self.all.len() < ENDED_MAX && registrar.remove(&stream).is_ok() {
            let until = now + DRAIN_TIME;
            let mut ended = Ended { stream, output_ended: false, until, left_bytes: DRAIN_BYTES };
            if ended.goes_on(now, buffer) {
                self.look_at = self.next_wakeup().min(now + LOOK_EVERY);
                self.all.push(ended);
            }
        }
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        if self.all.is_empty() { Nanos::NEVER } else { self.look_at }
    }

    pub(super) fn on_wakeup(&mut self, now: Nanos, buffer: &mut Vec<u8>) {
        if now >= self.next_wakeup() {
            self.all.retain_mut(|ended| ended.goes_on(now, buffer));
            self.look_at = now + LOOK_EVERY;
        }
    }
}

impl Ended {
    /// Drops what has come; tells whether the peer may send more.
    fn goes_on(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> bool {
        buffer.resize(buffer.len().max(READ_BYTES_MIN), 0);
        if !self.output_ended {
            match self.stream.end_output() {
                Ok(is_over) => self.output_ended = is_over,
                // It is broken: nothing is to be ended.
                Err(_) => return false,
            }
        }
        while now < self.until && self.left_bytes > 0 {
            match self.stream.read(buffer) {
                Ok(Moved::Bytes(count)) => self.left_bytes = self.left_bytes.saturating_sub(count),
                Ok(Moved::WouldBlock) => return true,
                Ok(Moved::End) | Err(_) => return false,
            }
        }
        false
    }
}
