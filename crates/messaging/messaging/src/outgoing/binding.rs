//! Where a new session is bound: somewhere in a range of ports, or where the configuration fixes it.

use crate::MessagingConfig;

/// Ports of which a session takes the first that is free, and its session id; one is drawn if there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    pub(super) low: u16,
    pub(super) high: u16,
    pub(super) session_id: Option<u32>,
    /// Its next run will be there too, and nothing but a number of its own will tell the two from one another.
    pub(super) is_fixed: bool,
}

impl Binding {
    pub(super) fn rm(config: &MessagingConfig) -> Binding {
        Binding::range(config.lbtrm.source_port_low, config.lbtrm.source_port_high)
    }

    pub(super) fn tcp(config: &MessagingConfig) -> Binding {
        Binding::range(config.tcp.port_low, config.tcp.port_high)
    }

    pub(super) fn ru(config: &MessagingConfig) -> Binding {
        Binding::range(config.lbtru.port_low, config.lbtru.port_high)
    }

    fn range(low: u16, high: u16) -> Binding {
        Binding { low, high, session_id: None, is_fixed: false }
    }

    pub(super) fn fixed(port: u16, session_id: Option<u32>) -> Binding {
        Binding { low: port, high: port, session_id, is_fixed: true }
    }
}
