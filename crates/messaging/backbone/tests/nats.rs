//! The backbone over NATS where something goes wrong: servers that die, refuse or take little, peers that are silent or
//! lie, threads that do not keep up. `carriers.rs` has what all carriers do.

use std::io;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use market::p2ps::SourceId;
use net::{Poller, Token, clock};
use tickcast_backbone::nats::{JetStreamConfig, NatsConfig, NatsCounters, NatsInlet, NatsOutlet};
use tickcast_backbone::{InletCommand, Outlet};

mod servers;
mod sides;

use servers::NatsServer;
use sides::{Carrier, Distributor, Server, next};

/// A carrier whose counters are looked at.
struct Counted {
    config: NatsConfig,
    outlet: NatsCounters,
    inlet: NatsCounters,
}

impl Counted {
    fn new(server: &NatsServer) -> Counted {
        // Nor is a server left that is only slow.
        let (timeout_ms, server_timeout_ms) = (60_000, 60_000);
        let servers = vec![server.url()];
        Counted::with(NatsConfig { servers, timeout_ms, server_timeout_ms, ..NatsConfig::default() })
    }

    fn with(config: NatsConfig) -> Counted {
        Counted { config, outlet: NatsCounters::default(), inlet: NatsCounters::default() }
    }

    fn both(&self) -> (Distributor<NatsOutlet>, Server<NatsInlet>) {
        (Distributor::new(self), Server::new(self))
    }
}

impl Carrier for Counted {
    type Outlet = NatsOutlet;
    type Inlet = NatsInlet;
    fn outlet(&self, poller: &Poller) -> io::Result<NatsOutlet> {
        let at = (poller.registrar(), Token(1));
        NatsOutlet::new(&self.config, at, false, clock::seed(), self.outlet.clone())
    }
    fn inlet(&self, poller: &Poller) -> io::Result<NatsInlet> {
        let at = (poller.registrar(), Token(1));
        NatsInlet::new(&self.config, at, false, clock::seed(), self.inlet.clone())
    }
}

type Both<'a> = (&'a mut Distributor<NatsOutlet>, &'a mut Server<NatsInlet>);

/// Both sides turn until something holds.
fn until((d, s): Both<'_>, mut holds: impl FnMut() -> bool) {
    while !holds() {
        d.turn();
        s.turn();
    }
}

/// Takes what one side hears until it hears this; returns what came before.
fn hear_until((d, s): Both<'_>, of_server: bool, expected: &str) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        match next(d, s, of_server) {
            words if words == expected => return before,
            words => before.push(words),
        }
    }
}

/// Publishes packets as a stranger would.
struct Stranger {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Stranger {
    fn new(server: &NatsServer) -> Stranger {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async_nats::connect(server.url())).expect("the server is there");
        Stranger { runtime, client }
    }

    fn publish(&self, subject: &str, packets: impl IntoIterator<Item = Vec<u8>>) {
        self.runtime.block_on(async {
            for packet in packets {
                self.client.publish(subject.to_owned(), packet.into()).await.expect("it is sent");
            }
            self.client.flush().await.expect("it is there");
        });
    }
}

/// A packet by the page of the protocol.
fn packet(kind: u8, [origin, run, number, taken]: [u64; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 0];
    [origin, run, number, taken].iter().for_each(|value| bytes.extend(value.to_be_bytes()));
    bytes.extend_from_slice(body);
    bytes
}

const MESSAGE_A: &[u8] = &[0, 0, 0, 1, b'a'];

#[test]
fn a_server_that_dies_breaks_links_and_all_goes_on_with_the_next() {
    let mut server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    d.outlet.publish_directory(clock::monotonic(), b"", b"before");
    assert_eq!(next(&mut d, &mut s, true), "stream 0: before");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    hear_until((&mut d, &mut s), true, "link 5 up");
    assert_eq!(next(&mut d, &mut s, false), "peer 1 connected");
    server.restart();
    // Each side notices by itself, and says so.
    hear_until((&mut d, &mut s), true, "link 5 down");
    hear_until((&mut d, &mut s), false, "peer 1 closed");
    // What is published meanwhile is lost, and counted.
    let mut lost = 0;
    until((&mut d, &mut s), || {
        lost = carrier.inlet.carrier.packets_lost.get();
        [&carrier.outlet, &carrier.inlet].iter().all(|of| of.connection.connected.get() == 1)
            && carrier.inlet.connection.connects.get() == 2
    });
    d.outlet.publish_directory(clock::monotonic(), b"", b"after");
    hear_until((&mut d, &mut s), true, "stream 0: after");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    hear_until((&mut d, &mut s), true, "link 5 up");
    d.outlet.to_peer(market::distributor::PeerId(2), b"again");
    hear_until((&mut d, &mut s), true, "link 5: again");
    let (of_outlet, of_inlet) = (&carrier.outlet.carrier, &carrier.inlet.carrier);
    assert_eq!((of_outlet.links_opened.get(), of_outlet.links_closed.get()), (2, 1));
    assert_eq!((of_inlet.links_opened.get(), of_inlet.links_closed.get(), of_inlet.sources.get()), (2, 1, 1));
    assert!(of_outlet.packets_sent.get() > 0 && of_outlet.bytes_sent.get() > 0);
    assert!(of_inlet.packets_rcved.get() > 0 && of_inlet.bytes_rcved.get() > 0);
    // Before the first connection nothing is sent.
    assert!(of_outlet.packets_unconnected.get() > 0);
}

