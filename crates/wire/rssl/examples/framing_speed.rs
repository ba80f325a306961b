//! Nanoseconds a message for writing and reading packed frames of 76-byte messages.
//!
//! `cargo run --release -p tickcast-rssl --example framing_speed`
//!
//! Each figure is the best and the median of many rounds on one thread, with everything in the caches: the
//! cost of the framing itself. "copy" is the same bytes appended to the same vector without any framing, the
//! floor of `push`.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use counters::table::RsslConnections;
use tickcast_rssl::{
    ClientConfig, ClientConnection, ConnectionVersion, Handler, Outbound, Packer, ServerConfig,
    ServerConnection, Session, Stop,
};
use units::Nanos;

const MESSAGE_BYTES: usize = 76;
const MESSAGES: usize = 1000;
const ROUNDS: usize = 20_000;

/// Adds up what it gets, so that nothing can be left out.
#[derive(Default)]
struct Sum {
    messages: u64,
    bytes: u64,
}

impl Handler for Sum {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut Outbound) -> ControlFlow<Stop> {
        self.messages += 1;
        self.bytes += message.len() as u64 + u64::from(message[4]);
        ControlFlow::Continue(())
    }
}

/// Best and median nanoseconds a message over all rounds.
fn measure(name: &str, mut round: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        round();
    }
    let mut spans = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        spans.push(start.elapsed().as_nanos() as f64 / MESSAGES as f64);
    }
    spans.sort_by(f64::total_cmp);
    println!("{name:<44} best {:6.2}  median {:6.2} ns/message", spans[0], spans[ROUNDS / 2]);
}

/// A server and a client past their handshake.
fn pair() -> (ServerConnection, ClientConnection) {
    let counters = Arc::new(RsslConnections::default());
    let server = Arc::new(ServerConfig::default().check().expect("defaults hold"));
    let client = Arc::new(ClientConfig::default().check().expect("defaults hold"));
    let mut server = ServerConnection::new(Nanos::ZERO, &server, &counters, 1);
    let mut client = ClientConnection::new(Nanos::ZERO, &client, &counters, ConnectionVersion::V14, 2);
    for _ in 0..2 {
        let bytes = client.outbound().flush().to_vec();
        client.outbound().consume(bytes.len());
        server.on_bytes(Nanos::ZERO, &bytes, &mut Sum::default()).expect("our own client");
        let bytes = server.outbound().flush().to_vec();
        server.outbound().consume(bytes.len());
        client.on_bytes(Nanos::ZERO, &bytes, &mut Sum::default()).expect("our own server");
    }
    assert!(server.negotiated().is_some() && client.negotiated().is_some());
    (server, client)
}

fn main() {
    let messages: Vec<Vec<u8>> = (0..64u8).map(|i| vec![i; MESSAGE_BYTES]).collect();
    let pick = |i: usize| black_box(&messages[i % 64][..]);
    let mut out = Vec::with_capacity(MESSAGES * (MESSAGE_BYTES + 4));
    measure("copy: Vec::extend_from_slice", || {
        out.clear();
        for i in 0..MESSAGES {
            out.extend_from_slice(pick(i));
        }
        black_box(&out);
    });
    let mut packer = Packer::new(ConnectionVersion::V14, 6144).expect("the usual size");
    measure("Packer::push", || {
        out.clear();
        for i in 0..MESSAGES {
            packer.push(&mut out, pick(i)).expect("not empty");
        }
        packer.close(&mut out);
        black_box(&out);
    });
    measure("Packer::push and stream id", || {
        out.clear();
        for i in 0..MESSAGES {
            let copy = packer.push(&mut out, pick(i)).expect("not empty");
            out[copy][4..8].copy_from_slice(&(i as u32).to_be_bytes());
        }
        packer.close(&mut out);
        black_box(&out);
    });
    let (mut server, mut client) = pair();
    measure("Outbound::push and stream id, flush, consume", || {
        let outbound = server.outbound();
        for i in 0..MESSAGES {
            let copy = outbound.push(pick(i)).expect("within the limit");
            copy[4..8].copy_from_slice(&(i as u32).to_be_bytes());
        }
        let bytes = black_box(outbound.flush()).len();
        outbound.consume(bytes);
    });
    let mut sum = Sum::default();
    measure("ClientConnection::on_bytes, packed frames", || {
        client.on_bytes(Nanos::ZERO, black_box(&out), &mut sum).expect("our own frames");
    });
    let pieces: Vec<&[u8]> = out.chunks(1460).collect();
    measure("the same in pieces of 1460 bytes", || {
        for piece in &pieces {
            client.on_bytes(Nanos::ZERO, black_box(piece), &mut sum).expect("our own frames");
        }
    });
    let mut alone = Vec::new();
    for i in 0..MESSAGES {
        packer.push(&mut alone, pick(i)).expect("not empty");
        packer.close(&mut alone);
    }
    measure("ClientConnection::on_bytes, a frame a message", || {
        client.on_bytes(Nanos::ZERO, black_box(&alone), &mut sum).expect("our own frames");
    });
    assert_eq!(sum.messages % MESSAGES as u64, 0);
    assert!(black_box(sum.bytes) > 0);
}
