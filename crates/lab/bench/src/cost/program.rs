//! The program whose instructions are counted: messages between two contexts of one thread, over loopback,
//! the same in each run.
//!
//! What is counted is what the library does in the process, the kernel's part is not. Timers and topic
//! resolution are driven outside of the counted functions, so that the clock, which runs slowly under
//! callgrind, changes nothing.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use messaging::{
    Context, ContextCounters, Handler, IpcBehavior, IpcConfig, LbtrmConfig, LbtruConfig, Message,
    MessagingConfig, Receiver, ReceiverOptions, SendError, Source, SourceInfo, SourceOptions, StreamId,
    TopicResolutionConfig,
};
use net::{Poller, Ready, clock};
use serde_json::json;

use super::market;
use crate::BenchError;
use crate::own;
use crate::process::{START_LIMIT, Scratch, answer, free_port};

/// Rounds before the counted ones: pages are there and tables have grown.
const WARM_ROUNDS: u32 = 64;
/// Messages that are counted in each case, about.
const MESSAGES: u32 = 8_192;

/// After a transport's name: its datagrams bear keyed codes.
const AUTHENTICATED: &str = " authenticated";
/// The line of the file with the key.
const KEY: &str = "1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

/// A transport, the bytes of a message, how many are sent before a flush, and the two functions that are
/// counted.
struct Case {
    transport: &'static str,
    size: usize,
    batch: u32,
    send: fn(&mut Pair),
    receive: fn(&mut Pair, &[Ready]),
}

macro_rules! cases {
    ($( $transport:literal, $size:literal x $batch:literal: $send:ident, $receive:ident; )+) => {
        const CASES: &[Case] = &[$(
            Case { transport: $transport, size: $size, batch: $batch, send: $send, receive: $receive },
        )+];

        $(
            // Each is a function by its own name, which nothing may merge with another.
            #[inline(never)]
            fn $send(pair: &mut Pair) {
                black_box(stringify!($send));
                pair.send_batch();
            }

            #[inline(never)]
            fn $receive(pair: &mut Pair, ready: &[Ready]) {
                black_box(stringify!($receive));
                pair.receive(ready);
            }
        )+

        /// What is counted: the functions' names, and how each figure is called.
        pub(super) const COUNTED: &[(&str, &str)] = &[$(
            (stringify!($send), concat!($transport, ", ", $size, " B x ", $batch, ", send")),
            (stringify!($receive), concat!($transport, ", ", $size, " B x ", $batch, ", receive")),
        )+];
    };
}

cases! {
    "lbtrm", 64 x 1: counted_lbtrm_64_1_send, counted_lbtrm_64_1_receive;
    "lbtrm", 64 x 190: counted_lbtrm_64_190_send, counted_lbtrm_64_190_receive;
    "lbtrm", 1024 x 16: counted_lbtrm_1024_16_send, counted_lbtrm_1024_16_receive;
    "lbtrm authenticated", 64 x 1: counted_signed_64_1_send, counted_signed_64_1_receive;
    "lbtrm authenticated", 64 x 190: counted_signed_64_190_send, counted_signed_64_190_receive;
    "tcp", 64 x 1: counted_tcp_64_1_send, counted_tcp_64_1_receive;
    "tcp", 64 x 190: counted_tcp_64_190_send, counted_tcp_64_190_receive;
    "tcp", 1024 x 16: counted_tcp_1024_16_send, counted_tcp_1024_16_receive;
    "lbtru", 64 x 1: counted_lbtru_64_1_send, counted_lbtru_64_1_receive;
    "lbtru", 64 x 190: counted_lbtru_64_190_send, counted_lbtru_64_190_receive;
    "lbtru", 1024 x 16: counted_lbtru_1024_16_send, counted_lbtru_1024_16_receive;
    "lbtipc", 64 x 1: counted_lbtipc_64_1_send, counted_lbtipc_64_1_receive;
    "lbtipc", 64 x 190: counted_lbtipc_64_190_send, counted_lbtipc_64_190_receive;
    "lbtipc", 1024 x 16: counted_lbtipc_1024_16_send, counted_lbtipc_1024_16_receive;
}

/// Plays all cases; tells how many messages each counted function has taken part in.
pub(crate) fn run() -> Result<(), BenchError> {
    let scratch = Scratch::new()?;
    let key_file = scratch.path().join("key");
    std::fs::write(&key_file, KEY)?;
    for case in CASES {
        let mut pair = Pair::open(case, &key_file)?;
        for _ in 0..WARM_ROUNDS {
            pair.round(Pair::send_batch, Pair::receive)?;
        }
        let rounds = MESSAGES.div_ceil(case.batch);
        for _ in 0..rounds {
            pair.round(case.send, case.receive)?;
        }
        for direction in ["send", "receive"] {
            let Case { transport, size, batch, .. } = case;
            answer(&json!({ "figure": format!("{transport}, {size} B x {batch}, {direction}"),
                "messages": rounds * batch }));
        }
    }
    market::run()
}

