//! Both ends over the messaging library.

mod ends;
mod settings;

pub(crate) use ends::run;
pub(crate) use settings::Settings;

use clap::ValueEnum;
use messaging::{Carrier, Transport};

use crate::pair::{Contender, Kind, Path};

/// The mode of LBT-RM by AF_XDP; other modes are the transports' names in the configuration.
const AF_XDP: &str = "lbtrm, af_xdp";

/// Which ends of a pair of hosts bypass the kernel's network stack, by AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bypass {
    /// Both ends.
    Both,
    /// The sender alone (of a ping-pong the end that asks).
    Sender,
    /// The receiver alone (of a ping-pong the end that answers).
    Receiver,
    /// Neither: sockets at both ends.
    None,
}

impl std::fmt::Display for Bypass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Bypass::Both => "both",
            Bypass::Sender => "sender",
            Bypass::Receiver => "receiver",
            Bypass::None => "none",
        })
    }
}

/// Which ends of a way over `veth` take part unless something else is asked for.
pub(crate) const BYPASSES: [Bypass; 2] = [Bypass::Both, Bypass::None];

/// The transports of ours that go by a path; between two hosts in these ways.
pub(crate) fn contenders(path: Path, bypasses: &[Bypass]) -> Vec<Contender> {
    let own = |name: &str, mode| Contender::new(name, Kind::Own, mode);
    match path {
        Path::Shm => vec![own("tickcast, LBT-IPC", "lbtipc")],
        Path::Udp => vec![own("tickcast, LBT-RU", "lbtru")],
        Path::Multicast => vec![own("tickcast, LBT-RM", "lbtrm")],
        Path::Tcp => vec![own("tickcast, TCP", "tcp")],
        Path::Veth => {
            let way = |bypass: &Bypass| match bypass {
                Bypass::Both => own("tickcast, AF_XDP", AF_XDP),
                Bypass::Sender => own("tickcast, AF_XDP at the sender", AF_XDP).with_far("lbtrm"),
                Bypass::Receiver => own("tickcast, AF_XDP at the receiver", "lbtrm").with_far(AF_XDP),
                Bypass::None => own("tickcast, sockets", "lbtrm"),
            };
            bypasses.iter().map(way).collect()
        }
    }
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
