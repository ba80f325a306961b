//! LBT-RM by AF_XDP: one socket of the context for all groups and ports.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::table;
use net::Interest;
use net::xdp::{XdpOptions, XdpSocket};
use units::Nanos;

use crate::Handler;
use crate::config::{Carrier, MessagingConfig};
use crate::context::{Context, Port};

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
        if config.transport_lbtrm_carrier == Carrier::Socket {
            return Ok(Xdp::default());
        }
        let options = XdpOptions {
            queue: config.transport_lbtrm_af_xdp_queue,
            mode: config.transport_lbtrm_af_xdp_mode.mode(),
            ttl: config.ttl,
            ..XdpOptions::on(interface)
        };
        let socket = Box::new(XdpSocket::open(&options, counters)?);
        Ok(Xdp { socket: Some(socket), ..Xdp::default() })
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

impl Context {
    /// Shows the socket to the poller, for good.
    pub(crate) fn watch_xdp(&mut self) -> io::Result<()> {
        if self.xdp.is_watched {
            return Ok(());
        }
        let token = self.token(Port::Xdp, 0);
        if let Some(socket) = self.xdp.socket() {
            self.registrar.add(&*socket, token, Interest::Read)?;
            self.xdp.is_watched = true;
        }
        Ok(())
    }

    /// The poller has told that something is there.
    pub(crate) fn on_xdp_ready(&mut self, now: Nanos, handler: &mut impl Handler) {
        if self.poll_xdp(now, handler) {
            self.send_feedback(now);
        }
    }

    /// Takes what has arrived, in this one's turn; false if that was nothing.
    #[inline]
    pub(crate) fn poll_xdp(&mut self, now: Nanos, handler: &mut impl Handler) -> bool {
        if self.xdp.is_open() { self.receive_xdp(now, handler) } else { false }
    }

    fn receive_xdp(&mut self, now: Nanos, handler: &mut impl Handler) -> bool {
        let Some(mut socket) = self.xdp.socket.take() else { return false };
        let mut worked = false;
        match socket.receive() {
            Ok(received) => {
                self.took_batch = received.is_full();
                for datagram in received.datagrams() {
                    worked = true;
                    if datagram.to.ip().is_multicast() {
                        self.on_session_datagram(now, datagram.from, datagram.payload, handler);
                    } else {
                        self.on_nak(now, datagram.from, datagram.to, datagram.payload);
                    }
                }
            }
            // The interface is gone, and with it the sessions, which time out.
            Err(_) => self.counters.context.receives_failed.inc(),
        }
        self.xdp.socket = Some(socket);
        if !self.xdp.to_leave.is_empty() {
            self.xdp.leave_groups();
        }
        worked
    }

    pub(crate) fn wake_xdp(&mut self, now: Nanos) {
        if let Some(socket) = self.xdp.socket()
            && now >= socket.next_service()
            && socket.service(now).is_err()
        {
            // A thread that sleeps learns by this that the interface is gone.
            self.counters.context.receives_failed.inc();
        }
    }
}
