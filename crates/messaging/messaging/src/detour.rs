//! Connections to who is on two networks: what one does not bring there goes on by the other.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;

use units::Nanos;

/// The two ways to a peer, and what is to be sent again if the other one is taken: a connection for answers keeps
/// what waits, from the first one on of which the peer's kernel has not acknowledged all. The application's has two
/// ways until it stands.
pub(crate) struct Detour {
    pub(crate) ways: [SocketAddrV4; 2],
    /// Which of them is taken.
    pub(crate) at: usize,
    /// Where the answers end in what is kept.
    pub(crate) ends: VecDeque<usize>,
    /// Bytes of it that were acknowledged.
    pub(crate) acknowledged: usize,
    /// When that was last more, or there was nothing to acknowledge.
    pub(crate) moved: Nanos,
    /// Ways that were taken in vain since.
    pub(crate) tries: u32,
}

/// How long a peer may acknowledge nothing of what is under way, be it the wish to connect, before the other way is
/// taken. A network that works acknowledges within a round trip, or within some tenths of a second where packets are
/// lost; a peer that takes nothing acknowledges as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// After so many the peer is taken for gone.
pub(crate) const TRIES_MAX: u32 = 8;

impl Detour {
    pub(crate) fn new(ways: [SocketAddrV4; 2], now: Nanos) -> Detour {
        let (ends, acknowledged) = (VecDeque::new(), 0);
        Detour { ways, at: 0, ends, acknowledged, moved: now, tries: 0 }
    }

    /// Takes the other way.
    pub(crate) fn turn(&mut self) -> SocketAddrV4 {
        self.at = 1 - self.at;
        self.ways[self.at]
    }

    /// An answer was appended, which ends there.
    pub(crate) fn on_answer(&mut self, end: usize) {
        self.ends.push_back(end);
    }
}
