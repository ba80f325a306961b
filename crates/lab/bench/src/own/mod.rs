//! Both ends over the messaging library.

mod ends;
mod settings;

pub(crate) use ends::run;
pub(crate) use settings::Settings;

use messaging::{Carrier, Transport};

use crate::pair::{Contender, Kind, Path};

/// The mode of LBT-RM by AF_XDP; other modes are the transports' names in the configuration.
const AF_XDP: &str = "lbtrm, af_xdp";

/// The transports of ours that go by a path.
pub(crate) fn contenders(path: Path) -> Vec<Contender> {
    let contenders = match path {
        Path::Shm => &[("tickcast, LBT-IPC", "lbtipc")][..],
        Path::Udp => &[("tickcast, LBT-RU", "lbtru")],
        Path::Multicast => &[("tickcast, LBT-RM", "lbtrm")],
        Path::Tcp => &[("tickcast, TCP", "tcp")],
        Path::Veth => &[("tickcast, AF_XDP", AF_XDP), ("tickcast, sockets", "lbtrm")],
    };
    contenders.iter().map(|(name, mode)| Contender::new(*name, Kind::Own, mode)).collect()
}

/// Whether nothing holds the sender of a mode back when the receiver cannot follow, so that it needs a rate.
pub(crate) fn needs_rate(mode: &str) -> bool {
    matches!(by_mode(mode), Some((Transport::LbtRm | Transport::LbtRu, _)))
}

/// What a mode stands for.
fn by_mode(mode: &str) -> Option<(Transport, Carrier)> {
    if mode == AF_XDP {
        return Some((Transport::LbtRm, Carrier::AfXdp));
    }
    transport(mode).map(|transport| (transport, Carrier::Socket))
}

/// By its name in the configuration.
pub(crate) fn transport(key: &str) -> Option<Transport> {
    Transport::ALL.iter().copied().find(|transport| transport.name() == key)
}