#[test]
fn a_server_that_stands_still_blocks_the_outlet_and_nothing_waits_for_ever() {
    let mut server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    server.stop();
    while !d.outlet.is_blocked() {
        d.outlet.publish_directory(clock::monotonic(), b"", &[0; 50_000]);
        d.outlet.flush(clock::monotonic());
    }
    server.kill();
    until((&mut d, &mut s), || carrier.outlet.connection.packets_refused.get() > 0);
    server.start();
    until((&mut d, &mut s), || {
        [&carrier.outlet, &carrier.inlet].iter().all(|of| of.connection.connects.get() == 2)
    });
    while d.outlet.is_blocked() {
        d.turn();
        s.turn();
    }
    d.outlet.publish_directory(clock::monotonic(), b"", b"after");
    hear_until((&mut d, &mut s), true, "stream 0: after");
}

/// The port of the server that was connected last, if one was.
fn connected_port(notices: &[String]) -> Option<&str> {
    notices.iter().rev().find_map(|text| text.strip_prefix("connected to NATS ")?.rsplit(':').next())
}

#[test]
fn a_server_that_hangs_is_left_for_another_one() {
    let servers = [NatsServer::new(&[]), NatsServer::new(&[])];
    let (urls, server_timeout_ms) = (servers.each_ref().map(NatsServer::url).to_vec(), 1_000);
    let carrier = Counted::with(NatsConfig { servers: urls, server_timeout_ms, ..NatsConfig::default() });
    let (mut d, _) = carrier.both();
    let turn_until_connected = |d: &mut Distributor<NatsOutlet>, but: &str| loop {
        d.turn();
        match connected_port(&d.heard.notices) {
            Some(port) if port != but && carrier.outlet.connection.connected.get() == 1 => {
                break port.to_owned();
            }
            _ => {}
        }
    };
    let first = turn_until_connected(&mut d, "");
    let hanging = servers.iter().find(|server| server.url().ends_with(&first)).expect("one of them");
    hanging.stop();
    // It is still there, and accepts connections.
    turn_until_connected(&mut d, &first);
}

#[test]
fn peers_that_take_nothing_do_not_fill_the_memory() {
    let server = NatsServer::new(&[]);
    let links_waiting_bytes = 64 << 20;
    let carrier = Counted::with(NatsConfig { links_waiting_bytes, ..Counted::new(&server).config });
    let (mut d, mut s) = carrier.both();
    let mut other = Server::new(&carrier);
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    assert_eq!(next(&mut d, &mut other, true), "source 0 directory");
    for side in [&mut s, &mut other] {
        side.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
        hear_until((&mut d, side), true, "link 5 up");
    }
    // The first one does not turn any more.
    let peer = market::distributor::PeerId(1);
    while carrier.outlet.carrier.links_overfull.get() == 0 {
        d.outlet.to_peer(peer, &[0; 1_000_000]);
    }
    assert_eq!(
        hear_until((&mut d, &mut other), false, "peer 1 closed"),
        ["peer 1 connected", "peer 2 connected"]
    );
    d.outlet.to_peer(market::distributor::PeerId(2), b"alive");
    assert_eq!(next(&mut d, &mut other, true), "link 5: alive");
    // It learns of it when it turns again, and opens another one.
    hear_until((&mut d, &mut s), true, "link 5 down");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    hear_until((&mut d, &mut s), true, "link 5 up");
    // A P2PS holds no more for its source distributors either.
    while carrier.inlet.carrier.links_overfull.get() == 0 {
        s.execute(InletCommand::Send { instance: 5, bytes: vec![0; 1_000_000] });
    }
    hear_until((&mut d, &mut s), true, "link 5 down");
}

