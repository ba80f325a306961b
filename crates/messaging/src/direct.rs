use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};

use lbt::stream::{StreamDecoder, StreamEncoder};
use net::tcp::{self, Moved};
use net::{Interest, Ready};
use slab::Slab;

use crate::Handler;
use crate::context::{Context, ContextError, Port, first_free};

/// A direct connection between two processes. Numbers are given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Direct connections and where they come in.
#[derive(Default)]
pub(crate) struct Direct {
    listener: Option<(TcpListener, SocketAddrV4)>,
    connections: Slab<Connection>,
    next: u64,
    buffer: Vec<u8>,
}

struct Connection {
    id: ConnectionId,
    stream: TcpStream,
    is_established: bool,
    decoder: StreamDecoder,
    encoder: StreamEncoder,
    /// Bytes that the socket has not taken yet, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    waits_for_room: bool,
}

/// The longest direct message: an image, at most.
const MESSAGE_MAX_BYTES: u32 = 16 << 20;
/// Bytes that may wait for a slow peer before the connection is given up.
const BACKLOG_MAX_BYTES: usize = 256 << 20;
const READ_BYTES: usize = 256 << 10;

impl Direct {
    pub(crate) fn address(&self) -> Option<SocketAddrV4> {
        self.listener.as_ref().map(|(_, address)| *address)
    }
}

impl Context {
    /// Takes direct connections from now on, at the first free port of the configured range; topics published
    /// afterwards carry the address in their advertisements.
    ///
    /// # Errors
    /// No port of the range is free.
    pub fn listen(&mut self) -> Result<SocketAddrV4, ContextError> {
        let (low, high) = (self.config.request_tcp_port_low, self.config.request_tcp_port_high);
        let listener = first_free(self.config.interface, low, high, tcp::listen)?;
        let SocketAddr::V4(address) = listener.local_addr()? else {
            return Err(io::Error::other("a listener bound to an IPv4 address has another").into());
        };
        self.registrar.add(&listener, self.token(Port::Listener, 0), Interest::Read)?;
        self.direct.listener = Some((listener, address));
        Ok(address)
    }

    /// Begins to connect to another process; [`Handler::on_connected`] or [`Handler::on_closed`] follows.
    ///
    /// # Errors
    /// The attempt failed at once; the error names the address.
    pub fn connect(&mut self, to: SocketAddrV4) -> Result<ConnectionId, ContextError> {
        let stream = tcp::connect(SocketAddr::V4(to))?;
        Ok(self.add_connection(stream, false)?)
    }

    fn add_connection(&mut self, stream: TcpStream, is_established: bool) -> io::Result<ConnectionId> {
        let index = self.direct.connections.vacant_key();
        let interest = if is_established { Interest::Read } else { Interest::ReadWrite };
        self.registrar.add(&stream, self.token(Port::Connection, index), interest)?;
        self.direct.next += 1;
        let id = ConnectionId(self.direct.next);
        self.direct.connections.insert(Connection {
            id,
            stream,
            is_established,
            decoder: StreamDecoder::new(MESSAGE_MAX_BYTES),
            encoder: StreamEncoder::default(),
            out: Vec::new(),
            sent: 0,
            waits_for_room: !is_established,
        });
        Ok(id)
    }

    /// Appends a message to a connection; it leaves with [`Context::flush`]. Nothing happens if the
    /// connection is gone.
    pub fn send_direct(&mut self, connection: ConnectionId, payload: &[u8]) {
        if let Some((_, known)) = self.direct.connections.iter_mut().find(|(_, c)| c.id == connection) {
            // Messages longer than 4 GiB do not exist here.
            let _ = known.encoder.message(&mut known.out, 0, &[], payload);
        }
    }

    /// Closes a connection after what was sent before; no event follows.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        let found = self.direct.connections.iter().find(|(_, c)| c.id == connection).map(|(i, _)| i);
        if let Some(index) = found {
            // The last messages are worth one attempt; the connection is given up either way.
            let _ = self.write_connection(index);
            self.direct.connections.remove(index);
        }
    }

    pub(crate) fn on_listener_ready(&mut self, handler: &mut impl Handler) {
        while let Some((listener, _)) = &self.direct.listener {
            match tcp::accept(listener) {
                Ok(Some((stream, peer))) => match self.add_connection(stream, true) {
                    Ok(id) => handler.on_accepted(id, peer),
                    Err(_) => self.counters.context.joins_failed.inc(),
                },
                Ok(None) => break,
                Err(_) => {
                    self.counters.context.joins_failed.inc();
                    break;
                }
            }
        }
    }

    pub(crate) fn on_connection_ready(&mut self, index: usize, ready: Ready, handler: &mut impl Handler) {
        let Some(connection) = self.direct.connections.get_mut(index) else { return };
        let id = connection.id;
        let result = if connection.is_established {
            Ok(())
        } else {
            match tcp::connected(&connection.stream) {
                Ok(true) => {
                    connection.is_established = true;
                    handler.on_connected(id);
                    Ok(())
                }
                Ok(false) => return,
                Err(e) => Err(e.to_string()),
            }
        };
        let result =
            result.and_then(|()| if ready.readable { self.read_connection(index, handler) } else { Ok(()) });
        let result = result.and_then(|()| self.write_connection(index).map_err(|e| e.to_string()));
        if let Err(reason) = result {
            self.direct.connections.remove(index);
            handler.on_closed(id, &reason);
        }
    }

    fn read_connection(&mut self, index: usize, handler: &mut impl Handler) -> Result<(), String> {
        let Direct { connections, buffer, .. } = &mut self.direct;
        buffer.resize(READ_BYTES, 0);
        let Some(connection) = connections.get_mut(index) else { return Ok(()) };
        match tcp::read(&connection.stream, buffer).map_err(|e| e.to_string())? {
            Moved::Bytes(count) => {
                let id = connection.id;
                let pushed = connection.decoder.push(&buffer[..count], |msg| {
                    // Control messages, such as the announcement of a session, have nothing for the
                    // application.
                    if !msg.payload.is_empty() {
                        handler.on_direct(id, msg.payload);
                    }
                });
                pushed.map_err(|e| e.to_string())
            }
            Moved::WouldBlock => Ok(()),
            Moved::End => Err("the peer has closed the connection".to_owned()),
        }
    }

    /// Writes what waits; asks to be told of room if the socket has none.
    fn write_connection(&mut self, index: usize) -> io::Result<()> {
        let token = self.token(Port::Connection, index);
        let Some(connection) = self.direct.connections.get_mut(index) else { return Ok(()) };
        if !connection.is_established {
            return Ok(());
        }
        while connection.sent < connection.out.len() {
            match tcp::write(&connection.stream, &connection.out[connection.sent..])? {
                Moved::Bytes(count) => connection.sent += count,
                Moved::WouldBlock => break,
                Moved::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        let waits = connection.sent < connection.out.len();
        if !waits {
            connection.out.clear();
            connection.sent = 0;
        } else if connection.out.len() - connection.sent > BACKLOG_MAX_BYTES {
            return Err(io::Error::other("the peer does not take what is sent to it"));
        }
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            self.registrar.change(&connection.stream, token, interest)?;
        }
        Ok(())
    }

    pub(crate) fn flush_direct(&mut self) {
        for index in 0..self.direct.connections.capacity() {
            let waits =
                self.direct.connections.get(index).is_some_and(|c| c.sent < c.out.len() && !c.waits_for_room);
            // An error shows again, with its reason, when the descriptor is next ready.
            if waits && self.write_connection(index).is_err() {
                self.counters.context.sends_failed.inc();
            }
        }
    }
}
