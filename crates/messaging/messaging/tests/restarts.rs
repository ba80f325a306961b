//! Sources at fixed places that end, or die, and are started again at once: each run is a stream of its own, and what
//! it sent is delivered or told lost.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use net::faults::Faults;

use common::scratch::Scratch;
use common::{Party, Patience, config_with, group, group_port};
use lbt::resolution::TransportSession;
use lbt::wire::extension::{SUBTYPE_RUN, emit_extension};
use lbt::wire::lbtrm::{DATA_HEADER_LEN, Data};
use testkit::watchdog::joined;
use tickcast_messaging::{
    ContextCounters, End, EndReason, Handler, Interface, Loss, Message, MessagingConfig, Receiver,
    ReceiverOptions, SendError, Source, SourceOptions, Sqn, StreamId,
};

/// What was heard of one stream.
#[derive(Default)]
struct Stream {
    begun: Option<Sqn>,
    next: Option<Sqn>,
    /// That of its messages.
    run: Option<u32>,
    delivered: u32,
    lost: u32,
    end: Option<End>,
}

#[derive(Default)]
struct Ears {
    streams: BTreeMap<StreamId, Stream>,
    /// The last message of all.
    last: Option<(u32, u32)>,
}

impl Handler for Ears {
    fn on_begin(&mut self, _: Receiver, stream: StreamId, first: Sqn) {
        let stream = self.streams.entry(stream).or_default();
        assert!(stream.begun.is_none(), "it begins once");
        (stream.begun, stream.next) = (Some(first), Some(first));
    }

    fn on_message(&mut self, message: &Message<'_>) {
        let stream = self.streams.entry(message.stream).or_default();
        let word = |at: usize| u32::from_be_bytes(*message.payload[at..].first_chunk().expect("two words"));
        let (run, index) = (word(0), word(4));
        assert_eq!(*stream.run.get_or_insert(run), run, "a stream is of one run");
        assert_eq!((stream.next, message.sqn), (Some(message.sqn), Sqn(index)), "in order, of run {run}");
        stream.next = Some(message.sqn.next());
        stream.delivered += 1;
        self.last = Some((run, index));
    }

    fn on_loss(&mut self, _: Receiver, stream: StreamId, loss: Loss) {
        let stream = self.streams.entry(stream).or_default();
        assert_eq!(stream.next, Some(loss.first), "loss stands in its place");
        stream.next = Some(loss.first.plus(loss.count));
        stream.lost += loss.count;
    }

    fn on_end(&mut self, _: Receiver, stream: StreamId, end: &End) {
        let stream = self.streams.entry(stream).or_default();
        assert!(stream.end.replace(*end).is_none(), "it ends once");
    }
}

/// How a run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    InOrder,
    Killed,
}

/// One place, with its source and its receiver.
struct Place {
    config: MessagingConfig,
    transport: &'static str,
    keys: Option<Scratch>,
}

/// The keys of an encrypted place: runs have one and the other by turns.
const KEYS: [&str; 2] = ["1 000102030405060708090a0b0c0d0e0f\n", "2 f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\n"];

impl Place {
    fn new(transport: &'static str, test: u8) -> Place {
        Place::on_networks(transport, test, "")
    }

    /// With a second network where `second` names its address.
    fn on_networks(transport: &'static str, test: u8, second: &str) -> Place {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = socket.local_addr().expect("bound").port();
        let session = match transport {
            "LBTRM" => format!("LBTRM:127.0.0.1:{port}:5eed1234:{}:{}", group(247, test), group_port()),
            other => format!("{other}:127.0.0.1:{port}:5eed1234"),
        };
        let line = format!("[\"px = {session}[7]{second}\"]");
        let toml = format!("[messaging]\nsource_static_session = {line}\nresolver.static_source = {line}\n");
        Place { config: config_with(test, &toml), transport, keys: None }
    }

    /// With encrypted messages, by a file of keys for the receiver and one for the sources.
    fn encrypted(transport: &'static str, test: u8) -> Place {
        let (mut place, scratch) = (Place::new(transport, test), Scratch::new());
        let file = scratch.put("receiver", KEYS[0]);
        place.config.lbtrm.encryption_key_file.clone_from(&file);
        place.config.lbtru.encryption_key_file = file;
        place.config.security_reload_interval_us = 1_000;
        Place { keys: Some(scratch), ..place }
    }

