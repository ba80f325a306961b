//! Sessions of datagrams whose sources have ended: until when each is needed.

use units::Nanos;

use crate::closing::Patience;

/// What the end of a session of datagrams has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    /// When everything had been said and sent.
    said_at: Option<Nanos>,
    /// Since when no receiver that is known is behind.
    caught_up_at: Option<Nanos>,
    /// How often it was said that messages are given up.
    given_up: u32,
}

impl Farewell {
    /// Everything has been said and sent; whether that is new.
    pub(super) fn begin(&mut self, now: Nanos) -> bool {
        let is_new = self.said_at.is_none();
        self.said_at.get_or_insert(now);
        is_new
    }

    /// So many receivers have not heard of everything.
    pub(super) fn note_behind(&mut self, now: Nanos, behind: usize) {
        self.caught_up_at = if behind > 0 { None } else { self.caught_up_at.or(Some(now)) };
    }

    /// Whether it was said already that messages are given up.
    pub(super) fn gives_up_again(&self) -> bool {
        self.given_up > 0
    }

    /// It was said that messages are given up.
    pub(super) fn count(&mut self) {
        self.given_up += 1;
    }

    /// Whether nobody needs the session any more. `asked` is when a receiver last did.
    pub(super) fn is_over(&self, now: Nanos, asked: Nanos, patience: &Patience) -> bool {
        let (Some(said_at), Some(caught_up_at)) = (self.said_at, self.caught_up_at) else { return false };
        let repaired = if asked > said_at { asked + patience.repair } else { Nanos::ZERO };
        now >= (said_at.max(caught_up_at) + patience.quiet).max(repaired)
    }
}
