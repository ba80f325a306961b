use std::sync::Arc;
use std::time::Duration;

use lbt::config::FailoverConfig;
use lbt::delivery::{Delivered, Via};
use lbt::failover::{FailoverSink, HotFailover, SourceId};
use lbt::wire::lbmc::{
    Chain, FAILOVER_NUMBER_LEN, Header, Headers, Kind, Message, emit_message, failover_element,
};
use units::{Nanos, Sqn};

use crate::Outcome;
use crate::input::Input;

const HELD_MAX: u64 = 16;

/// Input: operations of several sources of one stream. Numbers come out ascending, each once, and what is
/// held stays within its bound; refused is a run in which a message was.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let config = FailoverConfig {
        hot_failover_gap_interval: Duration::from_millis(20),
        hot_failover_hold_maximum_count: HELD_MAX as u32,
        hot_failover_maximum_sources: 3,
        ..FailoverConfig::default()
    };
    let counters = Arc::new(counters::table::HotFailover::default());
    let mut merger = HotFailover::new(&config, counters.clone()).expect("allowed");
    let (mut heard, mut sources, mut now) = (Heard::default(), [None::<SourceId>; 3], Nanos(1));
    let mut numbers = [0u64; 3];
    while !input.is_empty() {
        let choice = input.u8();
        let at = usize::from(choice >> 6) % 3;
        match (choice & 7, sources[at]) {
            (0, None) => sources[at] = merger.add_source().ok(),
            (1, Some(id)) => {
                merger.remove_source(now, id, &mut heard);
                sources[at] = None;
            }
            (2, Some(id)) => merger.on_lost(id),
            (3, Some(id)) => {
                let message = plain(&[]);
                merger.on_message(now, id, &message, &mut heard);
            }
            (4, _) => now += Duration::from_millis(u64::from(input.u8())),
            (5, Some(id)) => {
                let far = u64::from(input.u16()) << 48;
                send(&mut merger, now, id, far, &mut heard);
            }
            (_, Some(id)) => {
                numbers[at] += 1 + u64::from(choice >> 3 & 7);
                send(&mut merger, now, id, numbers[at], &mut heard);
            }
            _ => merger.on_wakeup(now, &mut heard),
        }
        if merger.next_wakeup() <= now {
            merger.on_wakeup(now, &mut heard);
        }
        assert!(counters.held_now.get() <= HELD_MAX);
    }
    merger.restart(&mut heard);
    assert_eq!((counters.held_now.get(), counters.hold_bytes.get()), (0, 0));
    let seen = [
        &counters.lost_events,
        &counters.gaps_timed_out,
        &counters.gaps_bound,
        &counters.numbers_not_sent,
        &counters.duplicates,
        &counters.msgs_held,
    ];
    let feature = seen.map(|counter| counter.get() > 0);
    match counters.msgs_refused.get() + counters.msgs_without_number.get() {
        0 => Outcome::accepted(feature),
        _ => Outcome::refused(feature),
    }
}

fn send(merger: &mut HotFailover, now: Nanos, id: SourceId, number: u64, heard: &mut Heard) {
    let (mut room, mut chain, mut bytes) = ([0; FAILOVER_NUMBER_LEN], Chain::default(), Vec::new());
    chain.push(&Header::Chain { elements: failover_element(number, &mut room) });
    emit_message(&mut bytes, Kind::Message, Some((1, Sqn(2))), &chain, Some(&number.to_be_bytes()));
    let message = Message::parse(&bytes, 0).expect("well-formed");
    let delivered = Delivered { headers: message.headers, ..plain(message.data()) };
    merger.on_message(now, id, &delivered, heard);
}

fn plain(payload: &[u8]) -> Delivered<'_> {
    let (first_sqn, sqn, headers) = (Sqn(2), Sqn(2), Headers::NONE);
    let via = Via::Transport;
    Delivered { token: 1, topic_index: 1, first_sqn, sqn, payload, headers, recovered: false, via }
}

#[derive(Default)]
struct Heard {
    next: u64,
}

impl FailoverSink for Heard {
    fn deliver(&mut self, number: u64, message: Delivered<'_>) {
        assert!(number >= self.next, "ascending, each once");
        assert_eq!(message.payload, number.to_be_bytes());
        self.next = number + 1;
    }
    fn lost(&mut self, first: u64, count: u64) {
        assert!(first >= self.next && count > 0);
        self.next = first + count;
    }
}
