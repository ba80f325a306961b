//! Servers that send anything.

use std::time::Duration;

use rssl::Disconnect;
use tickcast_client::{
    ConsumerConfig, ConsumerCore, ConsumerEvent, Endpoint, Identity, ItemEvent, ItemRequestSpec, OwnedEvent,
    ProviderConfig, ProviderCore, ProviderServiceConfig, PublishSpec, RefreshSpec, Socket, UpdateSpec,
};
use units::{Nanos, Rng};

use crate::session_file::{Direction, load};

const SESSIONS: [&str; 8] = [
    "plain",
    "notfound",
    "provider_close",
    "dict_fragmented",
    "mbo",
    "symbollist",
    "seqnum_alltypes",
    "view_batch",
];

fn to_client(name: &str) -> Vec<u8> {
    let segments = load(name).into_iter().filter(|segment| segment.direction == Direction::ToClient);
    segments.filter_map(|segment| segment.bytes).flatten().collect()
}

/// Changes, drops, doubles or moves some bytes behind the handshake.
fn spoil(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let at = 89 + rng.below((bytes.len() - 90) as u64) as usize;
        match rng.below(5) {
            0 => bytes[at] = rng.next_u64() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => drop(bytes.drain(at..(at + 1 + rng.below(20) as usize).min(bytes.len()))),
            3 => bytes.insert(at, rng.next_u64() as u8),
            _ => {
                let other = 89 + rng.below((bytes.len() - 89) as u64) as usize;
                bytes.swap(at, other);
            }
        }
    }
}

/// Reads everything there is in an event.
fn read_all(event: &ItemEvent<'_>) {
    for id in [22i16, 25, 3, -1, i16::MAX] {
        let _ = (event.field(id), event.image_field(id));
    }
    let _ = event.field("BID");
    for field in event.fields().into_iter().flatten().flatten() {
        let _ = (field.name(), field.enum_display(), format!("{:?}", field.value));
    }
    if let Ok(map) = event.map() {
        let _ = map.summary().map(|fields| fields.count());
        for entry in map.entries().flatten() {
            let _ = (entry.fields().map(|fields| fields.count()), entry.field(3427i16));
        }
    }
    let owned = OwnedEvent::Item(event.to_owned());
    let OwnedEvent::Item(owned) = owned else { unreachable!("made a line ago") };
    assert_eq!(owned.view(|view| view.payload().0), event.payload().0);
    let _ = owned.field("ASK");
}

#[test]
fn no_server_makes_a_consumer_panic_and_each_fault_ends_in_another_attempt() {
    let mut lost = 0;
    for (session, name) in SESSIONS.iter().enumerate() {
        let whole = to_client(name);
        testkit::for_each_seed!(0..150, |seed| {
            let mut rng = Rng::new(seed << 8 | session as u64);
            let mut bytes = whole.clone();
            spoil(&mut bytes, &mut rng);
            let config = ConsumerConfig {
                keep_images: seed % 2 == 0,
                single_open: seed % 3 != 0,
                ..Default::default()
            };
            let mut core = ConsumerCore::new(&config, &Identity::default(), seed).expect("good");
            for item in ["TEST.1", "TEST.2", "NOPE.1", "BOOK.1", "SYM.LIST"] {
                core.subscribe(&ItemRequestSpec::new("DIRECT_FEED", item)).expect("new");
            }
            let (mut now, mut disconnects) = (Nanos(1), 0);
            let mut sink = |event: ConsumerEvent<'_>| match event {
                ConsumerEvent::Item(event) => read_all(&event),
                ConsumerEvent::Disconnected { retry_in, .. } => {
                    assert!(retry_in.is_some());
                    disconnects += 1;
                }
                _ => {}
            };
            assert!(matches!(core.socket(now), Socket::Connect(_)));
            core.on_established(now);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, later) = rest.split_at((1 + rng.below(2_000) as usize).min(rest.len()));
                core.on_bytes(now, piece, &mut sink);
                let pending = core.pending().len();
                core.consume(now, pending);
                now = now.after(Duration::from_millis(1));
                rest = later;
            }
            core.on_disconnected(now, Disconnect::EndOfStream, &mut sink);
            assert_eq!(disconnects, 1, "{name} {seed}: each connection ends once");
            lost += u64::from(core.counters().messages_refused.get() > 0);
            assert!(core.next_wakeup() < Nanos::NEVER, "another attempt is due");
            assert!(core.item_count() <= 5);
        });
    }
    assert!(testkit::repeat::is_one_seed() || lost > 50, "many of the changes reach the messages: {lost}");
}

#[test]
fn no_server_makes_a_provider_panic() {
    let whole = to_client("ni");
    testkit::for_each_seed!(0..1_000, |seed| {
        let mut rng = Rng::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..2 {
            let at = 68 + rng.below((bytes.len() - 68) as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let services = vec![ProviderServiceConfig { name: "S".into(), ..ProviderServiceConfig::default() }];
        let config = ProviderConfig { services, ..ProviderConfig::default() };
        let mut core = ProviderCore::new(&config, &Identity::default(), seed).expect("good");
        let item = core.item(&PublishSpec::new(rwf::Domain::MARKET_PRICE, "S", "I")).expect("new");
        let now = Nanos(1);
        assert!(matches!(core.socket(now), Socket::Connect(_)));
        core.on_established(now);
        core.on_bytes(now, &bytes, &mut |_: tickcast_client::ProviderEvent<'_>| ());
        let payload = |w: &mut rwf::Writer<'_>| w.field_list(|f| f.put(22, rwf::Real::decimal(1, 0)));
        let _ = core.refresh(item, &RefreshSpec::default(), payload).expect("kept or sent");
        let _ = core.update(item, &UpdateSpec::default(), payload).expect("kept or sent");
        core.on_disconnected(now, Disconnect::SocketError, &mut |_| ());
        assert!(!core.is_logged_in() && core.image(item).is_some());
    });
}
