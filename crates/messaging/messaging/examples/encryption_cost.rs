//! What encrypted messages cost: nanoseconds to fill and close a datagram of one message at the source, and to take it
//! at the receiver, plain, encrypted, signed, and both. The medians of many rounds, in which all take turns. No system
//! call is in it.
//!
//! ```text
//! cargo run --release -p tickcast-messaging --example encryption_cost
//! ```

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Instant;

use lbt::authentication::Keys;
use lbt::config::{ReceiverConfig, SourceConfig};
use lbt::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use lbt::encryption::PayloadKeys;
use lbt::rm::{Receiver, SessionKey, Source, TopicId};
use lbt::wire::lbtrm::SessionHeader;
use net::authentication::HmacSha256;
use tickcast_messaging::load_payload_keys;
use units::Nanos;

const SOURCE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const FROM: SocketAddrV4 = SocketAddrV4::new(SOURCE, 14_400);
const SESSION: SessionHeader = SessionHeader { ucast_port: 14_380, session_id: 1 };
const ROUNDS: usize = 2_001;
const DATAGRAMS: usize = 16;

/// Counts messages.
#[derive(Default)]
struct Heard(usize);

impl DeliverySink for Heard {
    fn deliver(&mut self, _: Delivered<'_>) {
        self.0 += 1;
    }
    fn lost(&mut self, _: Lost) {}
    fn begin_of_stream(&mut self, _: BeginOfStream) {}
    fn end_of_stream(&mut self, _: EndOfStream) {}
}

/// Both ends of a session, and what each took for a datagram in each round.
struct Pair {
    what: &'static str,
    source: Source,
    topic: TopicId,
    receiver: Receiver,
    now: Nanos,
    closing: Vec<f64>,
    taking: Vec<f64>,
}

impl Pair {
    fn new(
        what: &'static str,
        datagram_max: u32,
        payloads: Option<&PayloadKeys>,
        signing: bool,
    ) -> Result<Pair, Box<dyn Error>> {
        let config =
            SourceConfig { datagram_max_size: datagram_max, data_rate_limit: 0, ..SourceConfig::default() };
        let now = Nanos(1);
        let mut source = Source::new(&config, SESSION, now, Arc::default())?;
        let key = SessionKey { source: SOURCE, session: SESSION };
        let (own, delivery) = (Arc::default(), Arc::default());
        let mut receiver = Receiver::new(&ReceiverConfig::default(), key, 1, now, own, delivery)?;
        receiver.subscribe(1, 1).map_err(|refused| format!("{refused:?}"))?;
        if signing {
            let keys = Keys::new((1, HmacSha256::coder(&[7; 32])), None);
            source.authenticate(keys.clone(), SOURCE);
            receiver.authenticate(keys);
        }
        if let Some(keys) = payloads {
            source.encrypt(keys, SOURCE, [1; 16]);
            receiver.decrypt(keys.clone());
        }
        let topic = source.add_topic(now, 1);
        let (closing, taking) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
        Ok(Pair { what, source, topic, receiver, now, closing, taking })
    }

    fn round(&mut self, message: &[u8]) -> Result<(), Box<dyn Error>> {
        self.now = Nanos(self.now.0 + 1_000_000);
        let begin = Instant::now();
        for _ in 0..DATAGRAMS {
            self.source.send(self.now, self.topic, &[message])?;
            self.source.flush();
        }
        self.closing.push(begin.elapsed().as_nanos() as f64 / DATAGRAMS as f64);
        let mut datagrams = Vec::with_capacity(DATAGRAMS);
        while let Some(run) = self.source.poll_transmit(self.now) {
            datagrams.extend(run.datagrams().map(<[u8]>::to_vec));
            let count = run.count;
            self.source.sent(self.now, count);
        }
        let mut heard = Heard::default();
        let begin = Instant::now();
        for datagram in &datagrams {
            self.receiver.on_datagram(self.now, FROM, datagram, &mut heard)?;
        }
        self.taking.push(begin.elapsed().as_nanos() as f64 / DATAGRAMS as f64);
        if heard.0 == DATAGRAMS { Ok(()) } else { Err(format!("{} messages", heard.0).into()) }
    }
}

fn median(spans: &mut [f64]) -> f64 {
    spans.sort_by(f64::total_cmp);
    spans[spans.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("tickcast-encryption-cost-{}", std::process::id()));
    std::fs::write(&file, format!("1 {}", "07".repeat(32)))?;
    let keys = load_payload_keys(&file.to_string_lossy());
    std::fs::remove_file(&file)?;
    let keys = keys?;
    println!("message  datagram    what          close ns   take ns   both ns");
    for (message, datagram_max) in [(64, 1_472), (1_356, 1_472), (8_076, 8_192)] {
        let mut pairs = [
            Pair::new("plain", datagram_max, None, false)?,
            Pair::new("encrypted", datagram_max, Some(&keys), false)?,
            Pair::new("signed", datagram_max, None, true)?,
            Pair::new("both", datagram_max, Some(&keys), true)?,
        ];
        let bytes = vec![5; message];
        for _ in 0..ROUNDS {
            for pair in &mut pairs {
                pair.round(&bytes)?;
            }
        }
        for pair in &mut pairs {
            let (closing, taking) = (median(&mut pair.closing), median(&mut pair.taking));
            let (what, both) = (pair.what, closing + taking);
            println!(
                "{message:>7}  <= {datagram_max:<6}  {what:<10}  {closing:>9.0}  {taking:>8.0}  {both:>8.0}"
            );
        }
    }
    Ok(())
}
