//! Who has connected to the request port, and what of a message has not come whole.

use std::net::IpAddr;

use units::Nanos;

/// A connection that was accepted.
pub(super) struct Guest {
    pub(super) address: IpAddr,
    pub(super) since: Nanos,
    /// It has brought a whole message, or the application has sent to it.
    pub(super) is_proven: bool,
}

/// What a connection holds of a message that is not whole.
pub(super) struct Partial {
    /// Bytes held, of which all connections' are the sum.
    pub(super) held: u64,
    /// When it began or last went on; never if there is none.
    pub(super) since: Nanos,
    /// Bytes that have come since.
    pub(super) bytes: u64,
}

impl Default for Partial {
    fn default() -> Partial {
        Partial { held: 0, since: Nanos::NEVER, bytes: 0 }
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy)]
pub(super) enum Overdue {
    Silent,
    Idle,
    Message,
}
