//! UDP, with segmentation offload on both sides.
//!
//! The kernel's cost is per pass through its stack, not per byte: a run of equal-sized datagrams handed over
//! in one call (`UDP_SEGMENT`) costs about as much as one datagram, and a receiver that takes coalesced runs
//! (`UDP_GRO`) saves as much again. `sendmmsg`/`recvmmsg` alone save nearly nothing.

mod drops;
mod each;
mod receive;
mod send;
mod socket;

pub use each::SendBatch;
pub use receive::{ReceiveBatch, Received};
pub use send::Sent;
pub use socket::{MulticastOptions, UdpSocket};

/// The most payload bytes one IPv4 UDP datagram can carry.
pub const PAYLOAD_MAX_BYTES: usize = 65_507;

#[cfg(test)]
mod tests;
