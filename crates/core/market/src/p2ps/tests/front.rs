//! What a front end asks for when it could not show a client what it was given.

use super::*;

fn watcher(client: ClientId, stream_id: i32) -> Watcher {
    Watcher { client, stream_id }
}

#[test]
fn streams_get_the_present_image_again_each_form_once() {
    let mut bench = Bench::watching();
    bench.request(B, 9, "IBM");
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.took();
    bench.core.send_images(&[watcher(A, 5), watcher(B, 9), watcher(B, 77)], &mut bench.log);
    assert_eq!(bench.took(), ["1/5,2/9: refresh ok 22=2"]);
}

#[test]
fn who_gets_an_image_anyway_is_passed_over() {
    let mut bench = Bench::watching();
    bench.log_in(A, &LoginRequest { pause: true, no_refresh: true, ..LoginRequest::consumer(b"me") });
    bench.request(B, 10, "IBM");
    bench.request(B, 9, "MSFT");
    bench.took();
    bench.core.send_images(&[watcher(A, 5), watcher(B, 9)], &mut bench.log);
    assert_eq!(bench.took(), [""; 0], "one is paused, the other's image is on its way");
}

#[test]
fn a_stream_that_the_front_end_has_ended_is_not_served_any_more() {
    let mut bench = Bench::watching();
    assert!(!bench.core.is_private(watcher(A, 5)));
    bench.core.end_stream(bench.now, watcher(A, 5), &mut bench.log);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), [""; 0]);
    assert_eq!((bench.core.has_stream(A, 5), bench.counters.watchers.get()), (false, 0));
}
