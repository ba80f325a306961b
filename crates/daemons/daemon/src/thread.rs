use std::io;

use net::WaitStrategy;

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
    }
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

    /// Puts the calling thread where it is to be.
    ///
    /// # Errors
    /// The CPU does not exist.
    pub fn enter(&self) -> io::Result<()> {
        self.cpu.map_or(Ok(()), |cpu| net::affinity::pin_to_cpu(cpu as usize))
    }
}
