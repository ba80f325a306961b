//! `[messaging.ipc]`: shared memory.

use lbt::ordered::OrderedConfig;

use super::IpcBehavior;
use crate::MessagingConfig;

config::section! {
    /// LBT-IPC: shared memory of one host.
    pub struct IpcConfig {
        /// Where the files of sessions lie: a file system in memory.
        directory: String = "/dev/shm", length 1..=64;
        /// Group whose members may receive sessions that this process opens, by name or number; the
        /// process must be a member. Without, only its own user and root may.
        group: Option<String> = None, length 1..=64;
        /// Who waits for whom in sessions.
        behavior: IpcBehavior = IpcBehavior::SourcePaced;
        /// Memory of a session, rounded up to a power of two. The thread takes all of it when it makes
        /// the first source, and does nothing else meanwhile (about a second for 1 GiB).
        transmission_window_size_bytes: u64 = 16_777_216, range 2_097_152..=1_073_741_824;
        /// Longest LBMC message; longer ones travel in fragments.
        datagram_max_size_bytes: u32 = 65_535, range 500..=65_535;
        /// A receiver that a receiver-paced session waits for so long is dropped; 0 for never.
        receiver_stopped_timeout_us: u64 = 10_000_000, range 0..=3_600_000_000;
    }
}

impl MessagingConfig {
    /// What a sender of a session of shared memory goes by.
    #[must_use]
    pub fn ipc_source(&self) -> OrderedConfig {
        OrderedConfig { datagram_max_size: self.ipc.datagram_max_size_bytes, ..self.tcp_source() }
    }
}
