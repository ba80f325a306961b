//! RSSL connections as state machines: handshake, framing, packing, fragmentation, pings. Sans-IO.
mod active;
mod assembly;
mod carry;
mod client;
mod compression;
mod config;
mod error;
pub mod frame;
pub mod handshake;
mod heartbeat;
mod link;
mod outbound;
mod packer;
mod server;
mod session;
mod text;
mod version;

pub use client::ClientConnection;
pub use compression::CompressionType;
pub use config::{
    COMPONENT_VERSION_MOST_BYTES, ClientConfig, ClientParams, ConfigError, Limits,
    MESSAGE_SIZE_DEFAULT_BYTES, MESSAGE_SIZE_LEAST_BYTES, MESSAGE_SIZE_MOST_BYTES, ServerConfig,
    ServerParams,
};
pub use error::{
    ApiMisuse, CloseReason, Disconnect, FrameError, HandshakeError, PeerError, Refusal, SendError, Stop,
};
pub use outbound::{Batch, Outbound};
pub use packer::{Packer, Written};
pub use server::ServerConnection;
pub use session::{Admission, Handler, Negotiated, Session};
pub use text::Text;
pub use version::ConnectionVersion;
