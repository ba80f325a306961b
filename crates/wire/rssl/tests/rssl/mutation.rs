//! Hundreds of thousands of spoilt inputs and random sequences of operations, each run repeated from one
//! seed.
//!
//! Nothing may panic, and the invariants hold whatever comes: messages are never empty and within the
//! ceiling, memory is within its bound, what one side counts as written the socket has got, and over is over.

use std::ops::ControlFlow;
use std::sync::Arc;

use counters::CounterSet;
use counters::table::RsslConnections;
use tickcast_rssl::frame::{FragmentIds, Frame};
use tickcast_rssl::handshake::{ClientKey, ConnectRequest, Reply};
use tickcast_rssl::{
    ClientConfig, ClientConnection, CloseReason, ConnectionVersion, Disconnect, Handler, Limits, Outbound,
    Packer, SendError, ServerConfig, ServerConnection, Session, Stop,
};
use units::{Nanos, Rng};

use crate::support::*;

const LIMITS: Limits = Limits {
    message_bytes_max: 65_535,
    fragmented_open_max: 4,
    fragmented_bytes_max: 100_000,
    backlog_bytes_max: 64 << 10,
};

/// Checks each message, answers some, ends the connection at times.
struct Checker {
    rng: Rng,
    received: Vec<Vec<u8>>,
    /// What went out on this side, the driver's messages included.
    sent: Vec<Vec<u8>>,
}

impl Checker {
    fn push(&mut self, out: &mut Outbound, message: &[u8]) -> Result<(), SendError> {
        out.push(message)?;
        self.sent.push(message.to_vec());
        Ok(())
    }
}

impl Handler for Checker {
    fn on_connected(&mut self, session: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        assert!(session.negotiated.message_size_bytes >= 64);
        assert!(session.negotiated.ping_timeout.as_secs() > 0);
        assert_eq!(self.push(out, b"hello"), Ok(()));
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        assert!(!message.is_empty() && message.len() <= LIMITS.message_bytes_max as usize);
        self.received.push(message.to_vec());
        if self.rng.chance(0.1)
            && let Err(error) = self.push(out, message)
        {
            return ControlFlow::Break(error.into());
        }
        if self.rng.chance(0.001) {
            return ControlFlow::Break(Stop::Application);
        }
        ControlFlow::Continue(())
    }
}

/// Changes a few bytes, lengths with preference; cuts, doubles or inserts.
fn spoil(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            2 if at < bytes.len() => bytes[at] = [0, 1, 2, 3, 4, 0x7f, 0x80, 0xff][rng.below(8) as usize],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, rng.next_u64() as u8),
            _ => bytes.extend_from_within(at..),
        }
    }
}

fn checker(rng: &mut Rng) -> Checker {
    Checker { rng: Rng::new(rng.next_u64()), received: Vec::new(), sent: Vec::new() }
}

fn version(rng: &mut Rng) -> ConnectionVersion {
    ConnectionVersion::ALL[rng.below(5) as usize]
}

#[test]
fn spoilt_handshake_messages_never_panic() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(0x5e55);
    let (mut requests, mut replies, mut keys) = (0u32, 0u32, 0u32);
    for _ in 0..150_000 {
        let version = version(&mut rng);
        let mut bytes = Vec::new();
        match rng.below(3) {
            0 => {
                let mut client = client(version, &counters());
                bytes = take(client.outbound());
                spoil(&mut bytes, &mut rng);
                requests += u32::from(ConnectRequest::parse(&bytes).is_ok());
            }
            1 => {
                let mut server = server(&counters());
                let whole = request(version);
                server.on_bytes(Nanos::ZERO, &whole, &mut Recorder::default()).expect("a good request");
                bytes = take(server.outbound());
                spoil(&mut bytes, &mut rng);
                replies += u32::from(Reply::parse(&bytes, version).is_ok());
            }
            _ => {
                ClientKey { key: rng.chance(0.5).then_some(1) }.emit(&mut bytes);
                spoil(&mut bytes, &mut rng);
                keys += u32::from(ClientKey::parse(&bytes).is_ok());
            }
        }
    }
    assert!(requests > 1000 && replies > 1000 && keys > 1000, "some survive: {requests} {replies} {keys}");
}

