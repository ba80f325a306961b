//! What providers say of more items at once than a turn can tell.

use rdm::directory::{Change, DirectoryUpdate, Edit, GroupElements, ServiceDelta, StateElements};
use rwf::{MapAction, StateCode, StreamState};

use super::cleanups::{MANY, OTHER, PER_TURN, asked_for_many, name, publishing_many, told};
use super::dialled::A;
use super::*;
use crate::distributor::bulk_changes::BULK_CHANGES_MAX;

/// Every item is in it that names no other one.
pub(super) const GROUP: &[u8] = b"\0\0";
pub(super) const NEXT: &[u8] = b"\0\x05";

pub(super) const GOOD: State<'static> = State::new(StreamState::Open, DataState::Ok);

pub(super) fn suspect(text: &'static str) -> State<'static> {
    State::new(StreamState::Open, DataState::Suspect).because(StateCode::NONE, text)
}

/// A directory update about groups; `None` is all of the service.
pub(super) fn say(edits: Vec<Edit>) -> Vec<u8> {
    let delta = ServiceDelta { service_id: 3, action: MapAction::Update, edits };
    DirectoryUpdate { stream_id: 2, filter: None, services: vec![delta] }.to_vec().expect("legal")
}

pub(super) fn group(id: &[u8], state: State<'_>) -> Edit {
    let status = Some(state.into());
    Edit::Group(Change::Update(GroupElements { group_id: id.to_vec(), merged_to: None, status }))
}

pub(super) fn merge(id: &[u8], to: &[u8]) -> Edit {
    let merged_to = Some(to.to_vec());
    Edit::Group(Change::Update(GroupElements { group_id: id.to_vec(), merged_to, status: None }))
}

pub(super) fn all(state: State<'_>) -> Edit {
    Edit::State(Change::Update(StateElements { status: Some(state.into()), ..StateElements::default() }))
}

impl Bench {
    fn said_in_turns(&mut self, what: &str) -> usize {
        let mut log = self.log.take();
        assert!(told(&log, what) <= PER_TURN, "{log:?}");
        while self.is_cleaning() {
            let more = self.turn();
            assert!(told(&more, what) <= PER_TURN, "{more:?}");
            log.extend(more);
        }
        told(&log, what)
    }

    fn holds(&self) -> bool {
        self.core.holds_provider(PROVIDER)
    }
}

#[test]
fn a_state_of_a_group_is_told_in_portions() {
    let mut bench = publishing_many();
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect("line down"))]));
    assert_eq!(bench.said_in_turns("open suspect line down"), MANY as usize);
    assert_eq!(bench.suspect_items(), MANY as usize);
    let mut bench = asked_for_many();
    bench.provider(T0, A, &say(vec![all(suspect("line down"))]));
    assert_eq!(bench.said_in_turns("open suspect line down"), MANY as usize);
}

#[test]
fn an_item_has_its_share_before_its_next_message_and_before_a_peer_gets_it() {
    let mut bench = publishing_many();
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect("line down"))]));
    bench.log.take();
    bench.provider(T0, PROVIDER, &refresh(-MANY, &name(MANY), &[(22, 2)]));
    let log = bench.log.take();
    assert!(log.len() == 2 && log[0].ends_with("line down") && log[1].ends_with("ok 22=2"), "{log:?}");
    bench.peer(T0, &LinkUp::ImageRequest { key: item(&name(MANY - 1)) });
    let log = bench.log.take();
    assert!(log.len() == 2 && log[0].ends_with("line down") && log[1].contains("suspect"), "{log:?}");
    assert_eq!(bench.said_in_turns("line down"), MANY as usize - PER_TURN - 2);
    assert_eq!(bench.suspect_items(), MANY as usize - 1, "one was refreshed since");
}

