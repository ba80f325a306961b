//! LBM-family packets and the reliability state machines: windows, NAKs, reassembly, topic resolution. Sans-IO.

pub mod config;
pub mod delivery;
/// Errors of the wire.
pub mod error;
pub mod rate;
pub mod resolution;
pub mod rm;
pub mod stream;
pub mod wire;
