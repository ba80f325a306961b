//! The messaging library for C: `include/tickcast.h` is the interface and its documentation.
//!
//! Each function checks what can be checked of its arguments, runs the library's counterpart and turns the
//! result into a code ([`error`]). Promises:
//!
//! - The header names every function and constant as they are here, and its structs have this layout
//!   (`tests/header.rs`).
//! - A panic does not leave a function where panics unwind; where they abort, the process ends there.
//! - Calls from callbacks cannot reach the context while it is at work
//!   (`tests/interface.rs`: `a_callback_sends_and_the_rest_is_refused`).
//! - What was sent arrives, or is told lost, though the context is destroyed, or the library's thread stopped, at once
//!   (`tests/closing.rs`).
//! - Its examples compile without a warning and talk to each other and to Rust (`tests/examples.rs`).

pub mod callbacks;
pub mod context;
mod deferred;
pub mod error;
pub mod receiver;
pub mod recorder;
pub mod request;
pub mod source;
pub mod statistics;
mod text;
pub mod thread;

/// Results and flags by the names of the header, for the test that compares them.
pub mod constants {
    pub use crate::callbacks::{ends, flags as message, security_events, source_events};
    pub use crate::receiver::{ARRIVAL_ORDER, HOT_FAILOVER};
    pub use crate::source::flags as send;
}
