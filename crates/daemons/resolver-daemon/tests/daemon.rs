//! The unicast resolver with real sockets on loopback.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use counters::Registry;
use lbt::wire::lbmr::{Kind, Packet, Queries, Query};
use net::agent::Agent;
use net::{Poller, WaitStrategy, Waker, clock};
use tickcast_resolver_daemon::{ResolverDaemon, ResolverDaemonConfig};

/// No answer within this time means that there will be none.
const WATCHDOG: Duration = Duration::from_secs(30);

fn config() -> ResolverDaemonConfig {
    // clients of a test have any port
    ResolverDaemonConfig {
        port: 0,
        client_port_low: 1,
        client_port_high: 65_535,
        keepalive_interval_ms: 20,
        activity_timeout_ms: 60_000,
        ..ResolverDaemonConfig::default()
    }
}

/// That there is something to read.
const READY: net::Ready = net::Ready { token: net::Token(1 << 32), readable: true, writable: false };

struct Running {
    address: SocketAddrV4,
    registry: Registry,
    status: daemon::Status,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(config: &ResolverDaemonConfig) -> Running {
        let mut poller = Poller::new().expect("a poller");
        let (registry, stop) = (Registry::default(), Arc::new(AtomicBool::new(false)));
        let waker = Waker::new(poller.registrar(), net::Token(0)).expect("a waker");
        let mut daemon = ResolverDaemon::new(config, poller.registrar(), 1, clock::monotonic(), &registry)
            .expect("a free port");
        let (address, status) = (daemon.local_address().expect("bound"), daemon.status());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let agents: &mut [&mut dyn Agent] = &mut [&mut daemon];
            net::agent::run(&mut poller, WaitStrategy::Block, agents, &stopped).expect("it runs");
        });
        Running { address, registry, status, stop, waker, thread: Some(thread) }
    }

    fn counter(&self, name: &str) -> u64 {
        let mut values = Vec::new();
        for registered in self.registry.snapshot() {
            let at = registered.set.descriptors().iter().position(|d| d.name == name);
            if let Some(at) = at {
                registered.set.values(&mut values);
                return values[at];
            }
        }
        panic!("no counter {name}");
    }

    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
        socket.connect(self.address).expect("an address");
        socket.set_read_timeout(Some(WATCHDOG)).expect("a time");
        socket.send(&[2, 0, 0, 0]).expect("sent");
        // the first keep-alive says that it is known
        assert_eq!(receive(&socket), [0; 4]);
        socket
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 2_048];
    let len = socket.recv(&mut bytes).expect("within half a minute");
    bytes[..len].to_vec()
}

fn query(topic: &str) -> Vec<u8> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    Query::Topic(topic.as_bytes()).emit(&mut bytes);
    Packet { queries: Queries::written(1, false, &bytes), ..Packet::of(Kind::Normal) }.emit(&mut out);
    out
}

#[test]
fn what_a_client_says_the_others_hear_unchanged() {
    let daemon = Running::start(&config());
    let (one, other) = (daemon.client(), daemon.client());
    let said = query("px.eq.ACME");
    one.send(&said).expect("sent");
    let heard = std::iter::repeat_with(|| receive(&other)).find(|bytes| *bytes != [0; 4]);
    assert_eq!(heard, Some(said));
    // the description is made after what had arrived was done with
    let status = daemon.status.read();
    assert_eq!(daemon.counter("lbmr_relay_clients"), 2);
    assert_eq!(daemon.counter("lbmr_relay_tr_dgrams_relayed_total"), 1);
    assert_eq!((&status["role"], &status["clients_count"]), (&"resolver".into(), &2.into()));
    assert_eq!(status["clients"].as_array().map(Vec::len), Some(2));
}

#[test]
fn senders_outside_the_networks_of_clients_are_left_alone() {
    let networks = vec!["10.29.0.0/16".parse().expect("a network")];
    let daemon = Running::start(&ResolverDaemonConfig { networks, ..config() });
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
    while daemon.counter("resolver_socket_dgrams_dropped_network_total") == 0 {
        socket.send_to(&[2, 0, 0, 0], daemon.address).expect("sent");
        std::thread::yield_now();
    }
    assert_eq!(daemon.counter("lbmr_relay_clients"), 0);
}

#[test]
fn what_the_kernel_drops_while_the_thread_is_busy_is_counted() {
    let poller = Poller::new().expect("a poller");
    let registry = Registry::default();
    let config = ResolverDaemonConfig { socket_buffer_bytes: 65_536, ..config() };
    let mut daemon = ResolverDaemon::new(&config, poller.registrar(), 1, clock::monotonic(), &registry)
        .expect("a free port");
    let address = daemon.local_address().expect("bound");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
    let dropped = || {
        let mut values = Vec::new();
        registry.snapshot()[1].set.values(&mut values);
        values[1]
    };
    for _ in 0..100 {
        for _ in 0..200 {
            socket.send_to(&[0; 1_400], address).expect("sent");
        }
        for _ in 0..20 {
            daemon.on_ready(clock::monotonic(), READY);
        }
        if dropped() > 0 {
            return;
        }
    }
    panic!("nothing was dropped");
}
