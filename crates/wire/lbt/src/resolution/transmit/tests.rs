use super::*;
use crate::config::ResolverConfig;
use crate::resolution::{AdvertisementId, SourceRecord, TransportSession};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

const TOPICS: u32 = 20_000;
const BEGIN: Nanos = Nanos(1_000_000_000);

/// A context of that many sources, with rates that let one record out now and then.
fn advertising() -> (Resolver, Vec<AdvertisementId>) {
    let config =
        ResolverConfig { resolver_initial_advertisements_per_second: 1, ..ResolverConfig::default() };
    let mut resolver = Resolver::new(&config, BEGIN, Arc::default()).expect("a sound configuration");
    let session =
        TransportSession::Tcp { address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1), session_id: Some(1) };
    let record =
        |topic_index| SourceRecord { topic_index, session, request: None, late_join: None, origin: None };
    let advertise = |number| resolver.advertise(BEGIN, &format!("px.{number}"), record(number));
    let all = (0..TOPICS).map(advertise).collect::<Result<Vec<_>, _>>().expect("there is room");
    (resolver, all)
}

fn waiting(resolver: &Resolver) -> usize {
    resolver.outbox.queues[Subject::Advertisement as usize].iter().map(VecDeque::len).sum()
}

#[test]
fn a_turn_looks_at_a_bounded_part_of_what_is_due_and_the_next_ones_at_the_rest() {
    let (mut resolver, _) = advertising();
    let mut now = BEGIN + Duration::from_secs(1);
    let (mut turns, mut due) = (0, resolver.timers.len());
    assert_eq!(due, TOPICS as usize);
    while due > 0 {
        while resolver.poll_transmit(now).is_some() {}
        // One that was sent is armed anew.
        let left = resolver.timers.iter().filter(|timer| timer.0.0 <= now).count();
        assert!(due - left <= COLLECTED_MAX, "{} in one turn", due - left);
        due = left;
        turns += 1;
        assert!(due == 0 || resolver.next_wakeup() <= now + STEP, "the rest is forgotten");
        now += STEP;
        assert!(turns <= 2 * TOPICS as usize / COLLECTED_MAX, "{due} are left");
    }
}

#[test]
fn a_turn_passes_over_a_bounded_part_of_what_was_withdrawn() {
    let (mut resolver, all) = advertising();
    let mut now = BEGIN + Duration::from_secs(1);
    while waiting(&resolver) + 1_000 < TOPICS as usize {
        while resolver.poll_transmit(now).is_some() {}
        now += STEP;
    }
    all.into_iter().for_each(|id| resolver.withdraw(id));
    let (mut before, mut turns) = (waiting(&resolver), 0);
    while before > 0 {
        assert!(resolver.next_wakeup() <= now, "what is gone is passed over at once");
        assert!(resolver.poll_transmit(now).is_none());
        let left = waiting(&resolver);
        assert!(before - left <= PASSED_MAX + COLLECTED_MAX, "{} in one turn", before - left);
        (before, turns, now) = (left, turns + 1, now + STEP);
        assert!(turns <= 4 * TOPICS as usize / PASSED_MAX, "{left} are left");
    }
}
