//! What is not done yet, and what may be done of it in a turn.

use std::collections::{HashMap, HashSet, VecDeque, btree_map, hash_map};

use units::Nanos;

use super::base::ClientId;
use super::client::{Client, Stream};

/// Tasks that are not done, and what may be done of them in this turn.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    /// Whose turn it is; each is in the set of those that are enlisted.
    pub(super) queue: VecDeque<Task>,
    pub(super) enlisted: HashSet<Task>,
    pub(super) gone: HashMap<ClientId, Gone>,
    /// Conversations to be closed, of private streams of nobody.
    pub(super) private: Vec<u64>,
    /// Work left in this turn.
    pub(super) left: usize,
    /// When the work of a turn was granted last.
    pub(super) granted_at: Nanos,
    /// Sweeps so far.
    pub(super) sweeps: u64,
    /// The work of a turn.
    per_turn: usize,
    pub(super) is_running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Client(ClientId),
    /// Private streams of clients whose numbers are used again.
    Private,
    Service(u16),
}

/// What is left of a client that is gone.
#[derive(Debug)]
pub(super) struct Gone {
    /// What stands beside its streams. It stays where it is: when thousands leave at once, their table grows, and moves
    /// all of them.
    pub(super) known: Box<Client>,
    pub(super) streams: hash_map::IntoIter<i32, Stream>,
    pub(super) private: btree_map::IntoIter<i32, u64>,
}

impl Cleanups {
    /// Nothing is left undone; so much may be done in a turn.
    pub(super) fn new(per_turn: usize) -> Cleanups {
        Cleanups { per_turn, ..Cleanups::default() }
    }

    #[cfg(test)]
    pub(super) fn set_per_turn(&mut self, per_turn: usize) {
        self.per_turn = per_turn;
    }

    /// Whether anything is not done.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The number of the last sweep: those up to it do not concern an item that is new.
    pub(super) fn last_sweep(&self) -> u64 {
        self.sweeps
    }
}

impl Cleanups {
    /// The work of a turn may be done from now on.
    pub(super) fn grant_cleanups(&mut self, now: Nanos) {
        self.left = self.per_turn;
        self.granted_at = now;
    }

    /// Takes so much of the turn's work, if there is any left.
    pub(super) fn take_cleanup(&mut self, work: usize) -> bool {
        let had = self.left > 0;
        self.left = self.left.saturating_sub(work);
        had
    }

    /// When clean-ups go on: with the next turn, if anything is not done.
    pub(super) fn next_cleanup(&self) -> Nanos {
        if self.is_busy() { self.granted_at } else { Nanos::NEVER }
    }

    pub(super) fn enlist(&mut self, task: Task) {
        if self.enlisted.insert(task) {
            self.queue.push_back(task);
        }
    }
}