    /// Gives a run its key, which the receiver learns with the second one, beside that of the first.
    fn change_key(&self, run: u32, receiver: &ContextCounters) {
        let Some(scratch) = &self.keys else { return };
        scratch.put("sources", KEYS[run as usize % 2]);
        if run == 1 {
            scratch.put("receiver", KEYS.concat());
            let patience = Patience::new();
            // Those of both transports.
            while receiver.context.security_reloads.get() < 2 {
                assert!(patience.lasts(), "the file is not read again");
                std::thread::yield_now();
            }
        }
    }

    /// For sources.
    fn sending(&self) -> MessagingConfig {
        let mut config = self.config.clone();
        if let Some(scratch) = &self.keys {
            let file = scratch.file("sources");
            config.lbtrm.encryption_key_file.clone_from(&file);
            config.lbtru.encryption_key_file = file;
        }
        config
    }

    fn is_multicast(&self) -> bool {
        self.transport == "LBTRM"
    }

    fn receiver(&self) -> Party<Ears> {
        let mut party = Party::new(&self.config);
        party.context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        party
    }

    /// Starts a run; its port may be in use for a moment still.
    fn start(&self) -> (Party, Source) {
        let (patience, config) = (Patience::new(), self.sending());
        loop {
            let mut party: Party = Party::new(&config);
            match party.context.create_source("px", &SourceOptions::default()) {
                Ok(source) => return (party, source),
                Err(error) => assert!(patience.lasts(), "{error}"),
            }
        }
    }

    /// A run from its start to its stop, that sends so many messages.
    fn run(&self, run: u32, count: u32, stop: Stop) {
        let (mut a, source) = self.start();
        // A source of LBT-RU has receivers when they have connected. The first run waits for that, since what it
        // sends before is owed to nobody; others send in vain, and wait before they end in order.
        let wait_for_connection = |a: &mut Party| {
            let patience = Patience::new();
            while !self.is_multicast() && a.heard.events.is_empty() {
                assert!(patience.lasts(), "nobody connects to run {run}");
                a.turn();
            }
        };
        if run == 0 {
            wait_for_connection(&mut a);
        }
        send(&mut a, source, run, 0..count - 1);
        if stop == Stop::InOrder {
            wait_for_connection(&mut a);
        }
        send(&mut a, source, run, count - 1..count);
        if stop == Stop::InOrder {
            assert!(a.context.close(Duration::from_secs(30)).is_empty(), "run {run}");
        } else {
            a.context.abandon();
        }
    }
}

fn send(a: &mut Party, source: Source, run: u32, indices: std::ops::Range<u32>) {
    for index in indices {
        while let Err(error) = a.context.send(source, &[&run.to_be_bytes(), &index.to_be_bytes(), &[7; 60]]) {
            assert_eq!(error, SendError::WouldBlock);
            a.turn();
        }
    }
    a.context.flush();
    // As many turns as the rate limit needs.
    while !a.context.left().is_empty() {
        a.turn();
    }
}

/// Drives a receiver on a thread of its own until it is told that nothing more comes, and then until `is_done`.
fn listen(
    mut b: Party<Ears>,
    is_over: &Arc<AtomicBool>,
    is_done: impl Fn(&Ears) -> bool + Send + 'static,
) -> JoinHandle<Ears> {
    let is_over = is_over.clone();
    std::thread::spawn(move || {
        let patience = Patience::new();
        while !(is_over.load(Ordering::Relaxed) && is_done(&b.heard)) {
            assert!(patience.lasts(), "it waits for ever; the last was {:?}", b.heard.last);
            b.turn();
        }
        b.heard
    })
}

