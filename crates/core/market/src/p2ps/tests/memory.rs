//! What items and those who watch them cost in memory.

use super::*;

/// The feed's items have ten fields with values of up to seven bytes.
const IMAGE: [(i16, i64); 10] = [
    (6, 6_412_345),
    (22, 6_412_300),
    (25, 6_412_400),
    (30, 1_234_567),
    (31, 7_654_321),
    (32, 912_345_678),
    (12, 6_500_000),
    (13, 6_300_000),
    (18, 45_296_123),
    (3, 1),
];

fn name(item: u32) -> String {
    format!("ITEM{item:06}")
}

/// Bytes that are in use afterwards and were not before.
fn kept(bench: &mut Bench, act: impl FnOnce(&mut Bench)) -> i64 {
    bench.log.0 = Vec::new();
    let grown = allocation_counter::measure(|| {
        act(bench);
        bench.log.0 = Vec::new();
    });
    grown.bytes_current
}

/// Nearly as many as tables of a power of two have room for: what is reserved beyond is written to later.
const ITEMS: u32 = 32_000;

/// A watches all items, and each has its image.
fn watch_all(bench: &mut Bench) {
    for item in 1..=ITEMS {
        bench.request(A, item as i32, &name(item));
        bench.open(u64::from(item), item, &name(item));
        bench.image(item, u64::from(item), &name(item), &IMAGE);
        bench.log.0.clear();
    }
}

#[test]
fn an_item_and_one_more_watch_are_within_their_bytes() {
    const CLIENTS: u32 = 400;
    let mut bench = Bench::running();
    let items = kept(&mut bench, watch_all);
    for n in 0..CLIENTS {
        let client = ClientId(100 + n);
        bench.core.on_client_connected(client, ClientProfile::default());
        bench.client(client, &LoginRequest::consumer(b"me").to_vec().expect("legal"));
    }
    let watches = kept(&mut bench, |bench| {
        for n in 0..CLIENTS {
            for stream_id in 1..=100 {
                let item = (n * 100 + stream_id) % 4_000 + 1;
                bench.request(ClientId(100 + n), stream_id as i32 + 5, &name(item));
            }
            bench.log.0.clear();
        }
    });
    let (item, watch) = (items / i64::from(ITEMS), watches / i64::from(CLIENTS * 100));
    assert!(item <= 568, "an item with its image and its first watch has {item} bytes");
    assert!(watch <= 48, "one more watch has {watch} bytes");
}

#[test]
fn a_client_that_watches_nothing_is_within_its_bytes() {
    const CLIENTS: u32 = 1_000;
    let mut bench = Bench::running();
    let clients = kept(&mut bench, |bench| {
        for n in 0..CLIENTS {
            let client = ClientId(100 + n);
            bench.core.on_client_connected(client, ClientProfile::default());
            bench.client(client, &LoginRequest::consumer(b"me").to_vec().expect("legal"));
        }
    });
    let client = clients / i64::from(CLIENTS);
    assert!(client <= 640, "a client that has logged in has {client} bytes");
}

/// As a shard has it: the relay keeps the image.
#[test]
fn an_item_whose_image_is_away_is_within_its_bytes() {
    let mut bench = Bench::running();
    bench.core.reconfigure(|config| config.kept_images_max = Some(0));
    let items = kept(&mut bench, watch_all);
    let item = items / i64::from(ITEMS);
    assert!(item <= 480, "an item without its image and with its first watch has {item} bytes");
}
