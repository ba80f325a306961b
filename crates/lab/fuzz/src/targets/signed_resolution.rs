use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use counters::table::LbmrResolver;
use lbt::authentication::Keys;
use lbt::config::ResolverConfig;
use lbt::resolution::{QueryId, Resolver, ResolverSink, SourceRecord, TransportSession};
use units::Nanos;

use super::authentication::{KEY, keys, secret};
use crate::Outcome;
use crate::input::Input;

const NOW: Nanos = Nanos(1);
/// The time of day, and how far a signature may be from it.
const WALL_NS: u64 = 1_700_000_000_000_000_000;
const WINDOW: Duration = Duration::from_secs(60);
/// What a unicast resolver sends to be known; it says nothing, and is not signed.
const KEEPALIVE: [u8; 4] = [0; 4];

/// How many sources were found.
#[derive(Default)]
struct Found(u32);

impl ResolverSink for Found {
    fn source_found(&mut self, _: QueryId, _: &str, _: &SourceRecord) {
        self.0 += 1;
    }
}

/// Input: what a context with keys hears of topic resolution: first a byte that says how it is made, then bytes as
/// they are (0), bytes that somebody with the key has signed (1), or a signed advertisement, changed at a place
/// (else). What is not signed as it must be has no effect.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let good = advertisement();
    let (datagram, is_signed) = match input.u8() % 4 {
        0 => (input.rest().to_vec(), false),
        1 => (signed(input.rest()), true),
        _ => {
            let (at, by) = (usize::from(input.u16()) % good.len(), input.u8());
            let mut changed = good.clone();
            changed[at] ^= by;
            (changed, by == 0)
        }
    };
    let (mut resolver, counters) = resolver(keys());
    let mut found = Found::default();
    resolver.query(NOW, "px", &mut found).expect("a name");
    let taken = resolver.on_datagram(NOW, &datagram, &mut found);
    if !is_signed && datagram != KEEPALIVE {
        assert!(taken.is_err() && found.0 == 0, "{taken:?}");
        assert_eq!(counters.tr_dgrams_unauthentic.get(), 1);
        assert_eq!((counters.queries_rcved.get(), counters.records_rcved.get()), (0, 0));
        assert_eq!(resolver.on_datagram(NOW, &good, &mut found), Ok(()), "the good one still comes");
        assert_eq!(found.0, 1);
    }
    match taken {
        Ok(()) => Outcome::accepted((found.0.min(2), counters.queries_rcved.get().min(2))),
        Err(error) => Outcome::refused(error),
    }
}

fn resolver(keys: Keys) -> (Resolver, Arc<LbmrResolver>) {
    let counters = Arc::new(LbmrResolver::default());
    let mut resolver = Resolver::new(&ResolverConfig::default(), NOW, counters.clone()).expect("allowed");
    resolver.authenticate(keys, WINDOW);
    resolver.set_wall_clock(WALL_NS);
    (resolver, counters)
}

/// A signed datagram of one source.
fn advertisement() -> Vec<u8> {
    let (mut resolver, _) = resolver(keys());
    let address = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 1), 14_371);
    let session = TransportSession::Tcp { address, session_id: Some(7) };
    let record = SourceRecord { topic_index: 1, session, request: None, late_join: None, origin: None };
    resolver.advertise(NOW, "px", record).expect("a name");
    resolver.poll_transmit(NOW).expect("it is due").to_vec()
}

/// The bytes with a signature as the only packet option.
fn signed(bytes: &[u8]) -> Vec<u8> {
    const END: [u8; 4] = [0x80, 4, 0, 36];
    let mut datagram = bytes.to_vec();
    datagram.iter_mut().take(1).for_each(|first| *first |= 0x18);
    datagram.extend_from_slice(&[0xD4, 32, 0x80, 0, 1, 0]);
    datagram.extend_from_slice(&KEY.to_be_bytes());
    datagram.extend_from_slice(&WALL_NS.to_be_bytes());
    let code = secret().code(&[b"LBMR", &datagram, &END]);
    datagram.extend_from_slice(&code);
    datagram.extend_from_slice(&END);
    datagram
}
