//! Clean-ups that take several turns.

use rdm::directory::Load;

use super::dialled::{A, Script, config};
use super::many::{GROUP, group, say, suspect};
use super::*;

pub(super) const PER_TURN: usize = 10;
pub(super) const MANY: i32 = 35;
pub(super) const OTHER: ProviderId = ProviderId(2);

pub(super) fn name(number: i32) -> String {
    format!("I{number:02}")
}

/// `MANY` items that the provider publishes on streams of their own, and that the peer wants.
pub(super) fn publishing_many() -> Bench {
    let mut bench = Bench::running();
    for number in 1..=MANY {
        bench.provider(T0, PROVIDER, &refresh(-number, &name(number), &[(22, 1)]));
        bench.interest(T0, &name(number));
    }
    bench.budget(PER_TURN);
    bench
}

impl Bench {
    pub(super) fn budget(&mut self, per_turn: usize) {
        self.core.reconfigure(|config| config.cleanups_per_turn = per_turn);
        self.core.items.cleanups.grant_cleanups(T0);
        self.log.take();
    }

    pub(super) fn turn(&mut self) -> Vec<String> {
        assert!(self.core.next_wakeup() <= T0, "the next turn is due at once");
        self.core.on_wakeup(T0, &mut self.log);
        self.log.take()
    }

    pub(super) fn suspect_items(&self) -> usize {
        self.core.items().filter(|(_, cached)| cached.state().data == DataState::Suspect).count()
    }

    pub(super) fn is_cleaning(&self) -> bool {
        self.counters.cleanups_waiting.get() > 0
    }
}

