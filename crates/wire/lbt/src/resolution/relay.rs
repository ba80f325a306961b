use super::signature::Signer;
use crate::authentication::Keys;
use crate::config::{ConfigError, RelayConfig};
use crate::error::WireError;
use crate::rate::TokenBucket;
use crate::wire::lbmr::{HEADER_LEN, Kind, Packet};
use counters::table::LbmrRelay;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// A unicast resolver: what one client says, all others hear, as if they shared a multicast group.
///
/// Who sends keep-alives becomes a client and stays one as long as it does; only clients are listened to. The
/// relay sends nothing of its own but keep-alives, one small packet for each of the client's. What a client
/// says is held to one rate, what each hears to another, and all together to a third: neither a client gone
/// wild nor one that uses another's address makes the relay flood anybody.
///
/// The driver calls [`Relay::on_datagram`] for what arrives and sends it on to the addresses it is given,
/// [`Relay::poll_keepalive`] until there is nothing, again at [`Relay::next_wakeup`].
pub struct Relay {
    clients: BTreeMap<SocketAddrV4, Client>,
    clients_max: usize,
    /// Clients in the order in which they are due for a keep-alive, each once.
    due: VecDeque<(Nanos, SocketAddrV4)>,
    total: TokenBucket,
    ports: std::ops::RangeInclusive<u16>,
    timeout: Duration,
    interval: Duration,
    receive_rate: u64,
    send_rate: u64,
    /// Checks what is to be relayed, if that is wanted.
    signer: Signer,
    counters: Arc<LbmrRelay>,
}

struct Client {
    heard: Nanos,
    receive: TokenBucket,
    send: TokenBucket,
}

/// A client, as a status page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayClient {
    /// Where it is.
    pub address: SocketAddrV4,
    /// When it was last heard from.
    pub heard: Nanos,
}

/// How much may pass at once, as a span.
const BURST: Duration = Duration::from_millis(100);
/// The longest datagram.
const DATAGRAM_MAX: u64 = 65_507;
/// The relay's keep-alive: a packet without queries and records.
const KEEPALIVE: [u8; HEADER_LEN] = [0; HEADER_LEN];