#[test]
fn what_follows_in_other_messages_is_done_in_order() {
    let mut bench = publishing_many();
    // One item moves to another group before, one after.
    let messages = [
        vec![group(GROUP, suspect("first"))],
        vec![merge(GROUP, NEXT), group(GROUP, suspect("of nobody"))],
        vec![group(NEXT, suspect("second")), merge(NEXT, GROUP)],
        vec![group(NEXT, suspect("of nobody")), all(suspect("third"))],
    ];
    for edits in messages {
        bench.provider(T0, PROVIDER, &say(edits));
    }
    assert_eq!(bench.core.items.cleanups.sweeps.len(), 2, "what waits to begin is one clean-up");
    let mut log = bench.log.take();
    bench.provider(T0, PROVIDER, &update(-MANY, None, &[(22, 2)]));
    let of_one = bench.log.take();
    let texts: Vec<&str> = of_one.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(texts, ["first", "second", "third", "22=2"], "{of_one:?}");
    while bench.is_cleaning() {
        log.extend(bench.turn());
    }
    log.extend(of_one);
    for text in ["first", "second", "third"] {
        assert_eq!(told(&log, text), MANY as usize, "{text}");
    }
    assert_eq!(told(&log, "of nobody"), 0);
}

#[test]
fn items_of_a_group_that_is_closed_are_closed_in_portions() {
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "over");
    let mut bench = publishing_many();
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, closed), group(GROUP, suspect("of nobody"))]));
    bench.provider(T0, PROVIDER, &refresh(-MANY, &name(MANY), &[(22, 2)]));
    let log = bench.log.take();
    assert_eq!(told(&log, "Close"), PER_TURN + 1, "the one that is published again too: {log:?}");
    while bench.is_cleaning() {
        let more = bench.turn();
        assert!(told(&more, "Close") <= PER_TURN && told(&more, "of nobody") == 0, "{more:?}");
    }
    assert_eq!((bench.core.item_count(), bench.suspect_items()), (1, 0), "it is a new one");
}

#[test]
fn what_was_said_before_the_provider_is_gone_comes_before_that() {
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "over");
    let mut bench = publishing_many();
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, closed)]));
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    let mut log = bench.log.take();
    assert!(bench.core.is_leaving(PROVIDER));
    while bench.is_cleaning() {
        log.extend(bench.turn());
    }
    assert_eq!((told(&log, "closed suspect over"), bench.core.item_count()), (MANY as usize, 0), "{log:?}");
}

/// Two providers that publish the same items.
fn two_publish_many() -> Bench {
    let mut bench = publishing_many();
    bench.provider_logs_in(OTHER);
    bench.announce(OTHER, &[service(3, true)]);
    for number in 1..=MANY {
        bench.provider(T0, OTHER, &refresh(-number, &name(number), &[(22, 5)]));
    }
    bench.budget(PER_TURN);
    bench
}

#[test]
fn a_provider_that_is_gone_has_said_what_it_said_before_another_one_takes_over() {
    let mut bench = two_publish_many();
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, GOOD), group(GROUP, suspect("line down"))]));
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    let mut log = bench.log.take();
    while bench.is_cleaning() {
        log.extend(bench.turn());
    }
    assert_eq!((told(&log, "line down"), told(&log, "ok 22=5")), (MANY as usize, MANY as usize), "{log:?}");
}

#[test]
fn a_provider_that_says_more_than_may_wait_waits_itself_and_is_not_silent() {
    let mut bench = two_publish_many();
    // The two take turns, so that nothing goes with what is said before it.
    for round in 0..BULK_CHANGES_MAX {
        bench.provider(T0, PROVIDER, &say(vec![group(GROUP, GOOD)]));
        bench.provider(T0, OTHER, &say(vec![group(GROUP, GOOD)]));
        assert!(!bench.holds(), "{round}");
    }
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, GOOD)]));
    assert!(bench.holds() && !bench.core.holds_provider(OTHER), "one waits, the other does not");
    bench.log.take();
    bench.provider(T0, PROVIDER, &update(-MANY, None, &[(22, 77)]));
    assert_eq!(told(&bench.log.take(), "22=77"), 0, "it is kept");
    let late = T0 + Duration::from_secs(9);
    bench.provider(late, OTHER, &update(-1, None, &[(22, 6)]));
    let mut log = bench.log.take();
    while bench.is_cleaning() || bench.holds() {
        bench.core.on_wakeup(late, &mut bench.log);
        log.extend(bench.log.take());
    }
    assert_eq!(told(&log, "22=77"), 1, "{log:?}");
    bench.provider(late, OTHER, &update(-2, None, &[(22, 6)]));
    assert_eq!((bench.core.take_released(), bench.counters.provider_waits.get()), (vec![PROVIDER], 1));
    assert_eq!(bench.counters.items_taken_over.get(), 0, "it was not read, it is not silent");
}

