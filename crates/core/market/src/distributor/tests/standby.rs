//! Several non-interactive providers of one service.

use super::dialled::Script;
use super::*;

const OTHER: ProviderId = ProviderId(2);

impl Bench {
    /// Both publish A on -5, the second one has B alone on -6; A and B are wanted.
    fn shared() -> Bench {
        let mut bench = Bench::running();
        bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
        bench.interest(T0, "A");
        bench.provider_logs_in(OTHER);
        bench.announce(OTHER, &[service(9, true)]);
        bench.log.take();
        bench.provider(T0, OTHER, &refresh_for(9, -5, "A", &[(22, 100)]));
        bench.provider(T0, OTHER, &refresh_for(9, -6, "B", &[(22, 200)]));
        bench.interest(T0, "B");
        let log = bench.log.take();
        assert!(log.iter().all(|l| l.contains('B') || l.contains("#2")), "A comes from the first: {log:?}");
        bench
    }
}

#[test]
fn a_second_provider_that_comes_and_goes_changes_nothing_for_the_first() {
    let mut bench = Bench::running();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 1)]));
    bench.interest(T0, "A");
    bench.provider_logs_in(OTHER);
    bench.log.take();
    bench.announce(OTHER, &[service(3, true)]);
    let shared =
        "notice on 2: service \"BINANCE\" is published by 2 providers; each item comes from one of them";
    assert_eq!((bench.log.take(), bench.counters.services_shared.get()), (vec![shared.to_owned()], 1));
    bench.core.on_provider_closed(T0, OTHER, &mut bench.log);
    let left = "notice on 2: service \"BINANCE\" is lost at this provider, 1 publish it: 0 items come from another one now, 0 are suspect";
    assert_eq!(bench.log.take(), [left], "the service stays up");
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    assert_eq!(bench.log.take(), ["1 Update #2 item 1: 22=2"]);
    assert_eq!(bench.core.services().map(|(.., up, _)| up).collect::<Vec<_>>(), [true]);
    assert_eq!(bench.counters.services_shared.get(), 0);
}

#[test]
fn an_item_comes_from_one_provider_and_from_the_other_with_an_image_when_that_is_lost() {
    let mut bench = Bench::shared();
    bench.provider(T0, OTHER, &update(-5, None, &[(25, 101)]));
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    assert_eq!(bench.log.take(), ["1 Update #3 item 1: 22=2"]);
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    let log = bench.log.take();
    assert_eq!(log[0], "1 Refresh #4 item 1: ok 22=100 25=101", "{log:?}");
    assert_eq!(log.len(), 2, "one more is the notice: {log:?}");
    bench.provider(T0, OTHER, &update(-5, None, &[(25, 102)]));
    assert_eq!(bench.log.take(), ["1 Update #5 item 1: 25=102"]);
    assert_eq!((bench.counters.items_taken_over.get(), bench.counters.messages_standby.get()), (1, 2));
    bench.provider_logs_in(PROVIDER);
    bench.announce(PROVIDER, &[service(3, true)]);
    bench.log.take();
    bench.provider(T0, PROVIDER, &refresh(-5, "A", &[(22, 7)]));
    assert_eq!(bench.log.take(), [""; 0], "who comes back stands by");
}

#[test]
fn an_item_that_only_the_lost_provider_has_is_suspect_and_the_service_stays_up() {
    let mut bench = Bench::shared();
    bench.core.on_provider_closed(T0, OTHER, &mut bench.log);
    let log = bench.log.take();
    assert_eq!(log[0], "1 Status #3 item 2: open suspect the provider has gone");
    assert!(
        log[1].ends_with("0 items come from another one now, 1 are suspect") && log.len() == 2,
        "{log:?}"
    );
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    assert_eq!(bench.log.take(), ["1 Update #4 item 1: 22=2"]);
    bench.provider(T0, PROVIDER, &refresh(-8, "B", &[(22, 5)]));
    assert_eq!(bench.log.take(), ["1 Refresh #5 item 2: ok 22=5"], "it comes from who publishes it next");
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    assert_eq!(bench.log.take().last().map(String::as_str), Some("directory: 1 BINANCE down"));
}