#[test]
fn a_server_that_takes_short_messages_gets_long_ones_in_pieces() {
    let folder = testkit::Folder::new();
    let file = folder.put("nats.conf", "max_payload: 2048\n");
    let server = NatsServer::new(&["-c", &file.display().to_string()]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    d.outlet.publish_directory(clock::monotonic(), b"head", &[7; 100_000]);
    assert_eq!(next(&mut d, &mut s, true), "stream 0: 100004 bytes");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    assert_eq!(next(&mut d, &mut s, true), "link 5 up");
    s.execute(InletCommand::Send { instance: 5, bytes: vec![1; 50_000] });
    assert_eq!(hear_until((&mut d, &mut s), false, "peer 1: 50000 bytes"), ["peer 1 connected"]);
    d.outlet.to_peer(market::distributor::PeerId(1), &[1; 3_000_000]);
    assert_eq!(next(&mut d, &mut s, true), "link 5: 3000000 bytes");
    assert_eq!(carrier.outlet.connection.packets_refused.get(), 0);
}

#[test]
fn images_for_a_peer_wait_for_its_window_and_all_of_them_arrive() {
    let server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    assert_eq!(next(&mut d, &mut s, true), "link 5 up");
    let peer = market::distributor::PeerId(1);
    for count in 0..400 {
        d.outlet.to_peer(peer, &vec![count as u8; 100_000 + count]);
    }
    assert!(d.outlet.is_full(peer));
    for count in 0..400 {
        assert_eq!(next(&mut d, &mut s, true), format!("link 5: {} bytes", 100_000 + count));
    }
    assert_eq!(carrier.inlet.carrier.links_closed.get(), 0);
    while d.outlet.is_full(peer) {
        d.turn();
        s.turn();
    }
}

#[test]
fn a_thread_that_does_not_keep_up_loses_packets_and_they_are_counted() {
    let server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    // More than its ring holds, while it stands still.
    while carrier.inlet.connection.packets_unread.get() == 0 {
        d.outlet.publish_directory(clock::monotonic(), b"", &[0; 50_000]);
        d.turn();
    }
    while d.outlet.is_blocked() {
        d.turn();
    }
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    until((&mut d, &mut s), || carrier.inlet.carrier.packets_lost.get() > 0);
    d.outlet.publish_directory(clock::monotonic(), b"", b"after");
    hear_until((&mut d, &mut s), true, "stream 0: after");
    assert_eq!(carrier.inlet.carrier.packets_lost.get(), carrier.inlet.connection.packets_unread.get());
}

/// The directory is published until the P2PS, which stands still, has lost some of it; then it goes on.
fn lose_packets(carrier: &Counted, (d, s): Both<'_>) {
    assert_eq!(next(d, s, true), "source 0 directory");
    let mut sent = 0u32;
    while carrier.inlet.connection.packets_unread.get() < 200 {
        d.outlet.publish_directory(clock::monotonic(), &sent.to_be_bytes(), &[0; 50_000]);
        sent += 1;
        d.turn();
    }
    while d.outlet.is_blocked() {
        d.turn();
    }
    until((d, s), || carrier.inlet.carrier.jetstream_holes.get() > 0);
    d.outlet.publish_directory(clock::monotonic(), b"", b"after");
    let before = hear_until((d, s), true, "stream 0: after");
    assert!(before.iter().all(|words| words == "stream 0: 50004 bytes"));
    let lost = carrier.inlet.carrier.packets_lost.get();
    assert_eq!(before.len() as u64 + lost, u64::from(sent), "each message is a packet");
}

fn with_jetstream(server: &NatsServer, jetstream: JetStreamConfig) -> Counted {
    Counted::with(NatsConfig { jetstream, ..Counted::new(server).config })
}

#[test]
fn packets_that_were_lost_come_from_jetstream() {
    let server = NatsServer::with_stream();
    let stream = server.stream();
    let carrier =
        with_jetstream(&server, JetStreamConfig { stream, wait_ms: 60_000, ..JetStreamConfig::default() });
    let (mut d, mut s) = carrier.both();
    lose_packets(&carrier, (&mut d, &mut s));
    let of_inlet = &carrier.inlet.carrier;
    assert_eq!((of_inlet.packets_lost.get(), of_inlet.jetstream_holes_given_up.get()), (0, 0));
    assert!(of_inlet.jetstream_packets_recovered.get() >= carrier.inlet.connection.packets_unread.get());
    assert!(of_inlet.jetstream_requests.get() > 0 && of_inlet.jetstream_requests_refused.get() == 0);
    assert_eq!(of_inlet.jetstream_held_bytes.get(), 0);
}

/// What the guide says a user needs is enough.
#[test]
fn a_user_with_the_rights_of_the_guide_gets_packets_from_jetstream() {
    let folder = testkit::Folder::new();
    let store = folder.display();
    let config = format!(
        r#"
        jetstream {{ store_dir: "{store}" }}
        authorization {{ users: [
            {{ user: "admin", password: "admin" }}
            {{ user: "tickcast", password: "correct", permissions: {{
                publish: ["tickcast.>", "$JS.API.DIRECT.GET.TICKCAST"], subscribe: ["tickcast.>"]
            }} }}
        ] }}"#
    );
    let (config, password_file) = (folder.put("nats.conf", config), folder.put("password", "correct"));
    let server = NatsServer::new(&["-c", &config.display().to_string()]);
    let admin = ConnectOptions::with_user_and_password("admin".to_owned(), "admin".to_owned());
    servers::create_stream(admin, &server.url(), servers::STREAM, "true");
    let stream = Some(servers::STREAM.to_owned());
    let jetstream = JetStreamConfig { stream, wait_ms: 60_000, ..JetStreamConfig::default() };
    let password_file = Some(password_file.display().to_string());
    let config = with_jetstream(&server, jetstream).config;
    let carrier = Counted::with(NatsConfig { user: Some("tickcast".to_owned()), password_file, ..config });
    let (mut d, mut s) = carrier.both();
    lose_packets(&carrier, (&mut d, &mut s));
    assert_eq!(carrier.inlet.carrier.packets_lost.get(), 0);
    assert_eq!((carrier.inlet.connection.errors.get(), carrier.outlet.connection.errors.get()), (0, 0));
}

#[test]
fn a_stream_that_is_absent_misnamed_or_without_direct_access_costs_the_wait_once() {
    let absent = NatsServer::new(&[]);
    let misnamed = NatsServer::with_stream_of("OTHER", "true");
    let indirect = NatsServer::with_stream_of(servers::STREAM, "false");
    // Some versions of the server refuse requests that others do not answer.
    for server in [absent, misnamed, indirect] {
        let stream = Some(servers::STREAM.to_owned());
        let carrier =
            with_jetstream(&server, JetStreamConfig { stream, wait_ms: 100, ..JetStreamConfig::default() });
        let (mut d, mut s) = carrier.both();
        lose_packets(&carrier, (&mut d, &mut s));
        let of_inlet = &carrier.inlet.carrier;
        assert!(of_inlet.packets_lost.get() > 0 && of_inlet.jetstream_holes_given_up.get() == 1);
        let failed = of_inlet.jetstream_requests_unanswered.get() + of_inlet.jetstream_requests_refused.get();
        assert!(failed > 0 && failed <= of_inlet.jetstream_requests.get());
        assert_eq!(of_inlet.jetstream_packets_recovered.get(), 0);
        let said = |s: &Server<NatsInlet>| {
            s.heard.notices.iter().filter(|text| text.contains("about stream TICKCAST")).count()
        };
        while said(&s) == 0 {
            s.turn();
        }
        assert_eq!(said(&s), 1, "{:?}", s.heard.notices);
    }
}

#[test]
fn more_than_may_wait_is_told() {
    // It answers nothing, so all has to wait.
    let server = NatsServer::with_stream_of("OTHER", "true");
    let (stream, buffer_bytes) = (Some(servers::STREAM.to_owned()), 1 << 20);
    let jetstream = JetStreamConfig { stream, wait_ms: 60_000, buffer_bytes, ..JetStreamConfig::default() };
    let carrier = with_jetstream(&server, jetstream);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    let stranger = Stranger::new(&server);
    let body = [&[0, 0, 0xFF, 0][..], &[b'x'; 0xFF00]].concat();
    let packets = (0..100).map(|number| packet(1, [77, 0, 10 + 2 * number, 0], &body));
    stranger.publish("tickcast.directory", packets);
    until((&mut d, &mut s), || carrier.inlet.carrier.jetstream_holes_too_large.get() > 0);
    until((&mut d, &mut s), || carrier.inlet.carrier.packets_lost.get() > 0);
}

#[test]
fn a_source_distributor_that_is_silent_is_gone() {
    let server = NatsServer::new(&[]);
    let config = NatsConfig {
        servers: vec![server.url()],
        keep_alive_ms: 100,
        timeout_ms: 2_000,
        ..NatsConfig::default()
    };
    let carrier = Counted::with(config);
    let (mut d, mut s) = carrier.both();
    hear_until((&mut d, &mut s), true, "source 0 directory");
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    hear_until((&mut d, &mut s), true, "link 5 up");
    // It does not turn any more.
    let mut heard = Vec::new();
    while heard.len() < 2 {
        s.turn();
        heard.extend(s.heard.words.drain(..));
    }
    heard.sort();
    assert_eq!(heard, ["link 5 down", "source 0 ended"]);
    // It turns again, and has heard nothing either.
    hear_until((&mut d, &mut s), false, "peer 1 closed");
    hear_until((&mut d, &mut s), true, "source 1 directory");
}

#[test]
fn what_strangers_send_is_dropped_and_counted() {
    let server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    let stranger = Stranger::new(&server);
    let (of_outlet, of_inlet) = (&carrier.outlet.carrier, &carrier.inlet.carrier);
    // No packets, and packets that do not belong there.
    let garbage =
        [vec![], vec![0; 5], vec![0xFF; 1_000], packet(1, [1, 2, 0, 0], MESSAGE_A), packet(6, [1; 4], b"")];
    stranger.publish("tickcast.directory", garbage.clone());
    stranger.publish("tickcast.query", garbage);
    until((&mut d, &mut s), || {
        of_inlet.packets_malformed.get() == 5 && of_outlet.packets_malformed.get() == 5
    });
    // A message twice is one message.
    stranger.publish("tickcast.directory", vec![packet(1, [77, 0, 9, 0], MESSAGE_A); 3]);
    assert_eq!(next(&mut d, &mut s, true), "source 1 directory");
    assert_eq!(next(&mut d, &mut s, true), "stream 1: a");
    until((&mut d, &mut s), || of_inlet.packets_late.get() == 2);
    // More sources and links than there is room for.
    stranger.publish("tickcast.directory", (1_000..5_200).map(|origin| packet(3, [origin, 0, 0, 0], b"")));
    until((&mut d, &mut s), || of_inlet.sources_refused.get() >= 4_200 + 2 - 4_096);
    let listen = async {
        let subscribed = stranger.client.subscribe("tickcast.inbox.>").await.expect("subscribed");
        stranger.client.flush().await.expect("it is there");
        subscribed
    };
    let mut subscribed = stranger.runtime.block_on(listen);
    s.execute(InletCommand::Connect { instance: 5, directory: SourceId(0) });
    hear_until((&mut d, &mut s), true, "link 5 up");
    let opening = stranger.runtime.block_on(subscribed.next()).expect("the link was opened");
    let inbox = opening.subject.to_string();
    stranger.publish(&inbox, (1..=1_100).map(|origin| packet(6, [origin, 1, 0, 0], b"")));
    until((&mut d, &mut s), || of_outlet.links_refused.get() == 1_100 + 1 - 1_024);
    assert_eq!(of_outlet.links_opened.get(), 1_024);
    // The others go on.
    d.outlet.publish_directory(clock::monotonic(), b"", b"alive");
    hear_until((&mut d, &mut s), true, "stream 0: alive");
}

#[test]
fn systems_with_other_prefixes_do_not_hear_each_other() {
    let server = NatsServer::new(&[]);
    let carrier = Counted::new(&server);
    let other = Counted::with(NatsConfig { prefix: "other.site".to_owned(), ..carrier.config.clone() });
    let (mut d, mut s) = carrier.both();
    let (mut other_d, mut other_s) = other.both();
    assert_eq!(next(&mut other_d, &mut other_s, true), "source 0 directory");
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    other_d.outlet.publish_directory(clock::monotonic(), b"", b"of the other");
    assert_eq!(next(&mut other_d, &mut other_s, true), "stream 0: of the other");
    d.outlet.publish_directory(clock::monotonic(), b"", b"own");
    assert_eq!(next(&mut d, &mut s, true), "stream 0: own");
}

#[test]
fn sides_without_anything_to_say_let_each_other_sleep() {
    let server = NatsServer::new(&[]);
    let config = NatsConfig {
        servers: vec![server.url()],
        keep_alive_ms: 20_000,
        timeout_ms: 60_000,
        ..NatsConfig::default()
    };
    let carrier = Counted::with(config);
    let (mut d, mut s) = carrier.both();
    assert_eq!(next(&mut d, &mut s, true), "source 0 directory");
    // What is under way arrives.
    for _ in 0..200 {
        d.turn();
        s.turn();
    }
    assert_eq!(s.poller.wait(Some(Duration::ZERO)).expect("the poller works").count(), 0);
    d.outlet.publish_directory(clock::monotonic(), b"", b"news");
    d.outlet.flush(clock::monotonic());
    assert_eq!(s.poller.wait(None).expect("the poller works").count(), 1, "but news wake it");
}