struct Pair {
    poller: Poller,
    sender: Context,
    receiver: Context,
    source: Source,
    message: Vec<u8>,
    batch: u32,
    heard: Heard,
}

#[derive(Default)]
struct Heard {
    count: u32,
    sum: u64,
    has_found: bool,
}

impl Handler for Heard {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        self.count += 1;
        let word = message.payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.sum = self.sum.wrapping_add(word);
    }

    fn on_source(&mut self, _: Receiver, _: StreamId, _: &SourceInfo<'_>) {
        self.has_found = true;
    }
}

const TOPIC: &str = "cost";

impl Pair {
    fn open(case: &Case, key_file: &Path) -> Result<Pair, BenchError> {
        let port = free_port()?;
        let plain = case.transport.strip_suffix(AUTHENTICATED);
        let key_file = plain.map(|_| key_file.display().to_string());
        let config = MessagingConfig {
            ttl: 0,
            // Nothing else runs beside what is measured.
            counters_directory: String::new(),
            request_tcp_port_low: 20_000,
            request_tcp_port_high: 29_999,
            resolver: TopicResolutionConfig { multicast_port: port, ..TopicResolutionConfig::default() },
            lbtrm: LbtrmConfig {
                destination_port: port,
                source_port_low: 20_000,
                source_port_high: 29_999,
                authentication_key_file: key_file,
                data_rate_limit_bits_per_second: 0,
                ..LbtrmConfig::default()
            },
            lbtru: LbtruConfig {
                port_low: 20_000,
                port_high: 29_999,
                receiver_port_low: 20_000,
                receiver_port_high: 29_999,
                data_rate_limit_bits_per_second: 0,
                ..LbtruConfig::default()
            },
            ipc: IpcConfig { behavior: IpcBehavior::ReceiverPaced, ..IpcConfig::default() },
            ..MessagingConfig::default()
        };
        let poller = Poller::new()?;
        let context = |space| {
            let (seed, now) = (clock::seed(), clock::monotonic());
            Context::new(&config, poller.registrar(), space, seed, now, ContextCounters::default())
        };
        let (mut sender, mut receiver) = (context(1)?, context(2)?);
        receiver.create_receiver(TOPIC, &ReceiverOptions::default())?;
        let transport = own::transport(plain.unwrap_or(case.transport));
        let options = SourceOptions { transport, ..SourceOptions::default() };
        let source = sender.create_source(TOPIC, &options)?;
        let (message, batch) = (vec![7; case.size], case.batch);
        let mut pair = Pair { poller, sender, receiver, source, message, batch, heard: Heard::default() };
        pair.connect()?;
        Ok(pair)
    }

    /// Until messages arrive: over connections they do so only once the receiver has connected.
    fn connect(&mut self) -> Result<(), BenchError> {
        let deadline = clock::monotonic().after(START_LIMIT);
        while self.heard.count == 0 {
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!("nothing was heard within {START_LIMIT:?}")));
            }
            if self.heard.has_found {
                self.send_one();
            }
            self.turn(Pair::receive)?;
        }
        // What else was sent meanwhile.
        for _ in 0..100 {
            self.turn(Pair::receive)?;
        }
        Ok(())
    }

    #[inline]
    fn send_one(&mut self) {
        while let Err(SendError::WouldBlock) = self.sender.send(self.source, &[&self.message]) {
            self.sender.flush();
        }
    }

    #[inline]
    fn send_batch(&mut self) {
        for _ in 0..self.batch {
            self.send_one();
        }
        self.sender.flush();
    }

    #[inline]
    fn receive(&mut self, ready: &[Ready]) {
        let now = clock::monotonic();
        for one in ready {
            self.receiver.on_ready(now, *one, &mut self.heard);
        }
    }

    /// A batch, and turns until all of it has come.
    fn round(&mut self, send: fn(&mut Pair), receive: fn(&mut Pair, &[Ready])) -> Result<(), BenchError> {
        let all = self.heard.count + self.batch;
        let deadline = clock::monotonic().after(START_LIMIT);
        send(self);
        while self.heard.count < all {
            self.turn(receive)?;
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!("{} of {all} messages came", self.heard.count)));
            }
        }
        Ok(())
    }

    fn turn(&mut self, receive: fn(&mut Pair, &[Ready])) -> Result<(), BenchError> {
        let ready: Vec<Ready> = self.poller.wait(Some(Duration::from_millis(1)))?.collect();
        let (of_sender, of_receiver): (Vec<Ready>, Vec<Ready>) =
            ready.into_iter().partition(|one| one.token.0 >> 32 == 1);
        let now = clock::monotonic();
        for one in of_sender {
            self.sender.on_ready(now, one, &mut ());
        }
        if !of_receiver.is_empty() {
            receive(self, &of_receiver);
        }
        if self.sender.next_wakeup() <= now {
            self.sender.on_wakeup(now, &mut ());
        }
        if self.receiver.next_wakeup() <= now {
            self.receiver.on_wakeup(now, &mut self.heard);
        }
        self.receiver.flush();
        Ok(())
    }
}
