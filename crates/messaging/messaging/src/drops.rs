//! What the kernel drops because a socket's buffer is full.

use std::time::Duration;

use counters::table::MessagingContext;
use net::udp::UdpSocket;
use units::Nanos;

/// When the kernel is asked how many datagrams it has dropped. It tells nobody, but what is dropped is missed, and what
/// is missed is due to be asked for: so a context looks when it wakes up for something, and not too often.
#[derive(Default)]
pub(crate) struct Drops {
    /// Not before.
    due: Nanos,
    /// It was woken since the last look.
    owed: bool,
    /// The socket that is asked first by the next look, if the last one has not come to the end.
    first: usize,
}

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Sockets that one look asks; the next ones are asked soon after.
const SOCKETS_PER_LOOK: usize = 256;
const GO_ON_AFTER: Duration = Duration::from_millis(10);

impl Drops {
    /// Asks some sockets, if a look at them is due.
    pub(crate) fn look<'a>(
        &mut self,
        now: Nanos,
        sockets: impl Iterator<Item = &'a UdpSocket>,
        counters: &MessagingContext,
    ) {
        if !self.on_wakeup(now) {
            return;
        }
        let (mut dropped, mut count) = (0, 0);
        for socket in sockets.skip(self.first).take(SOCKETS_PER_LOOK) {
            (dropped, count) = (dropped + u64::from(socket.new_drops()), count + 1);
        }
        self.on_look(now, count);
        counters.datagrams_dropped_by_kernel.add(dropped);
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        if self.owed { self.due } else { Nanos::NEVER }
    }

    /// Something was due at `now`; whether it is time to look.
    fn on_wakeup(&mut self, now: Nanos) -> bool {
        let looks = now >= self.due;
        if looks {
            self.due = now + LOOK_EVERY;
        }
        self.owed = !looks;
        looks
    }

    /// A look has asked `count` sockets from the first that it had to.
    fn on_look(&mut self, now: Nanos, count: usize) {
        if count < SOCKETS_PER_LOOK {
            self.first = 0;
        } else {
            self.first += count;
            (self.owed, self.due) = (true, now + GO_ON_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_owed_for_a_wakeup_soon_after_one_and_no_look_follows_another_by_itself() {
        let ms = |n: u64| Nanos(n * 1_000_000);
        let mut drops = Drops::default();
        assert!(drops.on_wakeup(ms(10)));
        assert_eq!(drops.next_wakeup(), Nanos::NEVER);
        assert!(!drops.on_wakeup(ms(20)));
        assert_eq!(drops.next_wakeup(), ms(260));
        assert!(drops.on_wakeup(ms(260)));
        assert_eq!(drops.next_wakeup(), Nanos::NEVER);
    }

    #[test]
    fn a_look_asks_some_of_many_sockets_and_the_next_ones_go_on_soon() {
        let ms = |n: u64| Nanos(n * 1_000_000);
        let mut drops = Drops::default();
        assert!(drops.on_wakeup(ms(10)));
        drops.on_look(ms(10), SOCKETS_PER_LOOK);
        assert_eq!((drops.first, drops.next_wakeup()), (SOCKETS_PER_LOOK, ms(20)));
        assert!(drops.on_wakeup(ms(20)));
        drops.on_look(ms(20), 3);
        assert_eq!((drops.first, drops.next_wakeup()), (0, Nanos::NEVER));
    }
}
