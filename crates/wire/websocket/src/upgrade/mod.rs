//! The HTTP upgrade, RFC 6455, section 4, and the offer of permessage-deflate, RFC 7692, section 7.

mod answer;
mod extension;
mod head;
mod key;
mod request;

pub use answer::Answer;
pub(crate) use answer::emit_request;
pub use extension::Deflate;
pub use head::{Head, Headers};
pub use key::{KEY_CHARACTERS, accept_key, client_key};
pub use request::{Refusal, Request};

/// The end of a head.
pub(crate) const HEAD_END: &[u8] = b"\r\n\r\n";
/// Most header lines of a head.
pub const HEADERS_MAX: usize = 100;

pub(crate) const VERSION: &str = "13";
pub(crate) const KEY: &str = "Sec-WebSocket-Key";
pub(crate) const ACCEPT: &str = "Sec-WebSocket-Accept";
pub(crate) const PROTOCOL: &str = "Sec-WebSocket-Protocol";
pub(crate) const EXTENSIONS: &str = "Sec-WebSocket-Extensions";
pub(crate) const VERSION_HEADER: &str = "Sec-WebSocket-Version";