#[test]
fn spoilt_frames_never_panic() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(0xf4a3e);
    let mut good = [0u32; 6];
    for _ in 0..400_000 {
        let bytes = [3, 4, 9, 10, 11, 30][rng.below(6) as usize];
        let mut frame = vec![0, bytes as u8, [2, 0x12, 3, 4][rng.below(4) as usize]];
        frame.resize_with(bytes, || rng.below(9) as u8);
        spoil(&mut frame, &mut rng);
        let ids = if rng.chance(0.5) { FragmentIds::OneByte } else { FragmentIds::TwoBytes };
        let kind = match Frame::parse(&frame, ids) {
            Ok(Frame::Ping) => 0,
            Ok(Frame::Message(message)) => {
                assert_eq!(message.len(), frame.len() - 3);
                1
            }
            Ok(Frame::Packed(messages)) => {
                let unpacked: usize = messages.map_while(Result::ok).map(|m| m.len() + 2).sum();
                assert!(unpacked <= frame.len() - 3);
                2
            }
            Ok(Frame::First { data, .. }) | Ok(Frame::Next { data, .. }) => {
                assert!(data.len() <= frame.len() - 5);
                3
            }
            Ok(Frame::Compressed { .. }) => 4,
            Err(_) => 5,
        };
        good[kind] += 1;
    }
    assert!(good.iter().all(|&count| count > 1000), "every kind comes up: {good:?}");
}

/// A stream of good frames of all kinds.
fn good_stream(version: ConnectionVersion, size: u16, rng: &mut Rng) -> Vec<u8> {
    let mut packer = Packer::new(version, size).expect("the size is within its bounds");
    let mut out = Vec::new();
    for _ in 0..1 + rng.below(12) {
        let longest = if rng.chance(0.1) { 5000 } else { 100 };
        packer.push(&mut out, &message(1 + rng.below(longest) as usize, 0)).expect("not empty");
        if rng.chance(0.3) {
            packer.close(&mut out);
        }
    }
    packer.close(&mut out);
    out
}

fn check_memory(memory_bytes: usize) {
    assert!(memory_bytes as u64 <= LIMITS.memory_bytes_max(6144), "{memory_bytes}");
}

#[test]
fn spoilt_streams_cost_at_most_the_connection() {
    let _repeat = testkit::repeat!();
    let mut rng = Rng::new(0x57e4);
    let config = ServerConfig { limits: LIMITS, message_size_bytes: 600, ..ServerConfig::default() };
    let params = Arc::new(config.check().expect("a good configuration"));
    let counters = counters();
    let (mut ended, mut stayed, mut messages) = (0u32, 0u32, 0u64);
    for _ in 0..60_000 {
        let version = version(&mut rng);
        let mut server = ServerConnection::new(Nanos::ZERO, &params, &counters, rng.next_u64());
        let mut checker = checker(&mut rng);
        let mut bytes = request(version);
        if version == ConnectionVersion::V14 {
            ClientKey { key: Some(rng.next_u64()) }.emit(&mut bytes);
        }
        let handshake_bytes = bytes.len();
        bytes.extend(good_stream(version, 600, &mut rng));
        if rng.chance(0.9) {
            let mut spoilt = bytes.split_off(if rng.chance(0.2) { 0 } else { handshake_bytes });
            spoil(&mut spoilt, &mut rng);
            bytes.extend(spoilt);
        }
        let result = pieces(&bytes, Some(&mut rng))
            .into_iter()
            .try_for_each(|piece| server.on_bytes(Nanos::ZERO, piece, &mut checker));
        check_memory(server.memory_bytes());
        let received = checker.received.len();
        messages += received as u64;
        match result {
            Ok(()) => stayed += 1,
            Err(reason) => {
                ended += 1;
                assert_eq!(server.close_reason(), Some(reason));
                assert_eq!(server.on_bytes(Nanos::ZERO, &bytes, &mut checker), Err(reason));
                assert_eq!(checker.received.len(), received);
                assert_eq!(server.next_wakeup(), Nanos::NEVER);
            }
        }
    }
    assert!(ended > 10_000 && stayed > 10_000, "{ended} ended, {stayed} stayed");
    assert_eq!(counters.messages_in.get(), messages);
    assert_eq!(closed(&counters), u64::from(ended + stayed), "each connection ended once");
    assert_eq!((counters.active.get(), counters.backlog_bytes.get()), (0, 0));
}

/// All ends counted.
fn closed(counters: &RsslConnections) -> u64 {
    let mut values = Vec::new();
    counters.values(&mut values);
    let ends = counters.descriptors().iter().zip(values).filter(|(d, _)| d.name.starts_with("rssl_closed_"));
    ends.map(|(_, value)| value).sum()
}

/// A driver that does everything it may, in any order, on both ends of one connection.
struct Driver {
    rng: Rng,
    now: Nanos,
    server: ServerConnection,
    client: ClientConnection,
    at_server: Checker,
    at_client: Checker,
    /// On its way between the sockets.
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    scratch: Vec<u8>,
}