#[test]
fn one_that_closes_an_item_or_says_that_it_is_suspect_or_is_silent_hands_it_over() {
    let suspect =
        State::new(rwf::StreamState::Open, DataState::Suspect).because(rwf::StateCode::NONE, "stale");
    let closed = State::new(rwf::StreamState::Closed, DataState::Suspect);
    let mut bench = Bench::shared();
    bench.provider(T0, PROVIDER, &Script::status(-5, closed));
    assert_eq!(bench.log.take(), ["1 Refresh #3 item 1: ok 22=100"]);
    let mut bench = Bench::shared();
    bench.provider(T0, PROVIDER, &Script::status(-5, suspect));
    assert_eq!(
        bench.log.take(),
        ["1 Status #3 item 1: open suspect stale", "1 Refresh #4 item 1: ok 22=100"]
    );
    let mut bench = Bench::shared();
    let later = T0 + Duration::from_secs(6);
    bench.provider(later, OTHER, &update(-5, None, &[(25, 3)]));
    assert_eq!(bench.log.take(), ["1 Refresh #3 item 1: ok 22=100 25=3"]);
    bench.provider(later, PROVIDER, &update(-5, None, &[(22, 3)]));
    assert_eq!(bench.log.take(), [""; 0], "it stands by now");
}

#[test]
fn one_of_which_nothing_comes_while_others_go_on_gives_way() {
    let mut bench = Bench::shared();
    let silence = DistributorConfig::default().provider_silence;
    let just_before = silence - Duration::from_nanos(1);
    let mut now = T0 + Duration::from_secs(1);
    let mut say = |bench: &mut Bench, after: Duration, provider| {
        now += after;
        bench.provider(now, provider, &update(-5, None, &[(25, 1)]));
        (now, bench.counters.items_taken_over.get())
    };
    say(&mut bench, Duration::ZERO, PROVIDER);
    // Where little happens, one that is a little later than the other keeps what it has.
    for _ in 0..3 {
        assert_eq!(say(&mut bench, just_before, OTHER).1, 0);
        assert_eq!(say(&mut bench, Duration::from_millis(5), PROVIDER).1, 0);
    }
    say(&mut bench, Duration::from_millis(5), OTHER);
    let (paused_at, count) = say(&mut bench, just_before, OTHER);
    assert_eq!(count, 0);
    // What both have said during a pause of this side is read in any order.
    bench.core.after_pause(paused_at);
    assert_eq!(say(&mut bench, just_before, OTHER).1, 0);
    assert_eq!(say(&mut bench, just_before, OTHER).1, 0);
    assert_eq!(say(&mut bench, Duration::from_nanos(1), OTHER).1, 1);
}

#[test]
fn what_stands_by_may_end_or_be_unreadable_without_anybody_noticing() {
    let closed = State::new(rwf::StreamState::Closed, DataState::Suspect);
    let mut bench = Bench::shared();
    bench.provider(T0, OTHER, &Script::status(-5, closed));
    assert_eq!(bench.log.take(), [""; 0]);
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    assert_eq!(bench.log.take()[0], "1 Status #3 item 1: open suspect the provider has gone");
    let mut bench = Bench::shared();
    let whole = update(-5, None, &[(22, 1), (25, 2)]);
    bench.provider(T0, OTHER, &whole[..whole.len() - 1]);
    let log = bench.log.take();
    assert!(log.len() == 1 && log[0].starts_with("notice on 2: item \"A\""), "{log:?}");
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    assert_eq!(bench.log.take(), ["1 Update #3 item 1: 22=2"]);
}

#[test]
fn what_a_provider_says_of_an_item_that_nobody_has_is_about_its_own_image() {
    let mut bench = Bench::shared();
    bench.announce(OTHER, &[service(9, false)]);
    bench.provider(T0, OTHER, &refresh_for(9, -5, "A", &[(22, 100)]));
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    bench.log.take();
    let stale = State::new(rwf::StreamState::Open, DataState::Suspect).because(rwf::StateCode::NONE, "stale");
    bench.provider(T0, OTHER, &update(-5, None, &[(25, 101)]));
    bench.provider(T0, OTHER, &Script::status(-5, stale));
    assert_eq!(bench.log.take(), [""; 0], "the image of the one that is lost does not change");
    bench.announce(OTHER, &[service(9, true)]);
    bench.log.take();
    bench.provider(T0, OTHER, &update(-5, None, &[(25, 102)]));
    assert_eq!(bench.log.take(), [""; 0], "its own is suspect");
    let good = State::new(rwf::StreamState::Open, DataState::Ok);
    bench.provider(T0, OTHER, &Script::status(-5, good));
    bench.provider(T0, OTHER, &update(-5, None, &[(25, 103)]));
    assert_eq!(bench.log.take(), ["1 Refresh #5 item 1: ok 22=100 25=103"]);
}