#[test]
fn one_provider_that_goes_on_saying_things_has_few_clean_ups_and_loses_nothing() {
    let mut bench = publishing_many();
    bench.budget(1);
    let mut said = 0;
    for round in 0..2_000 {
        let text = if round % 2 == 0 { "even" } else { "odd" };
        bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect(text))]));
        said += 1;
        assert!(
            bench.core.items.cleanups.sweeps.len() <= BULK_CHANGES_MAX,
            "{}",
            bench.core.items.cleanups.sweeps.len()
        );
        if bench.holds() {
            break;
        }
    }
    assert!(bench.holds(), "{said}");
    bench.provider(T0, PROVIDER, &update(-MANY, None, &[(22, 9)]));
    bench.budget(PER_TURN);
    let mut of_last = Vec::new();
    while bench.is_cleaning() || bench.holds() {
        bench.core.on_wakeup(T0, &mut bench.log);
        of_last.extend(bench.log.take().into_iter().filter(|line| line.contains(&format!("item {MANY}:"))));
    }
    assert_eq!((told(&of_last, "even") + told(&of_last, "odd"), told(&of_last, "22=9")), (said, 1));
    assert!(of_last.last().is_some_and(|line| line.ends_with("22=9")), "in its order");
}

#[test]
fn what_a_provider_has_said_while_it_waits_counts_when_its_connection_ends() {
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NONE, "over");
    let mut bench = publishing_many();
    bench.budget(1);
    while !bench.holds() {
        bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect("again"))]));
    }
    bench.provider(T0, PROVIDER, &update(-MANY, None, &[(22, 9)]));
    bench.provider(T0, PROVIDER, &say(vec![group(GROUP, closed)]));
    bench.log.take();
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    assert!(!bench.holds());
    let mut log = bench.log.take();
    bench.budget(PER_TURN);
    while bench.is_cleaning() {
        log.extend(bench.turn());
    }
    assert_eq!((told(&log, "22=9"), told(&log, "closed suspect over")), (1, MANY as usize));
    assert_eq!((bench.core.item_count(), bench.core.take_released()), (0, vec![]));
}

#[test]
fn a_front_end_that_goes_on_reading_has_what_the_provider_waits_for_done_at_once() {
    let mut bench = publishing_many();
    bench.budget(1);
    while !bench.holds() {
        bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect("again"))]));
    }
    let long = refresh(-MANY, &name(MANY), &[(22, 9); 4_000]);
    let mut count = 0;
    while bench.holds() {
        bench.provider(T0, PROVIDER, &long);
        count += 1;
    }
    assert!(count * long.len() < 5 << 20, "{count}");
    assert_eq!(told(&bench.log.take(), "Refresh #"), count, "in order, none lost");
}

#[test]
fn a_directory_that_changes_a_hundred_times_in_a_turn_is_published_a_few_times_and_is_right_in_the_end() {
    let mut bench = Bench::running();
    bench.log.take();
    for n in 0..101 {
        bench.announce(PROVIDER, &[service(3, n % 2 == 0)]);
    }
    bench.announce(PROVIDER, &[service(3, false)]);
    let published = |log: Vec<String>| -> Vec<String> {
        log.into_iter().filter(|line| line.starts_with("directory")).collect()
    };
    let told = published(bench.log.take());
    assert!((1..=4).contains(&told.len()), "{told:?}");
    let again = bench.core.next_wakeup();
    assert!(again <= T0 + Duration::from_nanos(1), "the next turn says how it is");
    bench.core.on_wakeup(T0 + Duration::from_nanos(1), &mut bench.log);
    assert_eq!(published(bench.log.take()), ["directory: 1 BINANCE down"]);
    assert!(bench.core.next_wakeup() > T0 + Duration::from_nanos(1));
}
