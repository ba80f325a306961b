//! Streams of services that are not heard though the directory of their instance is, and instances that are heard twice.

use super::*;

/// The directory is repeated for longer than a stream may be silent.
fn repeat_directory(bench: &mut Bench, spans: u32) {
    for _ in 0..spans {
        bench.after(SILENCE / 2);
        bench.directory_alone(DIRECTORY, INSTANCE, &[definition(true)]);
    }
}

#[test]
fn items_of_a_stream_that_is_silent_are_suspect_though_the_directory_is_heard() {
    let mut bench = Bench::watching();
    repeat_directory(&mut bench, 3);
    let log = bench.took();
    assert!(
        log[0].starts_with("notice: nothing of service \"BINANCE\" has come from source distributor"),
        "{log:?}"
    );
    assert!(log[0].contains("for 2000 ms, though its directory does"), "{log:?}");
    assert!(log[1].contains("1/5: status open suspect"), "{log:?}");
    assert_eq!(bench.counters.streams_silent.get(), 1);
    assert_eq!(bench.counters.instances.get(), 1, "the instance itself is heard");
    repeat_directory(&mut bench, 9);
    assert_eq!(bench.took(), [""; 0], "it is said once");
    // One word brings it back, and what was missed meanwhile comes as an image.
    bench.stream(Kind::Heartbeat, 7, 0, &[]);
    assert_eq!(bench.took(), ["77: resume IBM"]);
    bench.image(1, 7, "IBM", &[(22, 7)]);
    assert_eq!(bench.took(), ["1/5: refresh ok 22=7"]);
    assert_eq!(bench.counters.streams_silent.get(), 1);
}

#[test]
fn a_stream_that_beats_is_not_silent() {
    let mut bench = Bench::watching();
    for _ in 0..6 {
        repeat_directory(&mut bench, 1);
        bench.stream(Kind::Heartbeat, 1, 0, &[]);
    }
    assert_eq!(bench.took(), [""; 0]);
}

#[test]
fn items_go_to_a_stream_that_is_heard() {
    let mut bench = Bench::watching();
    bench.find_instance(SourceId(2), SourceId(3), 78, true);
    bench.took();
    let beat = StreamMsg { kind: Kind::Heartbeat, instance: 78, sequence: 4, item: 0, parts: &[], body: &[] };
    for _ in 0..3 {
        repeat_directory(&mut bench, 1);
        bench.directory(SourceId(2), 78, &[definition(true)]);
        bench
            .core
            .on_stream_message(bench.now, SourceId(3), &beat.header(), &mut bench.log)
            .expect("accepted");
    }
    let log = bench.took();
    assert!(log.contains(&"78: resume IBM".to_owned()), "{log:?}");
}

#[test]
fn streams_of_an_instance_that_comes_back_are_not_silent_before_they_could_speak() {
    let mut bench = Bench::watching();
    bench.after(SILENCE * 3);
    bench.took();
    bench.directory(DIRECTORY, INSTANCE, &[definition(true)]);
    let log = bench.took();
    assert!(log.contains(&"77: resume IBM".to_owned()), "{log:?}");
    assert_eq!(bench.counters.streams_silent.get(), 0);
}

#[test]
fn an_instance_that_is_heard_by_two_sessions_keeps_to_one_of_them() {
    let mut bench = Bench::watching();
    bench.core.on_source(bench.now, SourceId(2), Topic::Directory, 99, &mut bench.log);
    bench.core.on_source(bench.now, SourceId(3), Topic::Service("BINANCE"), 99, &mut bench.log);
    for _ in 0..6 {
        bench.directory(SourceId(2), INSTANCE, &[definition(true)]);
        repeat_directory(&mut bench, 1);
        bench.stream(Kind::Heartbeat, 1, 0, &[]);
    }
    assert_eq!(bench.took(), [""; 0], "both are heard");
    bench.core.on_source_ended(bench.now, SourceId(2), &mut bench.log);
    bench.core.on_source_ended(bench.now, SourceId(3), &mut bench.log);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    assert_eq!(bench.took(), ["1/5: update 22=2"], "the end of the other one is none of the instance");
}

#[test]
fn an_instance_goes_to_its_other_session_when_the_first_says_nothing_any_more() {
    let mut bench = Bench::watching();
    bench.core.on_source(bench.now, SourceId(2), Topic::Directory, 99, &mut bench.log);
    bench.core.on_source(bench.now, SourceId(3), Topic::Service("BINANCE"), 99, &mut bench.log);
    bench.directory(SourceId(2), INSTANCE, &[definition(true)]);
    assert_eq!(bench.core.items.sources.instances[&INSTANCE].session, INSTANCE);
    bench.directory(SourceId(2), INSTANCE, &[definition(true)]);
    assert_eq!(bench.core.items.sources.instances[&INSTANCE].session, 99);
    bench.core.on_source_ended(bench.now, DIRECTORY, &mut bench.log);
    bench.core.on_source_ended(bench.now, STREAM, &mut bench.log);
    let log = bench.took();
    assert!(!log.iter().any(|line| line.contains("disconnect")), "it is the same instance: {log:?}");
    assert!(log.contains(&"77: resume IBM".to_owned()), "{log:?}");
}