pub(super) fn told(log: &[String], what: &str) -> usize {
    log.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn the_items_of_a_provider_that_is_gone_are_suspect_in_portions() {
    let mut bench = publishing_many();
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    assert!(bench.core.is_leaving(PROVIDER));
    let said = bench.log.take();
    assert_eq!(
        said,
        ["all of 1 suspect #36", "directory: 1 BINANCE down"],
        "that it is down is said at once"
    );
    let mut suspect = bench.suspect_items();
    assert!((1..=PER_TURN).contains(&suspect), "{suspect}");
    while bench.is_cleaning() {
        bench.turn();
        let now = bench.suspect_items();
        assert!(now - suspect <= PER_TURN, "{suspect} to {now}");
        suspect = now;
    }
    assert_eq!((suspect, bench.core.is_leaving(PROVIDER)), (MANY as usize, false));
}

#[test]
fn a_provider_that_comes_back_before_all_of_its_items_are_suspect_refreshes_them_for_good() {
    let mut bench = publishing_many();
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    // The same number: nothing of the streams before may be mistaken for those that follow.
    for provider in [PROVIDER, OTHER] {
        bench.provider_logs_in(provider);
        bench.announce(provider, &[service(3, true)]);
    }
    bench.log.take();
    bench.provider(T0, OTHER, &refresh(-1, &name(MANY), &[(22, 2)]));
    bench.provider(T0, PROVIDER, &refresh(-20, &name(MANY - 1), &[(22, 2)]));
    let log = bench.log.take();
    assert_eq!(told(&log, "Status"), 2, "suspect before it is good: {log:?}");
    assert_eq!(told(&log, "Refresh"), 2, "{log:?}");
    assert!(log[0].contains("Status") && log[1].contains("Refresh") && log[3].contains("Refresh"), "{log:?}");
    while bench.is_cleaning() {
        bench.turn();
    }
    assert_eq!(bench.suspect_items(), MANY as usize - 2);
    bench.provider(T0, PROVIDER, &update(-20, None, &[(22, 3)]));
    assert!(bench.log.take()[0].ends_with("22=3"));
}

#[test]
fn a_peer_that_asks_for_an_item_before_its_share_of_a_clean_up_gets_it_suspect() {
    let mut bench = publishing_many();
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    bench.log.take();
    bench.peer(T0, &LinkUp::ImageRequest { key: item(&name(MANY)) });
    let log = bench.log.take();
    assert!(log.last().is_some_and(|line| line.contains("image of") && line.contains("suspect")), "{log:?}");
}

#[test]
fn items_move_to_another_provider_in_portions_and_the_sum_is_told() {
    let mut bench = publishing_many();
    bench.provider_logs_in(OTHER);
    bench.announce(OTHER, &[service(3, true)]);
    for number in 1..=MANY - 5 {
        bench.provider(T0, OTHER, &refresh(-number, &name(number), &[(22, 2)]));
    }
    bench.budget(PER_TURN);
    bench.core.on_provider_closed(T0, PROVIDER, &mut bench.log);
    let mut log = bench.log.take();
    while bench.is_cleaning() {
        let more = bench.turn();
        assert!(told(&more, "Refresh") + told(&more, "Status") <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!((told(&log, "Refresh"), told(&log, "Status")), (30, 5), "{log:?}");
    assert_eq!(told(&log, "30 items come from another one now, 5 are suspect"), 1, "{log:?}");
}

#[test]
fn items_that_a_lost_peer_wanted_are_not_sent_to_nobody_for_long() {
    let mut bench = publishing_many();
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    let wanted =
        |bench: &Bench| bench.core.items.table.iter().filter(|(_, item)| !item.is_unwanted()).count();
    let mut left = wanted(&bench);
    assert_eq!(left, MANY as usize - PER_TURN);
    while bench.is_cleaning() {
        bench.turn();
        assert!(left - wanted(&bench) <= PER_TURN);
        left = wanted(&bench);
    }
    assert_eq!(left, 0);
}

#[test]
fn a_peer_whose_number_is_used_again_wants_what_it_says_and_nothing_else() {
    let mut bench = publishing_many();
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    bench.core.on_peer_connected(PEER);
    bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
    bench.interest(T0, &name(MANY));
    while bench.is_cleaning() {
        bench.turn();
    }
    let wanted: Vec<usize> = bench
        .core
        .items
        .table
        .iter()
        .filter(|(_, item)| !item.is_unwanted())
        .map(|(index, _)| index)
        .collect();
    assert_eq!(wanted, [MANY as usize - 1]);
}

#[test]
fn a_service_that_goes_up_and_down_has_two_clean_ups_at_most_and_each_item_its_end() {
    let mut bench = publishing_many();
    bench.provider_logs_in(OTHER);
    bench.announce(OTHER, &[service(3, true)]);
    for _ in 0..200 {
        bench.announce(PROVIDER, &[service(3, false)]);
        bench.announce(PROVIDER, &[service(3, true)]);
    }
    assert!(bench.counters.cleanups_waiting.get() <= 2, "{}", bench.counters.cleanups_waiting.get());
    // One item is published again, and is good, whatever is not done yet.
    bench.provider(T0, PROVIDER, &refresh(-MANY, &name(MANY), &[(22, 2)]));
    let mut turns = 0;
    while bench.is_cleaning() {
        bench.turn();
        turns += 1;
    }
    assert!(turns <= MANY as usize / PER_TURN + 3, "{turns}");
    assert_eq!(bench.suspect_items(), MANY as usize - 1);
}

#[test]
fn a_provider_that_has_published_little_leaves_little_to_do() {
    let mut bench = publishing_many();
    for number in 2..200 {
        let provider = ProviderId(number);
        bench.provider_logs_in(provider);
        bench.announce(provider, &[service(3, true)]);
        bench.provider(T0, provider, &refresh(-1, "SMALL", &[(22, 1)]));
        bench.core.on_provider_closed(T0, provider, &mut bench.log);
        bench.budget(PER_TURN);
        assert!(!bench.is_cleaning() && !bench.core.is_leaving(provider), "{number}");
    }
    let suspect: Vec<String> = bench
        .core
        .items()
        .filter(|(_, cached)| cached.state().data == DataState::Suspect)
        .map(|(key, _)| String::from_utf8_lossy(&key.name).into_owned())
        .collect();
    assert_eq!(suspect, ["SMALL"]);
}

/// `MANY` items that the provider was asked for and has answered.
pub(super) fn asked_for_many() -> Bench {
    let mut bench = Bench::dialled(DistributorConfig { requests_outstanding_max: 1_000, ..config() }, &[A]);
    for number in 1..=MANY {
        bench.interest(T0, &name(number));
    }
    let log = bench.log.take();
    assert_eq!(told(&log, "provider 100: request"), MANY as usize);
    for line in log.iter().filter(|line| line.contains("request")) {
        let words: Vec<&str> = line.split(' ').collect();
        bench.image(A, words[5].parse().expect("a stream id"), &[(22, 1)]);
    }
    bench.budget(PER_TURN);
    bench
}

#[test]
fn the_items_of_a_dialled_provider_that_is_lost_are_asked_for_elsewhere_in_portions() {
    let mut bench = asked_for_many();
    let other = ProviderId(A.0 + 1);
    bench.dial(other);
    bench.provider(T0, other, &Script::directory(&[service(3, true)]));
    bench.log.take();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    let mut log = bench.log.take();
    assert_eq!(told(&log, "provider 101: request"), PER_TURN, "{log:?}");
    while bench.is_cleaning() {
        let more = bench.turn();
        assert!(told(&more, "provider 101: request") <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!((told(&log, "Status"), told(&log, "provider 101: request")), (MANY as usize, MANY as usize));
    assert_eq!(bench.outstanding(), (MANY as u64, 0));
}

#[test]
fn a_dialled_provider_that_is_back_early_is_asked_anew_for_everything() {
    let mut bench = asked_for_many();
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    assert!(bench.core.is_leaving(A));
    bench.dial(A);
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    let log = bench.log.take();
    assert_eq!((told(&log, "provider 100: request"), told(&log, "close")), (MANY as usize, 0), "{log:?}");
    assert_eq!(bench.outstanding(), (MANY as u64, 0));
}

/// A peer wants `MANY` items that nobody publishes.
fn waiting_for_many() -> Bench {
    let mut bench = Bench::running();
    for number in 1..=MANY {
        bench.interest(T0, &name(number));
    }
    bench.budget(PER_TURN);
    bench
}

#[test]
fn those_who_wait_for_what_does_not_exist_are_told_in_portions() {
    let mut bench = waiting_for_many();
    let not_found = "closed suspect the provider does not publish this item";
    let mut log = Vec::new();
    while bench.core.next_wakeup() <= LATER {
        bench.core.on_wakeup(LATER, &mut bench.log);
        let more = bench.log.take();
        assert!(told(&more, not_found) <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!((told(&log, not_found), bench.counters.items_not_found.get()), (MANY as usize, MANY as u64));
    assert!(bench.core.items.unknown.len() == 0);
}

#[test]
fn who_asks_again_before_it_was_told_that_an_item_does_not_exist_is_told_once() {
    let mut bench = waiting_for_many();
    bench.core.on_wakeup(LATER, &mut bench.log);
    bench.interest(LATER, &name(MANY));
    while bench.is_cleaning() {
        bench.core.on_wakeup(LATER, &mut bench.log);
    }
    assert_eq!(told(&bench.log.take(), &format!("{} closed", name(MANY))), 1);
}

#[test]
fn a_lost_peer_is_taken_off_what_nobody_publishes_in_portions_and_hears_nothing_more() {
    for comes_again in [false, true] {
        let mut bench = waiting_for_many();
        bench.core.on_peer_closed(T0, PEER, &mut bench.log);
        let mut left = bench.core.items.unknown.len();
        assert!((MANY as usize - PER_TURN..MANY as usize).contains(&left), "{left}");
        if comes_again {
            bench.core.on_peer_connected(PEER);
            bench.peer(T0, &LinkUp::Hello { peer: 1, name: b"test" });
        }
        bench.log.take();
        bench.provider(T0, PROVIDER, &refresh(-1, &name(MANY), &[(22, 1)]));
        assert_eq!(bench.log.take(), [""; 0], "nobody waits");
        while bench.is_cleaning() {
            bench.turn();
            assert!(left - bench.core.items.unknown.len() <= PER_TURN + 1);
            left = bench.core.items.unknown.len();
        }
        assert_eq!((left, bench.core.item_count()), (0, 1));
    }
}

#[test]
fn what_a_lost_peer_had_asked_for_and_not_got_is_given_back_in_portions() {
    let mut bench = publishing_many();
    bench.log.1 = Some(0);
    for number in 1..=MANY {
        bench.peer(T0, &LinkUp::ImageRequest { key: item(&name(number)) });
    }
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    let mut turns = 0;
    while bench.is_cleaning() {
        bench.turn();
        turns += 1;
    }
    assert!(
        (2 * MANY as usize / PER_TURN - 2..=2 * MANY as usize / PER_TURN + 8).contains(&turns),
        "{turns}"
    );
}

#[test]
fn items_that_wait_for_a_limit_are_told_so_in_portions() {
    let mut bench = Bench::dialled(config(), &[A]);
    for number in 1..=MANY {
        bench.interest(T0, &name(number));
    }
    assert_eq!(bench.outstanding(), (2, MANY as u64 - 2));
    bench.budget(PER_TURN);
    let mut full = service(3, true);
    full.load = Load { open_limit: Some(2), ..Load::default() };
    bench.provider(T0, A, &Script::directory(&[full]));
    let over = "waiting: the providers of the service have as many items open as they take";
    let mut log = bench.log.take();
    assert!((1..=PER_TURN).contains(&told(&log, over)), "{log:?}");
    while bench.is_cleaning() {
        let more = bench.turn();
        assert!(told(&more, over) <= PER_TURN, "{more:?}");
        log.extend(more);
    }
    assert_eq!(
        (told(&log, over), bench.counters.items_over_limit.get()),
        (MANY as usize - 2, MANY as u64 - 2)
    );
    assert_eq!(told(&log, "items wait, as no more than 2 are taken"), 1);
}

#[test]
fn items_of_a_domain_that_no_provider_takes_now_stand_in_nobody_s_way() {
    let mut bench = Bench::dialled(config(), &[A]);
    bench.core.on_provider_closed(T0, A, &mut bench.log);
    let book = ItemKey::named(1, Domain::MARKET_BY_PRICE, b"X");
    bench.peer(T0, &LinkUp::Interest { key: book });
    bench.interest(T0, "Y");
    bench.dial(A);
    bench.log.take();
    bench.provider(T0, A, &Script::directory(&[service(3, true)]));
    let log = bench.log.take();
    assert_eq!((told(&log, "request Y"), bench.outstanding()), (1, (1, 1)), "{log:?}");
    let mut both = service(3, true);
    both.info.capabilities.push(Domain::MARKET_BY_PRICE);
    bench.provider(T0, A, &Script::directory(&[both]));
    assert_eq!(bench.outstanding(), (2, 0));
}

#[test]
fn a_provider_that_never_ends_saying_things_does_not_keep_other_clean_ups_waiting() {
    let mut bench = publishing_many();
    bench.core.on_peer_connected(PeerId(9));
    bench.core.on_peer_closed(T0, PEER, &mut bench.log);
    let wanted =
        |bench: &Bench| bench.core.items.table.iter().filter(|(_, item)| !item.is_unwanted()).count();
    let mut turns = 0;
    while wanted(&bench) > 0 {
        bench.provider(T0, PROVIDER, &say(vec![group(GROUP, suspect("again"))]));
        bench.turn();
        turns += 1;
        assert!(turns < 60, "{} are left", wanted(&bench));
    }
    assert!(bench.core.items.cleanups.has_sweeps());
}
