use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ::daemon::{Describer, Facts, Parameter, Query, Status};
use counters::Registry;
use counters::table::{LbmrRelay, ResolverSocket};
use lbt::resolution::Relay;
use net::agent::Agent;
use net::udp::{MulticastOptions, ReceiveBatch, Sent, UdpSocket};
use net::{Interest, Ready, Registrar, Token};
use serde_json::{Value, json};
use tracing::info;
use units::Nanos;

use crate::ResolverDaemonConfig;
use crate::keys::KeyFile;

/// A unicast resolver on one thread.
pub struct ResolverDaemon {
    config: ResolverDaemonConfig,
    relay: Relay,
    socket: UdpSocket,
    batch: ReceiveBatch,
    token_space: u32,
    counters: Arc<LbmrRelay>,
    socket_counters: Arc<ResolverSocket>,
    describer: Describer,
    keys: KeyFile,
}

/// Runs of datagrams taken in one receive call, 64 KiB of buffer each.
const RECEIVE_SLOTS: usize = 16;
/// What a status page lists can be chosen by.
const PARAMETERS: &[Parameter] = &[Parameter::After, Parameter::Limit, Parameter::Address];

impl ResolverDaemon {
    /// Opens the port. Its descriptor has a token whose upper half is `token_space`.
    ///
    /// # Errors
    /// The port is taken or a value is out of range; the error names it.
    pub fn new(
        config: &ResolverDaemonConfig,
        registrar: &Registrar,
        token_space: u32,
        now: Nanos,
        registry: &Registry,
    ) -> io::Result<ResolverDaemon> {
        let (counters, socket_counters) =
            (Arc::new(LbmrRelay::default()), Arc::new(ResolverSocket::default()));
        registry.register(&[], counters.clone());
        registry.register(&[], socket_counters.clone());
        let mut relay = Relay::new(&config.relay(), now, counters.clone())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
        let (key_file, keys) = KeyFile::open(config.authentication_key_file.as_deref())?;
        if let Some(keys) = keys {
            relay.authenticate(keys, config.authentication_window());
        }
        let options = MulticastOptions {
            interface: config.interface,
            ttl: 1,
            buffer_bytes: config.socket_buffer_bytes as usize,
        };
        let socket = UdpSocket::multicast_sender(SocketAddrV4::new(config.interface, config.port), options)?;
        registrar.add(&socket, Token(u64::from(token_space) << 32), Interest::Read)?;
        info!(address = %socket.local_address()?, "unicast resolver");
        Ok(ResolverDaemon {
            config: config.clone(),
            relay,
            socket,
            batch: ReceiveBatch::new(RECEIVE_SLOTS),
            token_space,
            counters,
            socket_counters,
            describer: Describer::new(PARAMETERS),
            keys: key_file,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddrV4> {
        self.socket.local_address()
    }

    /// Where its description can be read.
    #[must_use]
    pub fn status(&self) -> Status {
        self.describer.status()
    }

    fn take_datagrams(&mut self, now: Nanos) {
        if self.relay.is_signed() {
            self.relay.set_wall_clock(net::clock::wall_ns());
        }
        let (socket, counters) = (&self.socket, &self.socket_counters);
        let Ok(received) = socket.receive(&mut self.batch) else {
            return counters.receives_failed.inc();
        };
        for (from, datagram) in received.datagrams() {
            if !self.config.admits(*from.ip()) {
                counters.dgrams_dropped_network.inc();
                continue;
            }
            // what is malformed or not signed as it must be is counted by the relay
            let _ = self.relay.on_datagram(now, from, datagram, |to| send(socket, to, datagram, counters));
        }
        counters.dgrams_dropped_by_kernel.add(socket.new_drops().into());
    }

    fn describe(query: &Query, relay: &Relay, now: Nanos, counters: &LbmrRelay) -> Value {
        let page = query.page(relay.clients_after(query.after().map(address_of)).map(|client| {
            let facts = Facts { address: Some(IpAddr::V4(*client.address.ip())), ..Facts::default() };
            (id_of(client.address), facts, client)
        }));
        let clients = page.listed.iter().map(|client| {
            let silent = now.since(client.heard).as_millis() as u64;
            json!({"id": id_of(client.address), "address": client.address.to_string(), "silent_ms": silent})
        });
        json!({
            "role": "resolver",
            "clients_count": counters.clients.get(),
            "clients": clients.collect::<Vec<Value>>(),
            "page": page.to_json(counters.clients.get() as usize),
        })
    }
}

/// A client's number on status pages: its address and its port, in the order of both.
fn id_of(client: SocketAddrV4) -> u64 {
    u64::from(client.ip().to_bits()) << 16 | u64::from(client.port())
}

/// The client of a number; the last there can be for numbers beyond.
fn address_of(id: u64) -> SocketAddrV4 {
    let ip = u32::try_from(id >> 16);
    ip.map_or(SocketAddrV4::new(Ipv4Addr::BROADCAST, u16::MAX), |ip| {
        SocketAddrV4::new(Ipv4Addr::from_bits(ip), id as u16)
    })
}

/// Sends a datagram; what the socket does not take is repeated by who said it.
fn send(socket: &UdpSocket, to: SocketAddrV4, datagram: &[u8], counters: &ResolverSocket) {
    match socket.send_run(to, datagram, datagram.len()) {
        Ok(Sent::Datagrams(_)) => {}
        Ok(Sent::WouldBlock) | Err(_) => counters.sends_failed.inc(),
    }
}

impl Agent for ResolverDaemon {
    fn owns(&self, token_space: u32) -> bool {
        token_space == self.token_space
    }

    fn on_ready(&mut self, now: Nanos, _: Ready) {
        self.take_datagrams(now);
    }

    fn turn(&mut self, now: Nanos) {
        if let Some(keys) = self.keys.refresh(now) {
            self.relay.authenticate(keys, self.config.authentication_window());
        }
        while let Some((to, keepalive)) = self.relay.poll_keepalive(now) {
            send(&self.socket, to, keepalive, &self.socket_counters);
        }
        let (relay, counters) = (&self.relay, &self.counters);
        self.describer.describe(now, |query| ResolverDaemon::describe(query, relay, now, counters));
    }

    fn next_wakeup(&self) -> Nanos {
        self.relay.next_wakeup().min(self.describer.next_wakeup()).min(self.keys.next_wakeup())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_socket_does_not_take_is_counted() {
        let options = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 1, buffer_bytes: 65_536 };
        let local = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let socket = UdpSocket::multicast_sender(local, options).expect("any port");
        let counters = ResolverSocket::default();
        send(&socket, local, b"to no port", &counters);
        assert_eq!(counters.sends_failed.get(), 1);
    }

    #[test]
    fn a_broken_socket_is_counted() {
        let poller = net::Poller::new().expect("there are descriptors");
        let config = ResolverDaemonConfig { port: 0, ..ResolverDaemonConfig::default() };
        let registry = Registry::default();
        let mut daemon =
            ResolverDaemon::new(&config, poller.registrar(), 1, Nanos::ZERO, &registry).expect("any port");
        daemon.take_datagrams(Nanos::ZERO);
        assert_eq!(daemon.socket_counters.receives_failed.get(), 0);
        net::faults::spoil(&daemon.socket).expect("there are descriptors");
        daemon.take_datagrams(Nanos::ZERO);
        assert_eq!(daemon.socket_counters.receives_failed.get(), 1);
    }
}
