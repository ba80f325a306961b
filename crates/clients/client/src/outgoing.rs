//! Messages of the application on their way into the backlog.

use rssl::{ApiMisuse, Outbound, SendError};

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The backlog is full.
    WouldBlock { pending_bytes: usize, limit_bytes: usize },
    /// The message is longer than the whole backlog.
    TooLong { bytes: usize, limit_bytes: usize },
}

/// Puts a message into the backlog.
#[inline]
pub(crate) fn push(out: &mut Outbound, bytes: &[u8]) -> Result<(), Refusal> {
    match out.push(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(refusal(error, out)),
    }
}

#[cold]
fn refusal(error: SendError, out: &Outbound) -> Refusal {
    match error {
        SendError::Misuse(ApiMisuse::MessageTooLong { bytes, limit_bytes }) => {
            Refusal::TooLong { bytes, limit_bytes }
        }
        SendError::SlowConsumer { pending_bytes, limit_bytes } => {
            Refusal::WouldBlock { pending_bytes, limit_bytes }
        }
        // The connection has just ended.
        _ => Refusal::WouldBlock { pending_bytes: out.depth_bytes(), limit_bytes: out.limit_bytes() },
    }
}
