//! Codes of close frames, RFC 6455, 7.4.

/// The connection has served its purpose.
pub const NORMAL: u16 = 1000;
/// This end goes away.
pub const GOING_AWAY: u16 = 1001;
/// Frames that the protocol does not allow.
pub const PROTOCOL_ERROR: u16 = 1002;
/// Stands for a close frame without a code; never sent.
pub const NOT_SENT: u16 = 1005;
/// Data that is not what its type says: text that is not UTF-8.
pub const INVALID_DATA: u16 = 1007;
/// Against the policy of this end: too slow.
pub const POLICY_VIOLATION: u16 = 1008;
/// A message that is too long.
pub const MESSAGE_TOO_BIG: u16 = 1009;
/// This end failed.
pub const INTERNAL_ERROR: u16 = 1011;

/// Whether a peer may send the code: those defined for the wire, registered, or private.
#[must_use]
pub fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
