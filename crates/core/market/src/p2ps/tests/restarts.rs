//! Source distributors that are started again.

use super::*;

#[test]
fn an_item_that_was_had_is_resumed_at_the_next_run_and_comes_back_however_late() {
    let mut bench = Bench::watching();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.find_instance(SourceId(2), SourceId(3), 78, true);
    assert!(bench.took().contains(&"78: resume IBM".to_owned()));
    let waiting = State::new(StreamState::Open, rwf::DataState::Suspect).because(StateCode::NONE, "waiting");
    let status =
        StatusMsg { state: Some(waiting), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.link(78, &LinkDown::ItemStatus { key: named("IBM"), status: &status.to_vec().expect("legal") });
    assert_eq!(bench.took(), ["1/5: status open suspect: waiting"]);
    for _ in 0..1800 {
        bench.after(Duration::from_secs(1));
        bench.directory(SourceId(2), 78, &[definition(true)]);
        bench.after(Duration::from_secs(1));
        bench.directory(SourceId(2), 78, &[definition(true)]);
    }
    let mut log = bench.took();
    log.retain(|line| !line.contains("connect 77"));
    assert_eq!(log, [""; 0], "an hour later nothing was closed, and nothing asked again");
    let refresh = refresh(&[(22, 7)]);
    bench.link(78, &LinkDown::Image { item: 4, after: 3, key: named("IBM"), refresh: &refresh });
    assert_eq!(bench.took(), ["1/5: refresh ok 22=7"]);
}

#[test]
fn an_instance_that_does_not_know_of_it_is_asked_as_ever() {
    let mut bench = Bench::watching();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    bench.core.on_source(bench.now, SourceId(2), Topic::Directory, 78, &mut bench.log);
    bench.directory(SourceId(2), 78, &[definition(true)]);
    bench.core.on_link_up(78, &mut bench.log);
    bench.link(78, &LinkDown::HelloAck { instance: 78, features: Features(1) });
    bench.core.on_source(bench.now, SourceId(3), Topic::Service("BINANCE"), 78, &mut bench.log);
    assert!(bench.took().contains(&"78: interest IBM".to_owned()));
}

#[test]
fn a_stream_that_joins_an_item_without_an_image_is_told_why() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.took();
    let waiting = State::new(StreamState::Open, rwf::DataState::Suspect).because(StateCode::NONE, "no room");
    let status =
        StatusMsg { state: Some(waiting), ..StatusMsg::new(Domain::MARKET_PRICE, 0, DataType::NO_DATA) };
    bench.link(
        INSTANCE,
        &LinkDown::ItemStatus { key: named("IBM"), status: &status.to_vec().expect("legal") },
    );
    assert_eq!(bench.took(), ["1/5: status open suspect: no room"]);
    bench.request(B, 9, "IBM");
    assert_eq!(bench.took(), ["2/9: status open suspect: no room"]);
}

#[test]
fn who_has_not_run_for_a_while_takes_nobody_for_silent_before_it_has_read_what_was_said() {
    for has_noticed in [false, true] {
        let mut bench = Bench::watching();
        bench.now += Duration::from_secs(15);
        if has_noticed {
            bench.core.after_pause(bench.now);
        }
        bench.core.on_wakeup(bench.now, &mut bench.log);
        assert_eq!(bench.took().is_empty(), has_noticed);
        // Who says nothing from then on is silent all the same.
        bench.after(SILENCE);
        assert_eq!(bench.took().iter().any(|line| line.contains("suspect")), has_noticed);
    }
}
