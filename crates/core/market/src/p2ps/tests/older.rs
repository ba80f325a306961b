//! Images of an instance, or of a provider that stood by, that has not come as far as the one before it.

use super::*;

const SECOND: u64 = 78;
const AWAY: State<'static> =
    State::new(StreamState::Open, rwf::DataState::Suspect).because(StateCode::NONE, "away");
const LOST: &str = "1/5: status open suspect: the source distributor is lost, looking for another";

fn send_image(bench: &mut Bench, instance: u64, after: u64, refresh: &[u8]) {
    bench.link(instance, &LinkDown::Image { item: 4, after, key: named("IBM"), refresh });
}

fn second_stream(bench: &mut Bench, kind: Kind, sequence: u64, body: &[u8]) {
    let msg = StreamMsg { kind, instance: SECOND, sequence, item: 4, parts: &[], body };
    let bytes = [&msg.header()[..], body].concat();
    bench.core.on_stream_message(bench.now, SourceId(3), &bytes, &mut bench.log).expect("accepted");
}

/// A has had number 8 of IBM from one instance, which is lost; the other one is asked.
fn moved() -> Bench {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.link(
        INSTANCE,
        &LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &image_of(8, 80, State::OPEN_OK) },
    );
    bench.find_instance(SourceId(2), SourceId(3), SECOND, true);
    bench.took();
    bench.core.on_link_down(bench.now, INSTANCE, &mut bench.log);
    assert_eq!(bench.took(), [LOST, "78: resume IBM"]);
    let (kind, body) = StreamMsg::open(&named("IBM"));
    second_stream(&mut bench, kind, 1, &body);
    bench
}

#[test]
fn values_do_not_go_back_to_those_of_an_instance_that_has_lost_its_provider() {
    let mut bench = moved();
    send_image(&mut bench, SECOND, 1, &image_of(5, 50, AWAY));
    assert_eq!(bench.took(), ["1/5: status open suspect: away"]);
    bench.request(B, 9, "IBM");
    assert_eq!(bench.took(), ["2/9: refresh suspect solicited 22=80"], "who comes now gets what others have");
    // The provider comes back.
    second_stream(&mut bench, Kind::Refresh, 2, &image_of(9, 90, State::OPEN_OK));
    assert_eq!(bench.took(), ["78: image IBM"]);
    send_image(&mut bench, SECOND, 2, &image_of(9, 90, State::OPEN_OK));
    assert_eq!(bench.took(), ["1/5,2/9: refresh ok 22=90"]);
    second_stream(&mut bench, Kind::Update, 3, &numbered(Some(10), 100));
    assert_eq!(bench.took(), ["1/5,2/9: update 22=100"]);
}

#[test]
fn an_image_that_is_younger_or_good_or_has_no_number_is_shown() {
    for (refresh, shown) in [
        (image_of(8, 81, AWAY), "1/5: refresh suspect 22=81"),
        (image_of(9, 90, AWAY), "1/5: refresh suspect 22=90"),
        // The provider may have begun to count anew.
        (image_of(5, 50, State::OPEN_OK), "1/5: refresh ok 22=50"),
        (super::refresh(&[(22, 50)]), "1/5: refresh ok 22=50"),
    ] {
        let mut bench = moved();
        send_image(&mut bench, SECOND, 1, &refresh);
        assert_eq!(bench.took(), [shown]);
    }
}

#[test]
fn what_has_waited_for_an_older_image_is_behind_it() {
    let mut bench = moved();
    second_stream(&mut bench, Kind::Refresh, 2, &image_of(9, 90, State::OPEN_OK));
    assert_eq!(bench.took(), [""; 0], "the image is on its way");
    send_image(&mut bench, SECOND, 1, &image_of(5, 50, AWAY));
    assert_eq!(bench.took(), ["1/5: status open suspect: away", "78: image IBM"]);
    send_image(&mut bench, SECOND, 1, &image_of(5, 50, AWAY));
    assert_eq!(bench.took(), ["78: image IBM"], "it lacks the message");
    send_image(&mut bench, SECOND, 2, &image_of(9, 90, State::OPEN_OK));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=90"]);
}

#[test]
fn an_instance_that_catches_up_while_it_is_suspect_is_followed_when_it_has() {
    let mut bench = moved();
    for (sequence, number) in [(1, 6), (2, 7)] {
        send_image(&mut bench, SECOND, sequence, &image_of(number, 10 * i64::from(number), AWAY));
        bench.took();
        second_stream(&mut bench, Kind::Update, sequence + 1, &numbered(Some(number + 1), 0));
        assert_eq!(bench.took(), ["78: image IBM"], "after {number}");
    }
    send_image(&mut bench, SECOND, 3, &image_of(8, 80, AWAY));
    assert_eq!(bench.took(), ["1/5: refresh suspect 22=80"]);
    second_stream(&mut bench, Kind::Update, 4, &numbered(Some(9), 90));
    assert_eq!(bench.took(), ["1/5: update 22=90"]);
}

#[test]
fn what_is_lost_behind_an_older_image_is_asked_for() {
    let mut bench = moved();
    send_image(&mut bench, SECOND, 1, &image_of(5, 50, AWAY));
    bench.took();
    second_stream(&mut bench, Kind::Heartbeat, 2, &[]);
    assert_eq!(bench.took(), ["78: gap 2-2"]);
    let answer = LinkDown::GapAnswer { service: 1, first: 2, last: 2, known: false, ids: &[] };
    bench.link(SECOND, &answer);
    assert_eq!(bench.took().last().map(String::as_str), Some("78: image IBM"));
}

#[test]
fn a_provider_that_takes_over_without_having_come_as_far_brings_its_state_alone() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    let first = image_of(8, 80, State::OPEN_OK);
    bench.link(INSTANCE, &LinkDown::Image { item: 1, after: 1, key: named("IBM"), refresh: &first });
    bench.took();
    bench.stream(Kind::Refresh, 2, 1, &image_of(5, 50, AWAY));
    assert_eq!(bench.took(), ["1/5: status open suspect: away"]);
    bench.stream(Kind::Refresh, 3, 1, &image_of(6, 60, State::OPEN_OK));
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.image(1, 3, "IBM", &[(22, 60)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=60"]);
}
