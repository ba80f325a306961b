//! LBT-RM by AF_XDP: one socket of the context for all groups and ports.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::table;
use net::xdp::{XdpOptions, XdpSocket};
use net::{Interest, Registrar, Token};
use units::Nanos;

use crate::config::{Carrier, MessagingConfig};

/// The AF_XDP socket of a context, if it has one.
#[derive(Default)]
pub(crate) struct Xdp {
    /// Taken out while its datagrams are handed on.
    socket: Option<Box<XdpSocket>>,
    /// Groups to leave when it is back.
    to_leave: Vec<SocketAddrV4>,
    /// The poller knows of it.
    is_watched: bool,
    /// The sessions that are sent, by the address to which NAKs come.
    pub(crate) sent: HashMap<SocketAddrV4, usize>,
}

impl Xdp {
    pub(crate) fn open(
        config: &MessagingConfig,
        interface: Ipv4Addr,
        counters: Arc<table::XdpSocket>,
    ) -> io::Result<Xdp> {
        if config.lbtrm.carrier == Carrier::Socket {
            return Ok(Xdp::default());
        }
        let options = XdpOptions {
            queue: config.lbtrm.af_xdp_queue,
            mode: config.lbtrm.af_xdp_mode.mode(),
            ttl: config.ttl,
            ..XdpOptions::on(interface)
        };
        let socket = Box::new(XdpSocket::open(&options, counters)?);
        Ok(Xdp { socket: Some(socket), ..Xdp::default() })
    }

    /// Takes the socket out, while its datagrams are handed on.
    pub(crate) fn take(&mut self) -> Option<Box<XdpSocket>> {
        self.socket.take()
    }

    /// Puts it back, and leaves the groups that were left meanwhile.
    pub(crate) fn put_back(&mut self, socket: Box<XdpSocket>) {
        self.socket = Some(socket);
        if !self.to_leave.is_empty() {
            self.leave_groups();
        }
    }

    /// Shows the socket to the poller, for good.
    pub(crate) fn watch(&mut self, registrar: &Registrar, token: Token) -> io::Result<()> {
        if !self.is_watched
            && let Some(socket) = &self.socket
        {
            registrar.add(&**socket, token, Interest::Read)?;
            self.is_watched = true;
        }
        Ok(())
    }

    /// Does what is due; false if the interface is gone, which a thread that sleeps learns by this.
    pub(crate) fn wake(&mut self, now: Nanos) -> bool {
        match self.socket() {
            Some(socket) if now >= socket.next_service() => socket.service(now).is_ok(),
            _ => true,
        }
    }

    /// Whether LBT-RM goes this way. The socket is out only while datagrams are handed on, and nothing is
    /// opened then.
    pub(crate) fn socket(&mut self) -> Option<&mut XdpSocket> {
        self.socket.as_deref_mut()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.socket.as_deref().map_or(Nanos::NEVER, XdpSocket::next_service)
    }

    /// Leaves a group, as soon as the socket is there.
    pub(crate) fn leave(&mut self, group: SocketAddrV4) {
        self.to_leave.push(group);
        self.leave_groups();
    }

    #[cold]
    fn leave_groups(&mut self) {
        if let Some(socket) = &mut self.socket {
            for group in self.to_leave.drain(..) {
                // Of a group that is left already nothing more comes; of one that the kernel keeps, what
                // comes is counted as unknown.
                let _ = socket.leave(group);
            }
        }
    }
}
