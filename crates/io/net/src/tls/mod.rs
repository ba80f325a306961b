//! TLS 1.2 and 1.3 over non-blocking TCP, server and client, through rustls with the provider `ring`.
//!
//! [`ServerTls`] and [`ClientTls`] are made from PEM files and turn a [`TcpStream`](std::net::TcpStream) into
//! a [`Transport`](crate::Transport), which is read and written like a plain one. No session is slower to
//! start than its round trips: handshakes go on inside of [`Transport::read`](crate::Transport::read).
//!
//! Cipher suites are those that rustls takes for safe: AES-GCM and ChaCha20-Poly1305, with ECDHE below TLS
//! 1.3. Nothing is negotiated by ALPN: RSSL clients offer none.

mod client;
mod error;
mod names;
mod pem;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod validity;

pub use client::{ClientFiles, ClientTls};
pub use error::{TlsError, is_about_certificates};
pub use names::is_peer_name;
pub use server::{ClientCertificates, ServerFiles, ServerTls};
pub use stream::TlsStream;
pub use validity::{UnixSeconds, Validity};
