use units::Nanos;

/// How much of a turn goes to those who have not proved anything.
#[derive(Default)]
pub(super) struct Handshakes {
    /// The turn, by its time.
    turn: Nanos,
    steps: u32,
}

/// Steps of handshakes in a turn, each some 0.1 ms; the poller tells of the others again.
const HANDSHAKE_STEPS_MAX: u32 = 16;

impl Handshakes {
    /// Whether there is no room for another step in the turn at `now`; if there is, it is taken.
    pub(super) fn are_many(&mut self, now: Nanos) -> bool {
        if self.turn != now {
            *self = Handshakes { turn: now, steps: 0 };
        }
        self.steps += 1;
        self.steps > HANDSHAKE_STEPS_MAX
    }
}
