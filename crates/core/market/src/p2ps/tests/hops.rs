//! Updates with hop stamps: who passes them on gets the stamps, and clients get the same as without.

use super::*;
use crate::backbone::{HopTimes, Passage};

pub(super) const HOPS: HopTimes = HopTimes { distributor: Passage { came: 10, left: 15 }, relay: None };

/// The bytes of an update with optional parts.
pub(super) fn stamped(sequence: u64, item: u32, parts: &[u8], body: &[u8]) -> Vec<u8> {
    let msg = StreamMsg { kind: Kind::Update, instance: INSTANCE, sequence, item, parts, body };
    [&msg.header()[..], parts, body].concat()
}

impl Bench {
    fn stamped(&mut self, sequence: u64, item: u32, parts: &[u8], body: &[u8]) {
        let bytes = stamped(sequence, item, parts, body);
        self.core.on_stream_message(self.now, STREAM, &bytes, &mut self.log).expect("accepted");
    }
}

#[test]
fn an_update_with_stamps_is_sent_between_its_begin_and_its_end() {
    let mut bench = Bench::watching();
    bench.stamped(2, 1, HOPS.part().bytes(), &update(&[(22, 2)]));
    bench.stream(Kind::Update, 3, 1, &update(&[(22, 3)]));
    let expected = ["stamped IBM 2: 10 to 15", "1/5: update 22=2", "end of stamped", "1/5: update 22=3"];
    assert_eq!(bench.took(), expected);
    assert_eq!((bench.counters.hop_stamps_in.get(), bench.counters.hop_stamps_refused.get()), (1, 0));
}

#[test]
fn other_parts_are_skipped_and_stamps_that_cannot_be_read_are_counted() {
    let mut bench = Bench::watching();
    let wrong: [&[u8]; 4] = [b"\x01\x05hello\0", b"\x01\xff\0\0", b"\x01\x00\0\0", b"\x01\x10\0\0"];
    for (at, parts) in [&b"\x7f\x05hello\0"[..], b"\0\0\0\0"].into_iter().chain(wrong).enumerate() {
        bench.stamped(at as u64 + 2, 1, parts, &update(&[(22, 7)]));
        assert_eq!(bench.took(), ["1/5: update 22=7"], "{parts:?}");
    }
    assert_eq!((bench.counters.hop_stamps_in.get(), bench.counters.hop_stamps_refused.get()), (0, 4));
    assert_eq!(bench.counters.messages_refused.get(), 0);
}

#[test]
fn an_update_that_waits_for_its_image_is_sent_later_and_without_stamps() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.took();
    bench.stamped(2, 1, HOPS.part().bytes(), &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["stamped IBM 2: 10 to 15", "end of stamped"]);
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1", "1/5: update 22=2"]);
}

#[test]
fn an_item_that_nobody_watches_costs_no_look_at_its_stamps() {
    let mut bench = Bench::watching();
    bench.stamped(2, 9, HOPS.part().bytes(), &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
    assert_eq!(bench.counters.hop_stamps_in.get(), 0);
}
