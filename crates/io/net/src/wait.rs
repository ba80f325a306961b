//! What a thread does when there is nothing to do.

use std::time::Duration;

/// How a thread waits for work.
///
/// On a machine with as many spinning threads as CPUs `Spin` gives the shortest reaction; `Block` leaves the
/// CPU to others and costs a wake-up (16-26 us on a virtual machine, 2-5 us where idle CPUs poll).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Never gives the CPU away.
    Spin,
    /// Lets other threads of this CPU run between two looks.
    Yield,
    /// Looks this many times without waiting, then blocks.
    Backoff {
        /// Looks before blocking.
        spins: u32,
    },
    /// Blocks in the kernel until a socket is ready or a timer is due.
    Block,
}

/// The state of one thread's waiting: how often it has looked in vain.
#[derive(Clone, Debug)]
pub struct Waiter {
    strategy: WaitStrategy,
    idle_count: u32,
}

impl Waiter {
    /// A waiter that has found work last.
    #[must_use]
    pub fn new(strategy: WaitStrategy) -> Waiter {
        Waiter { strategy, idle_count: 0 }
    }

    /// How long the next [`crate::Poller::wait`] may take, given whether the last turn did work and how long
    /// it is until the next timer (`None`: there is none).
    pub fn timeout(&mut self, did_work: bool, until_timer: Option<Duration>) -> Option<Duration> {
        self.idle_count = if did_work { 0 } else { self.idle_count.saturating_add(1) };
        let looks_only = match self.strategy {
            WaitStrategy::Spin => true,
            WaitStrategy::Yield => {
                if self.idle_count > 0 {
                    std::thread::yield_now();
                }
                true
            }
            WaitStrategy::Backoff { spins } => did_work || self.idle_count < spins,
            WaitStrategy::Block => false,
        };
        if looks_only { Some(Duration::ZERO) } else { until_timer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_off_waiter_looks_then_blocks_until_the_timer() {
        let mut waiter = Waiter::new(WaitStrategy::Backoff { spins: 2 });
        let timer = Some(Duration::from_millis(3));
        assert_eq!(waiter.timeout(true, timer), Some(Duration::ZERO));
        assert_eq!(waiter.timeout(false, timer), Some(Duration::ZERO));
        assert_eq!(waiter.timeout(false, timer), timer);
        assert_eq!(waiter.timeout(true, timer), Some(Duration::ZERO));
    }

    #[test]
    fn a_spinning_waiter_never_blocks() {
        let mut waiter = Waiter::new(WaitStrategy::Spin);
        for _ in 0..100 {
            assert_eq!(waiter.timeout(false, None), Some(Duration::ZERO));
        }
    }
}