impl Driver {
    fn new(seed: u64, counters: &Arc<RsslConnections>) -> Driver {
        let mut rng = Rng::new(seed);
        let server = ServerConfig { limits: LIMITS, message_size_bytes: 600, ..ServerConfig::default() };
        let client = ClientConfig { limits: LIMITS, ..client_config() };
        Driver {
            now: Nanos::ZERO,
            server: server_with(server, counters),
            client: client_with(client, version(&mut rng), counters),
            at_server: checker(&mut rng),
            at_client: checker(&mut rng),
            to_server: Vec::new(),
            to_client: Vec::new(),
            scratch: Vec::new(),
            rng,
        }
    }

    /// One operation; `Err` when the connection is over for a reason.
    fn step(&mut self) -> Result<(), CloseReason> {
        let longest = if self.rng.chance(0.1) { 5000 } else { 200 };
        let length = 1 + self.rng.below(longest) as usize;
        let part = self.rng.below(2000) as usize;
        match self.rng.below(10) {
            0 => drop(self.at_server.push(self.server.outbound(), &message(length, part as u64))),
            1 => drop(self.at_client.push(self.client.outbound(), &message(length, part as u64))),
            2 => write(self.server.outbound(), part, &mut self.to_client),
            3 => write(self.client.outbound(), part, &mut self.to_server),
            4 => self.fan_out(length, part),
            5 | 6 => {
                let bytes = front(&mut self.to_server, part);
                self.server.on_bytes(self.now, &bytes, &mut self.at_server)?;
            }
            7 | 8 => {
                let bytes = front(&mut self.to_client, part);
                self.client.on_bytes(self.now, &bytes, &mut self.at_client)?;
            }
            _ => {
                self.now = Nanos(self.now.0 + self.rng.below(200_000_000));
                self.server.on_wakeup(self.now)?;
                self.client.on_wakeup(self.now)?;
            }
        }
        check_memory(self.server.memory_bytes());
        check_memory(self.client.memory_bytes());
        Ok(())
    }

    fn fan_out(&mut self, length: usize, part: usize) {
        self.scratch.clear();
        let outbound = self.server.outbound();
        let mut batch = outbound.batch(&mut self.scratch);
        for number in 0..self.rng.below(5) {
            let message = message(length, number);
            if batch.push(&message).is_ok() {
                self.at_server.sent.push(message);
            }
        }
        drop(batch);
        let written = if outbound.pending().is_empty() { part.min(self.scratch.len()) } else { 0 };
        self.to_client.extend_from_slice(&self.scratch[..written]);
        if outbound.keep(&self.scratch, written).is_err() {
            self.server.stop(Stop::Application);
        }
    }
}

fn write(outbound: &mut Outbound, part: usize, wire: &mut Vec<u8>) {
    let pending = if part.is_multiple_of(2) { outbound.flush() } else { outbound.pending() };
    let taken = part.min(pending.len());
    wire.extend_from_slice(&pending[..taken]);
    outbound.consume(taken);
}

fn front(wire: &mut Vec<u8>, part: usize) -> Vec<u8> {
    let rest = wire.split_off(part.min(wire.len()));
    std::mem::replace(wire, rest)
}

#[test]
fn any_order_of_operations_on_good_ends_keeps_the_messages_in_order() {
    let counters = counters();
    let mut ends = [0u32; 2];
    let (mut messages, mut steps) = (0, 0u32);
    testkit::for_each_seed!(0..400, |seed| {
        let mut driver = Driver::new(seed, &counters);
        let result = (0..1000).try_for_each(|_| {
            steps += 1;
            driver.step()
        });
        for (sent, received) in [
            (&driver.at_server.sent, &driver.at_client.received),
            (&driver.at_client.sent, &driver.at_server.received),
        ] {
            assert!(sent.starts_with(received), "seed {seed}: what arrives is what was sent, in order");
            messages += received.len() as u64;
        }
        match result {
            Ok(()) => ends[0] += 1,
            Err(CloseReason::Stopped(_)) => ends[1] += 1,
            Err(other) => panic!("seed {seed}: good ends do not blame each other: {other}"),
        }
        driver.server.on_disconnected(Disconnect::EndOfStream);
        driver.client.on_disconnected(Disconnect::SocketError);
    });
    assert!(testkit::repeat::is_one_seed() || ends[0] > 20 && ends[1] > 20, "{ends:?}");
    assert!(
        testkit::repeat::is_one_seed() || messages > 20_000 && steps > 100_000,
        "{messages} messages in {steps} steps"
    );
    assert_eq!(counters.messages_in.get(), messages);
    assert_eq!(closed(&counters), 800);
    assert_eq!((counters.active.get(), counters.backlog_bytes.get()), (0, 0));
}
