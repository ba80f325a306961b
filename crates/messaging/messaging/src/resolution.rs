//! Topic resolution of a context: what is known and asked for, and the sockets that hear it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use counters::Counter;
use counters::table::LbmrResolver;
use lbt::resolution::Resolver;
use net::udp::{ReceiveBatch, Received, Sent, UdpSocket};
use units::Nanos;

use crate::error::ContextError;
use crate::ports::{first_free, multicast_options};
use crate::{MessagingConfig, keys};

/// Topic resolution, on one network or two.
pub(crate) struct Resolution {
    pub(crate) resolver: Resolver,
    /// Hears it on the first network.
    socket: UdpSocket,
    /// The same on the second.
    second: Option<UdpSocket>,
}

impl Resolution {
    pub(crate) fn new(
        config: &MessagingConfig,
        socket: UdpSocket,
        now: Nanos,
        counters: Arc<LbmrResolver>,
    ) -> Result<Resolution, ContextError> {
        let mut resolver = Resolver::new(&config.resolver(), now, counters)?;
        if let Some(file) = &config.resolver.authentication_key_file {
            resolver.authenticate(keys::load(file)?, config.resolver.authentication_window());
        }
        Ok(Resolution { resolver, socket, second: None })
    }

    /// What hears it on a network.
    pub(crate) fn listen(config: &MessagingConfig, interface: Ipv4Addr) -> io::Result<UdpSocket> {
        let options = multicast_options(config, interface);
        if config.resolver.unicast_daemon.is_empty() {
            return UdpSocket::multicast_receiver(group(config), options);
        }
        let (low, high) = (config.resolver.unicast_port_low, config.resolver.unicast_port_high);
        first_free(interface, low..=high, |a| UdpSocket::multicast_sender(a, options))
    }

    /// It goes on on a second network too.
    pub(crate) fn add_network(&mut self, interface: Ipv4Addr, socket: UdpSocket) {
        self.resolver.add_network(interface);
        self.second = Some(socket);
    }

    /// What hears it, on each network.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        std::iter::once(&self.socket).chain(&self.second)
    }

    /// Takes what has arrived on a network, up to one batch.
    pub(crate) fn receive<'b>(
        &mut self,
        index: usize,
        batch: &'b mut ReceiveBatch,
    ) -> io::Result<Received<'b>> {
        self.tell_wall_clock();
        let second = self.second.as_ref().filter(|_| index == 1);
        second.unwrap_or(&self.socket).receive(batch)
    }

    /// When something is due.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.resolver.next_wakeup()
    }

    /// Sends what is due: to the group by the sockets of `control`, one on each network, or to each unicast resolver.
    pub(crate) fn send(
        &mut self,
        now: Nanos,
        config: &MessagingConfig,
        control: [Option<&UdpSocket>; 2],
        failed: &Counter,
    ) {
        self.tell_wall_clock();
        let (group, daemons) = ([group(config)], &config.resolver.unicast_daemon[..]);
        let ([first, second], to) = if daemons.is_empty() {
            (control, &group[..])
        } else {
            ([Some(&self.socket), self.second.as_ref()], daemons)
        };
        while let Some(datagram) = self.resolver.poll_transmit(now) {
            first.iter().for_each(|socket| send_to_each(socket, to, datagram, failed));
            second.iter().for_each(|socket| send_to_each(socket, to, self.resolver.second(), failed));
        }
    }

    /// Signed topic resolution goes by the time of day.
    fn tell_wall_clock(&mut self) {
        if self.resolver.is_signed() {
            self.resolver.set_wall_clock(net::clock::wall_ns());
        }
    }
}

fn group(config: &MessagingConfig) -> SocketAddrV4 {
    SocketAddrV4::new(config.resolver.multicast_address, config.resolver.multicast_port)
}

fn send_to_each(socket: &UdpSocket, to: &[SocketAddrV4], datagram: &[u8], failed: &Counter) {
    for address in to {
        match socket.send_run(*address, datagram, datagram.len()) {
            Ok(Sent::Datagrams(_)) => {}
            // It is repeated by its own schedule.
            Ok(Sent::WouldBlock) | Err(_) => failed.inc(),
        }
    }
}
