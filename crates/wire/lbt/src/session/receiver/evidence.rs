//! How far what single packets say of a source is borne out by others: one packet may be forged.

use std::time::Duration;
use units::Nanos;

/// Numbers that one packet may have given up by its word alone.
const FEW: u64 = 16;
/// Within this time copies of a packet come.
pub(super) const COPIES: Duration = Duration::from_millis(10);

/// What more than one packet has said.
#[derive(Default)]
pub(super) struct Evidence {
    /// What is below is known to have been sent, of more than one packet: of the rest only the one says so that is the
    /// highest.
    certain: u64,
    /// What is missing below is given up in time.
    proven: u64,
    /// When the highest came.
    raised: Nanos,
    trail: Trail,
}

/// What packets said of the source's trailing edge.
#[derive(Default)]
struct Trail {
    /// Which packet told it last.
    by: u64,
    told: u64,
    /// What another had told before.
    before: u64,
}

impl Evidence {
    /// What is below is known to have been sent.
    pub(super) fn certain(&self) -> u64 {
        self.certain
    }

    /// What is missing below is given up in time.
    pub(super) fn proven(&self) -> u64 {
        self.proven
    }

    /// A packet says that everything below `end` was sent; before, `next` came next. So few are missing in time if it
    /// alone says so; more are asked for, and are missing only when another packet has borne it out.
    pub(super) fn raise(&mut self, now: Nanos, next: u64, end: u64) {
        self.proven = if end - next <= FEW { end } else { next };
        (self.certain, self.raised) = (next, now);
    }

    /// A part of what a packet says is asked for, from `next` on, though it is not believed.
    pub(super) fn probe(&mut self, now: Nanos, next: u64) {
        (self.certain, self.proven, self.raised) = (next, next, now);
    }

    /// Everything below `end` was sent, another packet says too.
    pub(super) fn bear_out(&mut self, end: u64) {
        (self.certain, self.proven) = (self.certain.max(end), self.proven.max(end));
    }

    /// Everything below `next`, which comes next, was sent.
    pub(super) fn settle(&mut self, next: u64) {
        (self.certain, self.proven) = (next, next);
    }

    /// Whether what comes now is no copy of the packet that was the highest.
    pub(super) fn is_past_copies(&self, now: Nanos) -> bool {
        now >= self.raised + COPIES
    }

    /// The source has nothing below `trail` any more, packet `by` says. Below what that is believed: as far as the packet
    /// before said so too.
    pub(super) fn on_trail(&mut self, trail: u64, by: u64) -> u64 {
        // A copy bears nothing out.
        if by != self.trail.by {
            self.trail = Trail { by, told: trail, before: self.trail.told };
        }
        trail.min(self.proven).min(self.trail.before)
    }

    /// What packet `by` says of the trailing edge is believed.
    pub(super) fn settle_trail(&mut self, trail: u64, by: u64) {
        self.trail = Trail { by, told: trail, before: trail };
    }
}
