//! Clean-ups that take several turns.

use super::dialled::{A, Script, config};
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
        self.core.config.cleanups_per_turn = per_turn;
        self.core.grant_cleanups(T0);
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
    assert_eq!(bench.log.take(), ["directory: 1 BINANCE down"], "that the service is down is said at once");
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
    let wanted = |bench: &Bench| bench.core.items.iter().filter(|(_, item)| !item.is_unwanted()).count();
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
    let wanted: Vec<usize> =
        bench.core.items.iter().filter(|(_, item)| !item.is_unwanted()).map(|(index, _)| index).collect();
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
