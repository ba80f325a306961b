//! One suite for all carriers: what an outlet and an inlet promise each other.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use market::distributor::PeerId;
use market::p2ps::SourceId;
use messaging::{ContextCounters, LbtrmConfig, MessagingConfig, TopicResolutionConfig};
use net::{Poller, Token, clock};
use tickcast_backbone::inprocess::{Hub, InProcessInlet, InProcessOutlet};
use tickcast_backbone::multicast::{MulticastInlet, MulticastOutlet};
use tickcast_backbone::nats::{JetStreamConfig, NatsConfig, NatsCounters, NatsInlet, NatsOutlet};
use tickcast_backbone::{Inlet, InletCommand, Outlet};

mod servers;
mod sides;

use servers::NatsServer;
use sides::{Carrier, Distributor, Server, next};

impl Carrier for Hub {
    type Outlet = InProcessOutlet;
    type Inlet = InProcessInlet;
    fn outlet(&self, poller: &Poller) -> io::Result<InProcessOutlet> {
        InProcessOutlet::new(self, poller.registrar(), Token(1), false)
    }
    fn inlet(&self, poller: &Poller) -> io::Result<InProcessInlet> {
        InProcessInlet::new(self, poller.registrar(), Token(1), false)
    }
}

impl Carrier for MessagingConfig {
    type Outlet = MulticastOutlet;
    type Inlet = MulticastInlet;
    fn outlet(&self, poller: &Poller) -> io::Result<MulticastOutlet> {
        let (seed, now, counters) = (clock::seed(), clock::monotonic(), ContextCounters::default());
        MulticastOutlet::new(self, poller.registrar(), 1, seed, now, counters)
    }
    fn inlet(&self, poller: &Poller) -> io::Result<MulticastInlet> {
        let (seed, now, counters) = (clock::seed(), clock::monotonic(), ContextCounters::default());
        MulticastInlet::new(self, poller.registrar(), 1, seed, now, counters)
    }
}

impl Carrier for NatsServer {
    type Outlet = NatsOutlet;
    type Inlet = NatsInlet;
    fn outlet(&self, poller: &Poller) -> io::Result<NatsOutlet> {
        let (config, at) = (nats_config(self), (poller.registrar(), Token(1)));
        NatsOutlet::new(&config, at, false, clock::seed(), NatsCounters::default())
    }
    fn inlet(&self, poller: &Poller) -> io::Result<NatsInlet> {
        let (config, at) = (nats_config(self), (poller.registrar(), Token(1)));
        NatsInlet::new(&config, at, false, clock::seed(), NatsCounters::default())
    }
}

/// A machine that is busy elsewhere ends nothing.
fn nats_config(server: &NatsServer) -> NatsConfig {
    let jetstream =
        JetStreamConfig { stream: server.stream(), wait_ms: 60_000, ..JetStreamConfig::default() };
    NatsConfig { servers: vec![server.url()], timeout_ms: 60_000, jetstream, ..NatsConfig::default() }
}

fn multicast(test: u8) -> MessagingConfig {
    let port = 20_000 + (std::process::id() % 10_000) as u16;
    MessagingConfig {
        request_tcp_port_low: 30_000,
        request_tcp_port_high: 40_000,
        resolver: TopicResolutionConfig {
            multicast_address: Ipv4Addr::new(239, 255, 93, test),
            multicast_port: port,
            ..TopicResolutionConfig::default()
        },
        lbtrm: LbtrmConfig {
            multicast_address: Ipv4Addr::new(239, 255, 94, test),
            destination_port: port,
            source_port_low: 30_000,
            source_port_high: 40_000,
            ..LbtrmConfig::default()
        },
        ..MessagingConfig::default()
    }
}

fn streams_and_links<C: Carrier>(carrier: &C) {
    let (mut d, mut s) = (Distributor::new(carrier), Server::new(carrier));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    d.outlet.open_stream(clock::monotonic(), 7, "BINANCE").expect("a legal name");
    d.outlet.publish_directory(clock::monotonic(), b"dir", b"ectory");
    assert_eq!(next(&mut d, &mut s, true), "stream 0: directory");
    s.execute(InletCommand::Subscribe("BINANCE".to_owned()));
    assert_eq!(next(&mut d, &mut s, true), "source 1 service BINANCE");
    d.outlet.publish(clock::monotonic(), 7, b"head", &[0; 100_000]);
    for i in 0..1000 {
        d.outlet.publish(clock::monotonic(), 7, b"", format!("{i}").as_bytes());
    }
    assert_eq!(next(&mut d, &mut s, true), "stream 1: 100004 bytes");
    for i in 0..1000 {
        assert_eq!(next(&mut d, &mut s, true), format!("stream 1: {i}"));
    }
    s.execute(InletCommand::Connect { instance: 99, directory: SourceId(0) });
    assert_eq!(next(&mut d, &mut s, false), "peer 1 connected");
    assert_eq!(next(&mut d, &mut s, true), "link 99 up");
    s.execute(InletCommand::Send { instance: 99, bytes: b"hello".to_vec() });
    assert_eq!(next(&mut d, &mut s, false), "peer 1: hello");
    d.outlet.to_peer(PeerId(1), b"welcome");
    assert_eq!(next(&mut d, &mut s, true), "link 99: welcome");
    s.execute(InletCommand::Disconnect(99));
    assert_eq!(next(&mut d, &mut s, false), "peer 1 closed");
}

