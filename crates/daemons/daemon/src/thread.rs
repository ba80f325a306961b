use std::cell::RefCell;
use std::io;

use net::{CpusAwake, WaitStrategy, affinity};

config::choice! {
    /// How a thread waits for work.
    pub enum WaitConfig {
        /// Blocks in the kernel until there is work. Leaves the CPU to others.
        Block = "block",
        /// Looks a thousand times more before it blocks.
        Backoff = "backoff",
        /// Never gives the CPU away: the shortest reaction, where each such thread has a CPU of its own.
        Spin = "spin",
    }
}

config::section! {
    /// The thread of a daemon.
    pub struct ThreadConfig {
        /// How the thread waits for work.
        wait: WaitConfig = WaitConfig::Block;
        /// CPU that the thread is kept on.
        cpu: Option<u32> = None;
        /// Real-time priority (SCHED_FIFO) of the thread; an ordinary thread if it is not set. One that spins keeps all
        /// others off its CPU: docs/tuning.md.
        realtime_priority: Option<u8> = None, range 1..=99;
        /// Keeps all CPUs of the machine from sleeping while the daemon runs (/dev/cpu_dma_latency at 0): a thread that
        /// blocks wakes up sooner, and idle CPUs take more power.
        hold_cpus_awake: bool = false;
    }
}

thread_local! {
    /// What the thread has asked the machine for. It is given back when the thread ends.
    static HELD: RefCell<Option<CpusAwake>> = const { RefCell::new(None) };
}

impl ThreadConfig {
    /// The strategy meant.
    #[must_use]
    pub fn strategy(&self) -> WaitStrategy {
        match self.wait {
            WaitConfig::Block => WaitStrategy::Block,
            WaitConfig::Backoff => WaitStrategy::Backoff { spins: 1000 },
            WaitConfig::Spin => WaitStrategy::Spin,
        }
    }

    /// Whether the thread never gives its CPU to an ordinary one.
    #[must_use]
    pub fn hogs_its_cpu(&self) -> bool {
        self.realtime_priority.is_some() && self.wait == WaitConfig::Spin
    }

    /// Puts the calling thread where it is to be, until it ends: on its CPU, before others, on a machine that stays awake.
    ///
    /// # Errors
    /// The CPU does not exist; the process may not take the priority, or open the device; the error says which.
    pub fn enter(&self) -> io::Result<()> {
        self.cpu.map_or(Ok(()), |cpu| affinity::pin_to_cpu(cpu as usize))?;
        if self.hold_cpus_awake {
            let awake = CpusAwake::hold()?;
            HELD.with_borrow_mut(|held| *held = Some(awake));
        }
        self.realtime_priority.map_or(Ok(()), affinity::set_realtime_priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hogs_its_cpu_if_it_spins_before_all_others() {
        let thread =
            |wait, realtime_priority| ThreadConfig { wait, realtime_priority, ..ThreadConfig::default() };
        assert!(thread(WaitConfig::Spin, Some(1)).hogs_its_cpu());
        let polite =
            [(WaitConfig::Spin, None), (WaitConfig::Backoff, Some(99)), (WaitConfig::Block, Some(50))];
        assert!(polite.iter().all(|(wait, priority)| !thread(*wait, *priority).hogs_its_cpu()));
    }

    #[test]
    fn a_thread_gets_the_priority_or_an_error_that_names_it() {
        let entered = std::thread::spawn(|| {
            let config = ThreadConfig { realtime_priority: Some(3), ..ThreadConfig::default() };
            config.enter().map(|()| affinity::realtime_priority().expect("the kernel says it"))
        });
        match entered.join().expect("it does not panic") {
            Ok(priority) => assert_eq!(priority, Some(3)),
            // Who is not root may not.
            Err(error) => {
                assert!(error.to_string().starts_with("cannot take real-time priority 3: "), "{error}")
            }
        }
    }
}