/// Every run that sent was heard from its first message to its last, or was told lost; the tail of one that was killed
/// may be unknown.
fn judge(place: &Place, ears: &Ears, runs: &[(u32, Stop)]) {
    let mut by_run = HashMap::new();
    for stream in ears.streams.values().filter(|stream| stream.begun.is_some()) {
        let Some(run) = stream.run else { panic!("a stream of losses alone") };
        assert!(by_run.insert(run, stream).is_none(), "run {run} is one stream");
    }
    for (run, (sent, stop)) in (0..).zip(runs) {
        let what = format!("{} run {run}, {stop:?}", place.transport);
        let Some(stream) = by_run.get(&run) else {
            // Whoever connects may find that it is gone again.
            assert!(!place.is_multicast() && *stop == Stop::Killed, "{what} was not heard");
            continue;
        };
        let told = stream.delivered + stream.lost;
        assert_eq!(stream.begun, Some(Sqn(0)), "{what}");
        let end = stream.end.unwrap_or_else(|| panic!("{what} has not ended"));
        assert_eq!(end.next, Some(Sqn(told)), "{what}");
        match stop {
            Stop::InOrder => assert_eq!((told, end.reason), (*sent, EndReason::Ended), "{what}"),
            Stop::Killed => assert!(told <= *sent && end.tail_unknown, "{what}: {told} of {sent}, {end:?}"),
        }
        if place.is_multicast() {
            assert_eq!(told, *sent, "{what}: loopback brings all that was sent");
        }
    }
}

/// Runs one after the other as quickly as they can be started, while a receiver listens.
fn one_after_the_other(place: &Place, runs: &[(u32, Stop)]) {
    let last = runs.len() as u32 - 1;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut b = place.receiver();
    b.turn();
    let counters = b.counters.clone();
    let heard = listen(b, &is_over, move |ears| {
        ears.streams.values().any(|stream| stream.run == Some(last) && stream.end.is_some())
    });
    for (run, (count, stop)) in (0..).zip(runs) {
        place.change_key(run, &counters);
        place.run(run, *count, *stop);
    }
    is_over.store(true, Ordering::Relaxed);
    judge(place, &joined(heard), runs);
    for session in [&counters.receiver.session, &counters.ru_receiver.session] {
        let unread =
            [&session.dgrams_undeciphered, &session.dgrams_no_payload_key, &session.dgrams_not_encrypted];
        assert_eq!(unread.map(|counter| counter.get()), [0; 3], "{}", place.transport);
    }
}

use Stop::{InOrder, Killed};

#[test]
fn a_source_that_is_started_again_right_after_its_end_is_heard_from_its_first_message() {
    for (test, transport) in [(1, "LBTRM"), (2, "LBT-RU")] {
        one_after_the_other(&Place::new(transport, test), &[(100, InOrder), (500, InOrder), (500, InOrder)]);
    }
}

#[test]
fn short_runs_that_are_killed_one_after_the_other_are_streams_of_their_own() {
    for (test, transport) in [(3, "LBTRM"), (4, "LBT-RU")] {
        one_after_the_other(&Place::new(transport, test), &[(100, Killed), (500, InOrder)]);
        let place = Place::new(transport, test);
        one_after_the_other(&place, &[(100, Killed), (500, Killed), (3, Killed), (500, InOrder)]);
    }
}

#[test]
fn runs_of_an_encrypted_source_are_told_apart_whatever_key_each_has() {
    for (test, transport) in [(11, "LBTRM"), (12, "LBT-RU")] {
        let runs = [(100, Killed), (500, InOrder), (3, Killed), (500, InOrder)];
        one_after_the_other(&Place::encrypted(transport, test), &runs);
        one_after_the_other(&Place::encrypted(transport, test), &[(100, InOrder), (500, InOrder)]);
    }
}

#[test]
fn a_run_that_sends_more_than_the_one_before_is_not_taken_for_its_tail() {
    // Each begins where the last one stopped, if numbers alone are looked at.
    let place = Place::new("LBTRM", 5);
    one_after_the_other(&place, &[(50, Killed), (5_000, Killed), (20_000, InOrder)]);
}

#[test]
fn who_was_stopped_meanwhile_finds_the_runs_in_its_socket_each_as_a_stream() {
    let place = Place::new("LBTRM", 6);
    let mut b = place.receiver();
    b.turn();
    let runs = [(20, Killed), (30, InOrder), (1, Killed), (40, InOrder)];
    for (run, (count, stop)) in (0..).zip(runs) {
        place.run(run, count, stop);
    }
    let is_over = Arc::new(AtomicBool::new(true));
    let heard = listen(b, &is_over, |ears| {
        ears.streams.values().any(|stream| stream.run == Some(3) && stream.end.is_some())
    });
    judge(&place, &joined(heard), &runs);
}

