use std::time::Duration;

use units::Nanos;

/// When to ping and when to give a silent peer up.
///
/// A tick comes each third of the ping timeout. The silence of the peer is judged at the exact end of its
/// timeout, with one exception: when this side's own wake-up came more than a tick late, then nobody read the
/// socket in the meantime, and that time is not held against the peer.
#[derive(Debug)]
pub struct Heartbeat {
    timeout: Duration,
    heard_at: Nanos,
    next_tick: Nanos,
    wake_at: Nanos,
    peer_pings: bool,
    we_ping: bool,
}

/// What is due at a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Nothing: called early, or only to look after the peer.
    Nothing,
    /// A third of the ping timeout has passed.
    Tick {
        /// A ping is due unless something else was written.
        ping: bool,
    },
    /// The peer was silent for the whole timeout.
    Silent,
}

impl Heartbeat {
    /// `peer_pings` and `we_ping` are what both sides agreed on; a peer that does not ping may be silent.
    #[must_use]
    pub fn new(now: Nanos, timeout: Duration, peer_pings: bool, we_ping: bool) -> Heartbeat {
        let first = now.after(timeout / 3);
        Heartbeat { timeout, heard_at: now, next_tick: first, wake_at: first, peer_pings, we_ping }
    }

    /// Begins anew with another timeout.
    pub fn restart(&mut self, now: Nanos, timeout: Duration) {
        *self = Heartbeat::new(now, timeout, self.peer_pings, self.we_ping);
    }

    /// The ping timeout.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Something arrived.
    #[inline]
    pub fn heard(&mut self, now: Nanos) {
        self.heard_at = now;
    }

    /// When [`Heartbeat::on_wakeup`] has something to do. Moves in `on_wakeup` only, not with each arrival.
    #[must_use]
    pub fn wake_at(&self) -> Nanos {
        self.wake_at
    }

    /// What is due, and whether this side had stalled.
    pub fn on_wakeup(&mut self, now: Nanos) -> (Beat, bool) {
        if now < self.wake_at {
            return (Beat::Nothing, false);
        }
        let late = now.since(self.wake_at);
        let stalled = late > self.timeout / 3;
        if stalled {
            self.heard_at = self.heard_at.after(late).min(now);
        }
        if self.peer_pings && now.since(self.heard_at) >= self.timeout {
            return (Beat::Silent, stalled);
        }
        let beat = self.tick(now);
        let judged_at = if self.peer_pings { self.heard_at.after(self.timeout) } else { Nanos::NEVER };
        self.wake_at = self.next_tick.min(judged_at);
        (beat, stalled)
    }

    fn tick(&mut self, now: Nanos) -> Beat {
        if now < self.next_tick {
            return Beat::Nothing;
        }
        self.next_tick = now.after(self.timeout / 3);
        Beat::Tick { ping: self.we_ping }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * SECOND)
    }

    fn thirty_seconds() -> Heartbeat {
        Heartbeat::new(at(0), Duration::from_secs(30), true, true)
    }

    const PING: Beat = Beat::Tick { ping: true };

    #[test]
    fn ticks_come_each_third_of_the_timeout() {
        let mut heart = thirty_seconds();
        for second in 1..100 {
            heart.heard(at(second));
            let expected = if second % 10 == 0 { PING } else { Beat::Nothing };
            assert_eq!(heart.on_wakeup(at(second)), (expected, false), "{second}");
        }
    }

    #[test]
    fn a_silent_peer_is_given_up_at_the_exact_end_of_its_timeout() {
        let mut heart = thirty_seconds();
        heart.heard(at(7));
        let mut wakes = Vec::new();
        loop {
            let now = heart.wake_at();
            wakes.push(now);
            if heart.on_wakeup(now).0 == Beat::Silent {
                break;
            }
        }
        assert_eq!(wakes, [at(10), at(20), at(30), at(37)]);
    }

    #[test]
    fn one_byte_before_the_end_of_the_timeout_is_enough() {
        let mut heart = thirty_seconds();
        for tick in [10, 20] {
            heart.on_wakeup(at(tick));
        }
        heart.heard(Nanos(30 * SECOND - 1));
        assert_eq!(heart.on_wakeup(at(30)), (PING, false));
    }

    #[test]
    fn time_this_side_slept_is_not_held_against_the_peer() {
        let mut heart = thirty_seconds();
        assert_eq!(heart.on_wakeup(at(100)), (PING, true));
        assert_eq!(heart.wake_at(), at(110));
        assert_eq!(heart.on_wakeup(at(110)), (PING, false));
        assert_eq!(heart.on_wakeup(at(120)), (Beat::Silent, false));
    }

    #[test]
    fn a_late_wake_up_does_not_move_the_last_arrival_into_the_future() {
        let mut heart = thirty_seconds();
        heart.heard(at(99));
        heart.on_wakeup(at(100));
        assert_eq!(heart.heard_at, at(100));
    }

    #[test]
    fn a_peer_that_does_not_ping_may_be_silent() {
        let mut heart = Heartbeat::new(at(0), Duration::from_secs(30), false, false);
        for tick in 1..20 {
            assert_eq!(heart.on_wakeup(at(10 * tick)), (Beat::Tick { ping: false }, false));
        }
    }
}