fn an_unsubscribed_service_is_not_heard<C: Carrier>(carrier: &C) {
    let (mut d, mut s) = (Distributor::new(carrier), Server::new(carrier));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    d.outlet.open_stream(clock::monotonic(), 1, "A").expect("a legal name");
    d.outlet.open_stream(clock::monotonic(), 2, "B").expect("a legal name");
    s.execute(InletCommand::Subscribe("B".to_owned()));
    assert_eq!(next(&mut d, &mut s, true), "source 1 service B");
    d.outlet.publish(clock::monotonic(), 1, b"", b"of a");
    d.outlet.publish(clock::monotonic(), 2, b"", b"of b");
    assert_eq!(next(&mut d, &mut s, true), "stream 1: of b");
    s.execute(InletCommand::Unsubscribe("B".to_owned()));
    d.outlet.publish(clock::monotonic(), 2, b"", b"of b again");
    d.outlet.publish_directory(clock::monotonic(), b"", b"after it");
    assert_eq!(next(&mut d, &mut s, true), "stream 0: after it");
}

fn the_end_of_an_instance_is_told<C: Carrier>(carrier: &C) {
    let (mut d, mut s) = (Distributor::new(carrier), Server::new(carrier));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    d.outlet.publish_directory(clock::monotonic(), b"", b"x");
    assert_eq!(next(&mut d, &mut s, true), "stream 0: x");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    assert_eq!(next(&mut d, &mut s, true), "link 5 up");
    d.turn();
    d.outlet.end(clock::monotonic());
    drop(d);
    let mut again = Distributor::new(carrier);
    let mut heard: Vec<String> = (0..3).map(|_| next(&mut again, &mut s, true)).collect();
    heard.sort();
    assert_eq!(heard, ["link 5 down", "source 0 ended", "source 1 directory"]);
}

#[test]
fn multicast_carries_streams_and_links() {
    streams_and_links(&multicast(1));
}

#[test]
fn nats_carries_streams_and_links() {
    streams_and_links(&NatsServer::new(&[]));
}

#[test]
fn nats_with_jetstream_carries_streams_and_links() {
    streams_and_links(&NatsServer::with_stream());
}

#[test]
fn a_process_carries_streams_and_links() {
    streams_and_links(&Hub::new());
}

#[test]
fn multicast_keeps_services_apart() {
    an_unsubscribed_service_is_not_heard(&multicast(2));
}

#[test]
fn nats_keeps_services_apart() {
    an_unsubscribed_service_is_not_heard(&NatsServer::new(&[]));
}

#[test]
fn nats_with_jetstream_keeps_services_apart() {
    an_unsubscribed_service_is_not_heard(&NatsServer::with_stream());
}

#[test]
fn a_process_keeps_services_apart() {
    an_unsubscribed_service_is_not_heard(&Hub::new());
}

#[test]
fn multicast_tells_the_end_of_an_instance() {
    the_end_of_an_instance_is_told(&multicast(3));
}

#[test]
fn nats_tells_the_end_of_an_instance() {
    the_end_of_an_instance_is_told(&NatsServer::new(&[]));
}

#[test]
fn nats_with_jetstream_tells_the_end_of_an_instance() {
    the_end_of_an_instance_is_told(&NatsServer::with_stream());
}

#[test]
fn a_process_tells_the_end_of_an_instance() {
    the_end_of_an_instance_is_told(&Hub::new());
}

#[test]
fn a_full_ring_blocks_its_outlet_and_loses_nothing() {
    let hub = Hub::new();
    let (mut d, mut s) = (Distributor::new(&hub), Server::new(&hub));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    let mut sent = 0u32;
    while !d.outlet.is_blocked() {
        d.outlet.publish_directory(clock::monotonic(), &sent.to_be_bytes(), &[0; 100_000]);
        sent += 1;
    }
    for _ in 0..sent {
        assert_eq!(next(&mut d, &mut s, true), "stream 0: 100004 bytes");
    }
    assert!(!d.outlet.is_blocked());
}

#[test]
fn sides_of_one_process_that_have_nothing_to_say_let_each_other_sleep() {
    let carrier = Hub::new();
    let (mut d, mut s) = (Distributor::new(&carrier), Server::new(&carrier));
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    // What is under way arrives, and both find that there is no more.
    for _ in 0..3 {
        d.turn();
        s.turn();
    }
    for _ in 0..3 {
        d.outlet.flush(clock::monotonic());
        assert_eq!(s.poller.wait(Some(Duration::ZERO)).expect("the poller works").count(), 0);
        s.inlet.flush(clock::monotonic());
        assert_eq!(d.poller.wait(Some(Duration::ZERO)).expect("the poller works").count(), 0);
    }
    d.outlet.publish_directory(clock::monotonic(), b"dir", b"ectory");
    d.outlet.flush(clock::monotonic());
    assert_eq!(s.poller.wait(Some(Duration::ZERO)).expect("the poller works").count(), 1, "but news wake it");
}
