//! The paths to a peer that is on two networks: where one brings nothing, the connection goes on by the other.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;

use units::Nanos;

/// The two paths to a peer, and what is to be sent again if the other one is taken: a connection for answers keeps
/// what waits, from the first one on of which the peer's kernel has not acknowledged all. The application's has two
/// paths until it stands.
pub(super) struct PathFailover {
    paths: [SocketAddrV4; 2],
    /// Which of them is taken.
    at: usize,
    /// Where the answers end in what is kept.
    ends: VecDeque<usize>,
    /// Bytes of it that were acknowledged.
    acknowledged: usize,
    /// When that was last more, or there was nothing to acknowledge.
    moved: Nanos,
    /// Paths that were taken in vain since.
    tries: u32,
}

/// How long a peer may acknowledge nothing of what is under way, be it the wish to connect, before the other path is
/// taken. A network that works acknowledges within a round trip, or within some tenths of a second where packets are
/// lost; a peer that takes nothing acknowledges as well.
const PATIENCE: Duration = Duration::from_secs(1);
/// After so many the peer is taken for gone.
const TRIES_MAX: u32 = 8;

impl PathFailover {
    pub(super) fn new(paths: [SocketAddrV4; 2], now: Nanos) -> PathFailover {
        let (ends, acknowledged) = (VecDeque::new(), 0);
        PathFailover { paths, at: 0, ends, acknowledged, moved: now, tries: 0 }
    }

    /// Takes the other path.
    pub(super) fn switch(&mut self) -> SocketAddrV4 {
        self.at = 1 - self.at;
        self.paths[self.at]
    }

    /// An answer was appended, which ends there.
    pub(super) fn on_answer(&mut self, end: usize) {
        self.ends.push_back(end);
    }

    /// So many bytes of what is kept were acknowledged; `is_idle` where nothing waits to be. Returns the bytes of
    /// whole answers that have arrived, which need not be kept.
    pub(super) fn on_acknowledged(&mut self, now: Nanos, acknowledged: usize, is_idle: bool) -> usize {
        if acknowledged > self.acknowledged || is_idle {
            (self.moved, self.tries) = (now, 0);
        }
        let arrived = self.ends.iter().take_while(|end| **end <= acknowledged).count();
        let bytes = self.ends.drain(..arrived).next_back().unwrap_or(0);
        self.ends.iter_mut().for_each(|end| *end -= bytes);
        self.acknowledged = acknowledged - bytes;
        bytes
    }

    /// When the other path is to be taken, if nothing is acknowledged till then.
    pub(super) fn due(&self) -> Nanos {
        self.moved + PATIENCE
    }

    /// Begins to connect by the other path; none after too many attempts in vain.
    pub(super) fn next_attempt(&mut self) -> Option<SocketAddrV4> {
        if self.tries == TRIES_MAX {
            return None;
        }
        self.tries += 1;
        Some(self.switch())
    }

    /// All that is kept goes out again from now on.
    pub(super) fn begin_anew(&mut self, now: Nanos) {
        (self.acknowledged, self.moved) = (0, now);
    }
}
