//! What the stream of a service says of all its items: its place is among their messages.

use super::*;
use crate::backbone::service_status;

const DOWN: &str = "status open suspect: the service is down: its provider has gone";

#[test]
fn an_image_from_before_the_service_went_down_is_asked_for_again() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.took();
    bench.stream(Kind::ServiceStatus, 2, 0, &service_status());
    bench.image(1, 1, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["77: image IBM"], "it left when all was well");
    bench.image(1, 2, "IBM", &[(22, 1)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=1"]);
}

#[test]
fn items_are_suspect_from_the_message_on_and_good_with_what_comes_behind_it() {
    let mut bench = Bench::watching();
    bench.request(A, 6, "VOD");
    bench.open(2, 2, "VOD");
    bench.image(2, 3, "VOD", &[(22, 7)]);
    bench.took();
    bench.stream(Kind::ServiceStatus, 3, 0, &service_status());
    assert_eq!(bench.took(), [format!("1/5: {DOWN}")], "the image of the other one is newer");
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    let took = bench.took();
    assert_eq!(took.iter().filter(|line| line.contains("suspect")).count(), 1, "not said twice: {took:?}");
    bench.stream(Kind::Refresh, 4, 1, &refresh(&[(22, 4)]));
    assert_eq!(bench.took(), ["1/5: refresh ok 22=4"]);
}

#[test]
fn what_is_suspect_by_the_stream_alone_is_asked_for_after_a_while() {
    let mut bench = Bench::watching();
    bench.stream(Kind::ServiceStatus, 2, 0, &service_status());
    bench.took();
    bench.after(Duration::from_secs(1));
    assert!(
        bench.took().contains(&"77: image IBM".to_owned()),
        "the directory has never said that it was down"
    );
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=2"]);
    bench.stream(Kind::ServiceStatus, 3, 0, &service_status());
    bench.directory(DIRECTORY, INSTANCE, &[definition(false)]);
    bench.after(Duration::from_secs(1));
    assert!(!bench.took().contains(&"77: image IBM".to_owned()), "it is down");
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    bench.after(Duration::from_secs(1));
    assert!(bench.took().contains(&"77: image IBM".to_owned()), "it is up");
}

#[test]
fn a_state_of_all_that_is_lost_concerns_all() {
    let mut bench = Bench::watching();
    bench.stream(Kind::Heartbeat, 2, 0, &[]);
    bench.took();
    bench.gap_answer(2, 2, Some(&[0]));
    let took = bench.took();
    assert!(took[0].contains("suspect") && took[1] == "77: image IBM", "{took:?}");
}

#[test]
fn an_image_from_before_the_stream_had_its_item_is_asked_for_again() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.took();
    // Numbers up to 6 were never seen.
    bench.open(7, 1, "IBM");
    for old in [4, 6] {
        bench.image(1, old, "IBM", &[(22, 1)]);
        assert_eq!(bench.took(), ["77: image IBM"], "taken after {old}");
    }
    bench.image(1, 7, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["1/5: refresh ok solicited 22=2"]);
}

#[test]
fn an_item_is_not_given_up_while_a_second_image_is_on_its_way() {
    let mut bench = Bench::watching();
    let linger = Duration::from_millis(300);
    bench.core.reconfigure(|config| config.item_linger = linger);
    // Two questions, and so far one answer.
    bench.stream(Kind::Heartbeat, 2, 0, &[]);
    bench.gap_answer(2, 2, None);
    for _ in 0..10 {
        bench.after(ServerConfig::default().image_timeout / 10);
        bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    }
    bench.image(1, 3, "IBM", &[(22, 3)]);
    let asked = bench.took().iter().filter(|line| *line == "77: image IBM").count();
    assert_eq!(asked, 2);
    bench.close(A, 5);
    let gives_up = |bench: &mut Bench| {
        bench.after(linger);
        bench.took().contains(&"77: no interest IBM".to_owned())
    };
    assert!(!gives_up(&mut bench), "the second answer may still come");
    assert!(gives_up(&mut bench), "the instance has answered both with one");
}

fn open_anew(bench: &mut Bench, sequence: u64) {
    let (kind, body) = StreamMsg::open(&named("IBM"));
    let msg = StreamMsg { kind, instance: INSTANCE, sequence, item: 1, parts: StreamMsg::ANEW, body: &body };
    let bytes = [&msg.header()[..], msg.parts, &body].concat();
    bench.core.on_stream_message(bench.now, STREAM, &bytes, &mut bench.log).expect("accepted");
}

#[test]
fn what_was_not_sent_for_a_while_is_asked_for_again() {
    let mut bench = Bench::watching();
    bench.open(2, 1, "IBM");
    assert_eq!(bench.took(), [""; 0], "another server has asked for it");
    open_anew(&mut bench, 3);
    let took = bench.took();
    assert!(took[0].starts_with("1/5: status open suspect: the source distributor had stopped"), "{took:?}");
    assert_eq!(took[1..], ["77: image IBM"]);
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["77: image IBM"], "it is older than what was not sent");
    bench.image(1, 3, "IBM", &[(22, 3)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=3"]);
    open_anew(&mut bench, 3);
    bench.image(1, 9, "IBM", &[(22, 9)]);
    assert_eq!(
        bench.took(),
        [""; 0],
        "of a message that was there and an image that nobody has asked for nothing comes"
    );
}

#[test]
fn an_image_that_was_too_old_is_shown_as_suspect() {
    let mut bench = Bench::running();
    bench.request(A, 5, "IBM");
    bench.took();
    open_anew(&mut bench, 3);
    bench.image(1, 2, "IBM", &[(22, 2)]);
    assert_eq!(bench.took(), ["77: image IBM"]);
    bench.request(B, 6, "IBM");
    assert_eq!(bench.took(), ["2/6: refresh suspect solicited 22=2"]);
    bench.image(1, 3, "IBM", &[(22, 3)]);
    assert_eq!(bench.took(), ["2/6: refresh ok 22=3", "1/5: refresh ok solicited 22=3"]);
}