#[test]
fn who_has_an_item_from_now_on_does_not_stand_by_for_it_too() {
    let mut bench = Bench::shared();
    bench.announce(OTHER, &[service(9, false)]);
    bench.provider(T0, OTHER, &refresh_for(9, -5, "A", &[(22, 100)]));
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    bench.announce(OTHER, &[service(9, true)]);
    bench.provider(T0, OTHER, &refresh_for(9, -7, "A", &[(22, 300)]));
    bench.log.take();
    let closed = State::new(rwf::StreamState::Closed, DataState::Suspect);
    bench.provider(T0, OTHER, &Script::status(-7, closed));
    let log = bench.log.take();
    assert!(log.len() == 1 && log[0].starts_with("1 Close"), "its former image is not sent: {log:?}");
    bench.provider(T0, OTHER, &update(-5, None, &[(22, 9)]));
    assert_eq!(bench.counters.updates_without_image.get(), 1, "its former stream is over");
}

#[test]
fn an_item_that_is_over_leaves_no_stream_of_those_that_stood_by() {
    let mut bench = Bench::shared();
    let closed = State::new(rwf::StreamState::Closed, DataState::Suspect);
    bench.provider(T0, OTHER, &Script::status(-5, closed));
    bench.provider(T0, PROVIDER, &Script::status(-5, closed));
    assert_eq!(bench.log.take(), ["1 Close #3 item 1: closed suspect "]);
    bench.provider(T0, PROVIDER, &refresh(-7, "C", &[(22, 1)]));
    bench.provider(T0, OTHER, &update(-5, None, &[(22, 9)]));
    assert_eq!(bench.counters.updates_without_image.get(), 1, "the place of A is that of C");
}

#[test]
fn a_service_is_up_while_any_says_so_and_withdrawn_with_the_last() {
    let mut bench = Bench::shared();
    bench.announce(PROVIDER, &[service(3, false)]);
    let log = bench.log.take();
    assert_eq!(log[0], "1 Refresh #3 item 1: ok 22=100", "{log:?}");
    assert!(log.iter().all(|l| !l.contains("down") || l.contains("notice")), "{log:?}");
    bench.announce(PROVIDER, &[]);
    assert!(bench.log.take().iter().all(|l| !l.contains("close stream")));
    bench.announce(OTHER, &[]);
    assert!(bench.log.take().contains(&"close stream 1".to_owned()));
}

#[test]
fn providers_that_were_not_read_are_not_silent() {
    let mut bench = Bench::shared();
    let flow = FlowConfig { window_bytes: 1_000, floor: 1, patience: Duration::from_secs(60) };
    bench.core.reconfigure(|config| config.flow = flow);
    bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    let mut positions = Vec::new();
    LinkUp::put_position(&mut positions, 1, 0);
    bench.peer(T0, &LinkUp::Progress { positions: &positions });
    while !bench.core.holds_providers(T0, &mut bench.log) {
        bench.provider(T0, PROVIDER, &update(-5, None, &[(22, 2)]));
    }
    let later = T0 + Duration::from_secs(20);
    assert!(bench.core.holds_providers(later, &mut bench.log));
    positions.clear();
    LinkUp::put_position(&mut positions, 1, u64::MAX - 1);
    bench.peer(later, &LinkUp::Progress { positions: &positions });
    assert!(!bench.core.holds_providers(later, &mut bench.log));
    bench.log.take();
    // The other one happens to be read first.
    bench.provider(later, OTHER, &update(-5, None, &[(22, 100)]));
    assert_eq!((bench.log.take(), bench.counters.items_taken_over.get()), (vec![], 0));
    let silent = later + Duration::from_secs(6);
    bench.provider(silent, OTHER, &update(-5, None, &[(22, 101)]));
    assert_eq!(bench.counters.items_taken_over.get(), 1, "one that is read and says nothing is");
}
