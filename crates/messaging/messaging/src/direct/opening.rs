//! Connections that this side opens, and how each begins.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};

use lbt::stream::{StreamDecoder, StreamEncoder};
use net::{Interest, Transport, tcp};
use units::Nanos;

use super::Direct;
use super::connection::{Connection, Purpose};
use super::guest::Partial;
use super::path_failover::PathFailover;
use crate::ConnectionId;
use crate::base::{Base, Port};
use crate::closing::Stage;
use crate::error::ContextError;
use crate::session::SessionRef;

impl Direct {
    /// Begins to connect to another process, which is at `other` on the second network.
    pub(crate) fn connect_to(
        &mut self,
        base: &mut Base,
        to: SocketAddrV4,
        other: Option<SocketAddrV4>,
    ) -> Result<ConnectionId, ContextError> {
        base.check_open(Stage::Settling)?;
        let (stream, paths) = self.connect_either(base, to, other)?;
        Ok(self.add_connection(base, Transport::Plain(stream), None, Purpose::Application, paths)?)
    }

    /// Begins to connect to a peer, over the other network if the first one cannot be used.
    pub(super) fn connect_either(
        &self,
        base: &Base,
        to: SocketAddrV4,
        other: Option<SocketAddrV4>,
    ) -> io::Result<(TcpStream, Option<Box<PathFailover>>)> {
        let now = base.now;
        self.check_trust(base)?;
        let mut paths = other.map(|other| Box::new(PathFailover::new([to, other], now)));
        let first = match &mut paths {
            // One network, and it is not the first: the peer is known here by the second.
            Some(paths) if base.second.is_none() => paths.switch(),
            _ => to,
        };
        let stream = match (tcp::connect(SocketAddr::V4(first)), &mut paths) {
            (Err(_), Some(paths)) => tcp::connect(SocketAddr::V4(paths.switch())),
            (stream, _) => stream,
        }?;
        Ok((stream, paths))
    }

    /// Begins to connect to the source of a session, to ask for messages.
    pub(crate) fn connect_for(
        &mut self,
        base: &mut Base,
        to: SocketAddrV4,
        session: SessionRef,
    ) -> io::Result<ConnectionId> {
        self.check_trust(base)?;
        let stream = tcp::connect(SocketAddr::V4(to))?;
        self.add_connection(base, Transport::Plain(stream), None, Purpose::Recovery(session), None)
    }

    /// Whether connections can be made as the configuration wants them.
    fn check_trust(&self, base: &Base) -> io::Result<()> {
        let is_missing = base.config.request_tcp_tls && base.tls.client.is_none();
        if is_missing { Err(lacks("a direct connection", "tcp.tls_ca_file")) } else { Ok(()) }
    }

    pub(super) fn add_connection(
        &mut self,
        base: &mut Base,
        stream: Transport,
        accepted: Option<SocketAddr>,
        purpose: Purpose,
        paths: Option<Box<PathFailover>>,
    ) -> io::Result<ConnectionId> {
        base.config.watch_direct(stream.socket())?;
        let index = self.connections.vacant_key();
        let interest = if accepted.is_some() { Interest::Read } else { Interest::ReadWrite };
        let handshake_due = if stream.is_handshaking() {
            base.now + base.config.tcp.handshake_timeout()
        } else {
            Nanos::NEVER
        };
        base.registrar.add(&stream, base.token(Port::Connection, index), interest)?;
        self.next += 1;
        let id = ConnectionId(self.next);
        self.connections.insert(Connection {
            id,
            stream,
            is_established: false,
            handshake_due,
            accepted,
            decoder: StreamDecoder::new(base.config.request_tcp_maximum_message_size_bytes),
            encoder: StreamEncoder::default(),
            out: Vec::new(),
            sent: 0,
            waits_for_room: accepted.is_none(),
            is_touched: false,
            waiting: 0,
            is_given_up: false,
            guest: None,
            partial: Partial::default(),
            used: base.now,
            purpose,
            asker: None,
            paths,
        });
        Ok(id)
    }
}

pub(super) fn lacks(what: &str, key: &str) -> io::Error {
    let text = format!("{what} is to be encrypted (request_tcp_tls), which takes {key}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
