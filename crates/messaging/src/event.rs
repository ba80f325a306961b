use std::net::{SocketAddr, SocketAddrV4};

use crate::{ConnectionId, ReceiverId, SourceId};

/// What is known of a source when it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// Sources with the same number come from the same process.
    pub session: u64,
    /// Where that process takes direct connections.
    pub request: Option<SocketAddrV4>,
}

/// Hears what a context brings. The calls come from within the context's inputs.
/// Who neither connects nor is connected to leaves the direct connections out.
pub trait Handler {
    /// A receiver's topic has a new source.
    fn on_source(&mut self, receiver: ReceiverId, source: SourceId, info: &SourceInfo);
    /// A message of a source, in order.
    fn on_message(&mut self, source: SourceId, payload: &[u8]);
    /// Messages of a source are lost for good, in the place where they are missing; their number counts
    /// fragments singly.
    fn on_loss(&mut self, source: SourceId, count: u32);
    /// A source has ended, or was not heard for too long. Its id is not used again.
    fn on_source_ended(&mut self, source: SourceId);
    /// Somebody has connected to the request port.
    fn on_accepted(&mut self, connection: ConnectionId, peer: SocketAddr) {
        let _ = (connection, peer);
    }
    /// A connection of [`crate::Context::connect`] is established.
    fn on_connected(&mut self, connection: ConnectionId) {
        let _ = connection;
    }
    /// A direct message.
    fn on_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        let _ = (connection, payload);
    }
    /// A connection is gone, or could not be established; `reason` says why, for people. Its id is not used
    /// again.
    fn on_closed(&mut self, connection: ConnectionId, reason: &str) {
        let _ = (connection, reason);
    }
}
