//! What is known of one client, and where messages to clients go.

use std::collections::HashMap;

use rdm::directory::DirectoryRequest;

use super::ClientId;
use super::port_connection::PortConnection;
use crate::table::Slot;

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) id: ClientId,
    /// The request that it has logged in with.
    pub(super) login: Option<Box<[u8]>>,
    /// Its login is accepted.
    pub(super) is_let_in: bool,
    /// All its items are paused.
    pub(super) is_paused: bool,
    /// Its open directory streams.
    pub(super) directories: Vec<DirectoryRequest>,
    /// Its item streams.
    pub(super) streams: HashMap<i32, Stream>,
}

/// An item stream of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(super) slot: Slot,
    /// Updates are wanted.
    pub(super) streaming: bool,
    /// Updates are not wanted for now.
    pub(super) is_paused: bool,
}

impl Client {
    pub(super) fn new(id: ClientId) -> Client {
        let (directories, streams) = (Vec::new(), HashMap::new());
        Client { id, login: None, is_let_in: false, is_paused: false, directories, streams }
    }

    /// Closes a directory stream; whether it was one.
    pub(super) fn close_directory(&mut self, stream_id: i32) -> bool {
        let before = self.directories.len();
        self.directories.retain(|request| request.stream_id != stream_id);
        self.directories.len() < before
    }
}

/// A stream that gets what is published for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watcher {
    /// The client's connection.
    pub(crate) connection: PortConnection,
    pub(crate) stream_id: i32,
}

/// Where messages to clients go.
pub(crate) trait Outlet {
    /// To one client, with the stream id that the message has.
    fn send(&mut self, connection: PortConnection, message: &[u8]);
    /// To many, each with a stream id of its own. Returns whether the streams go on as the message says: WebSocket
    /// clients who cannot have it, because it cannot be written as JSON, are told something in its place, and
    /// of an image that the stream is closed.
    fn fan_out(&mut self, to: &[Watcher], message: &[u8]) -> bool;
}
