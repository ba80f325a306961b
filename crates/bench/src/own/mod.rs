//! Both ends over the messaging library.

mod ends;

pub(crate) use ends::run;

use messaging::Transport;

use crate::pair::{Kind, Path, Way};

/// The transport of ours that goes by a path; none if there is none yet.
pub(crate) fn way(path: Path) -> Option<Way> {
    let (name, key) = match path {
        Path::Shm => ("tickcast, LBT-IPC", "lbtipc"),
        Path::Udp => ("tickcast, LBT-RU", "lbtru"),
        Path::Multicast => ("tickcast, LBT-RM", "lbtrm"),
        Path::Tcp => ("tickcast, TCP", "tcp"),
    };
    transport(key).map(|_| Way::new(name, Kind::Own, key))
}

/// By its name in the configuration.
pub(crate) fn transport(key: &str) -> Option<Transport> {
    Transport::ALL.iter().copied().find(|transport| transport.name() == key)
}