impl Relay {
    /// A relay without clients.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn new(config: &RelayConfig, now: Nanos, counters: Arc<LbmrRelay>) -> Result<Relay, ConfigError> {
        config.check()?;
        let total = config.resolver_unicast_total_rate_limit;
        Ok(Relay {
            clients: BTreeMap::new(),
            clients_max: config.resolver_unicast_maximum_clients as usize,
            due: VecDeque::new(),
            total: TokenBucket::new(total, BURST, DATAGRAM_MAX, now),
            ports: config.resolver_unicast_client_port_low..=config.resolver_unicast_client_port_high,
            timeout: config.resolver_unicast_activity_timeout,
            interval: config.resolver_unicast_keepalive_interval,
            receive_rate: config.resolver_unicast_receive_rate_limit,
            send_rate: config.resolver_unicast_send_rate_limit,
            signer: Signer::default(),
            counters,
        })
    }

    /// Takes only what is signed, as [`Resolver::authenticate`](super::Resolver::authenticate), from now on.
    pub fn authenticate(&mut self, keys: Keys, window: Duration) {
        self.signer.set_keys(keys, window);
    }

    /// Tells the time of day, nanoseconds since 1970: before datagrams are taken, if they are signed.
    pub fn set_wall_clock(&mut self, wall_ns: u64) {
        self.signer.set_wall_clock(wall_ns);
    }

    /// Whether the time of day is of use.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signer.is_wanted()
    }

    /// Takes a datagram, and calls `send` with the address of every client that it is to be sent on to,
    /// unchanged.
    ///
    /// # Errors
    /// It is malformed, or not signed as it must be; it was counted, and nothing was done.
    pub fn on_datagram(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        send: impl FnMut(SocketAddrV4),
    ) -> Result<(), WireError> {
        let (counters, len) = (Arc::clone(&self.counters), datagram.len() as u64);
        counters.tr_dgrams_rcved.inc();
        counters.tr_bytes_rcved.add(len);
        if !self.ports.contains(&from.port()) {
            counters.clients_not_admitted.inc();
            return Ok(());
        }
        if let Some(client) = self.clients.get_mut(&from) {
            if client.receive.available(now) < len {
                counters.tr_dgrams_dropped_rate.inc();
                return Ok(());
            }
            client.receive.take(len);
        }
        self.signer.check(datagram, &counters.tr_dgrams_unauthentic, &counters.tr_dgrams_stale)?;
        let packet = Packet::parse(datagram).inspect_err(|_| counters.tr_dgrams_dropped_malformed.inc())?;
        let is_empty = packet.queries.is_empty() && packet.records.is_empty();
        match packet.kind {
            Kind::ReceiverAlive | Kind::SourceAlive => {
                counters.keepalives_rcved.inc();
                self.register(now, from);
            }
            Kind::Other { .. } => counters.tr_dgrams_dropped_type.inc(),
            // the keep-alive of another relay
            Kind::Normal | Kind::Wildcard if is_empty => counters.tr_dgrams_dropped_type.inc(),
            Kind::Normal | Kind::Wildcard | Kind::ResolutionRequest(_) => {
                let Some(client) = self.clients.get_mut(&from) else {
                    counters.tr_dgrams_dropped_unknown.inc();
                    return Ok(());
                };
                client.heard = now;
                self.relay(now, from, len, send);
            }
        }
        Ok(())
    }

    /// The next client to send a keep-alive to, and its bytes; to be called until there is none. Forgets
    /// clients that fell silent.
    pub fn poll_keepalive(&mut self, now: Nanos) -> Option<(SocketAddrV4, &'static [u8])> {
        while let Some(&(at, address)) = self.due.front() {
            if at > now {
                break;
            }
            self.due.pop_front();
            let Some(client) = self.clients.get(&address) else { continue };
            if client.heard + self.timeout <= now {
                self.clients.remove(&address);
                self.counters.clients_expired.inc();
                self.counters.clients.set(self.clients.len() as u64);
                continue;
            }
            self.due.push_back((now + self.interval, address));
            self.counters.keepalives_sent.inc();
            return Some((address, &KEEPALIVE));
        }
        None
    }

    /// When [`Relay::poll_keepalive`] is to be called at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.due.front().map_or(Nanos::NEVER, |due| due.0)
    }

    /// The clients, by address.
    pub fn clients(&self) -> impl Iterator<Item = RelayClient> + use<'_> {
        self.clients_after(None)
    }

    /// Those behind an address.
    pub fn clients_after(&self, after: Option<SocketAddrV4>) -> impl Iterator<Item = RelayClient> + use<'_> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let clients = self.clients.range((begin, Bound::Unbounded));
        clients.map(|(&address, client)| RelayClient { address, heard: client.heard })
    }

    /// Memory held, to about a tenth.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entry = size_of::<Client>() + size_of::<SocketAddrV4>() + 16;
        self.clients.len() * entry + self.due.capacity() * size_of::<(Nanos, SocketAddrV4)>()
    }

    fn register(&mut self, now: Nanos, from: SocketAddrV4) {
        if let Some(client) = self.clients.get_mut(&from) {
            client.heard = now;
            return;
        }
        if self.clients.len() >= self.clients_max {
            return self.counters.clients_refused.inc();
        }
        let bucket = |rate| TokenBucket::new(rate, BURST, DATAGRAM_MAX, now);
        let (receive, send) = (bucket(self.receive_rate), bucket(self.send_rate));
        self.clients.insert(from, Client { heard: now, receive, send });
        self.due.push_back((now + self.interval, from));
        self.counters.clients_registered.inc();
        self.counters.clients.set(self.clients.len() as u64);
    }

    fn relay(&mut self, now: Nanos, from: SocketAddrV4, len: u64, mut send: impl FnMut(SocketAddrV4)) {
        let (mut sent, mut held_back) = (0, 0);
        for (&address, client) in self.clients.iter_mut().filter(|client| *client.0 != from) {
            if client.send.available(now) < len || self.total.available(now) < len {
                held_back += 1;
                continue;
            }
            client.send.take(len);
            self.total.take(len);
            send(address);
            sent += 1;
        }
        self.counters.tr_dgrams_relayed.add(u64::from(sent > 0));
        self.counters.tr_dgrams_sent.add(sent);
        self.counters.tr_bytes_sent.add(sent * len);
        self.counters.tr_dgrams_held_back.add(held_back);
    }
}