#[test]
fn a_source_on_two_networks_that_is_started_again_is_one_stream_for_each_run() {
    let second = Ipv4Addr::new(127, 0, 0, 2);
    let mut place = Place::on_networks("LBTRM", 7, &format!("+{second}"));
    place.config.interface_b = Some(Interface::Address(second));
    one_after_the_other(&place, &[(200, Killed), (300, InOrder), (10, Killed), (400, InOrder)]);
}

#[test]
fn a_run_that_its_receiver_meets_late_is_told_from_its_first_message_on() {
    let _repeat = testkit::repeat!();
    for (test, transport) in [(8, "LBTRM"), (9, "LBT-RU")] {
        let place = Place::new(transport, test);
        let faults = Faults::new(1);
        let mut b = faults.within(|| place.receiver());
        let meet = |a: &mut Party, source, b: &mut Party<Ears>, run| {
            let (patience, mut index) = (Patience::new(), 0);
            while b.heard.last.is_none_or(|(heard, _)| heard != run) {
                assert!(patience.lasts(), "{transport}: run {run} is not heard");
                send(a, source, run, index..index + 1);
                index += 1;
                a.turn();
                b.turn();
            }
            index
        };
        let (mut a, source) = place.start();
        meet(&mut a, source, &mut b, 0);
        a.context.abandon();
        // More than the window holds, before the receiver reads its socket or is connected again.
        let mut small = Place { config: place.config.clone(), ..place };
        small.config.lbtrm.transmission_window_size_bytes = 65_536;
        small.config.lbtru.transmission_window_size_bytes = 65_536;
        small.config.lbtrm.data_rate_limit_bits_per_second = 10_000_000_000;
        let (mut a, source) = small.start();
        faults.cut(true);
        send(&mut a, source, 1, 0..50_000);
        (0..100).for_each(|_| b.turn());
        faults.cut(false);
        let patience = Patience::new();
        let mut index = 50_000;
        while b.heard.last.is_none_or(|(run, heard)| run != 1 || heard + 1 < index) {
            assert!(patience.lasts(), "{transport}: the second run is not heard, {:?}", b.heard.last);
            if b.heard.last.is_none_or(|(run, _)| run != 1) {
                send(&mut a, source, 1, index..index + 1);
                index += 1;
            }
            a.turn();
            b.turn();
        }
        let stream = b.heard.streams.values().find(|s| s.run == Some(1)).expect("it was heard");
        assert_eq!((stream.begun, stream.delivered + stream.lost), (Some(Sqn(0)), index), "{transport}");
        assert!(stream.lost > 0, "{transport}: the window held all");
    }
}

#[test]
fn a_run_that_a_stranger_replaced_goes_on_where_its_stream_ended() {
    let place = Place::new("LBTRM", 10);
    let (mut b, (mut a, source)) = (place.receiver(), place.start());
    let (patience, mut sent) = (Patience::new(), 0);
    let mut talk = |b: &mut Party<Ears>, count: u32| {
        for _ in 0..count {
            send(&mut a, source, 0, sent..sent + 1);
            sent += 1;
            b.turn();
        }
        while b.heard.last != Some((0, sent - 1)) {
            assert!(patience.lasts(), "{:?} is the last of {sent}", b.heard.last);
            a.turn();
            b.turn();
        }
        sent
    };
    talk(&mut b, 20);
    let TransportSession::LbtRm { key, group } = place.config.resolver.static_source[0].record.session else {
        unreachable!("it is multicast")
    };
    let mut forged = vec![0; DATA_HEADER_LEN];
    Data::new(key.session, Sqn(0), Sqn(0)).emit_header(forged.first_chunk_mut().expect("as long"));
    emit_extension(&mut forged, SUBTYPE_RUN, &[1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    stranger.send_to(&forged, group).expect("loopback has multicast");
    while b.heard.streams.values().all(|stream| stream.end.is_none()) {
        assert!(patience.lasts(), "it is not believed");
        b.turn();
    }
    let sent = talk(&mut b, 40);
    let begun: Vec<&Stream> = b.heard.streams.values().filter(|stream| stream.begun.is_some()).collect();
    let [first, second] = begun[..] else { panic!("{} streams", begun.len()) };
    let end = first.end.expect("it has ended");
    assert_eq!((end.reason, end.next), (EndReason::Restarted, second.begun));
    assert_eq!((first.delivered + second.delivered, first.lost + second.lost), (sent, 0));
}
