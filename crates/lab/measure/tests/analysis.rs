//! What is planted in files of observations is found: losses, duplicates, order, delays. Times are made, not measured.

mod common;

use std::path::PathBuf;

use common::{Files, at_rate, head};
use observation::{Clock, id};
use tickcast_measure::analysis::{Analysis, AnalysisError, Figures, Options, analyse};
use units::Rng;

fn pair(analysis: &Analysis) -> &tickcast_measure::analysis::Pair {
    assert_eq!(analysis.pairs.len(), 1);
    &analysis.pairs[0]
}

fn latency(analysis: &Analysis) -> &Figures {
    pair(analysis).latency.as_ref().expect("the clocks are one")
}

#[test]
fn every_message_is_found_and_its_latency_exactly() {
    let files = Files::new();
    let sent = at_rate(0, 100_000, 1_000);
    files.add(&head("sender"), &sent);
    files.add(
        &head("receiver"),
        &sent.iter().map(|(id, at)| (*id, at + 5_000 + id % 100)).collect::<Vec<_>>(),
    );
    let analysis = files.analyse(&Options::default());
    let found = pair(&analysis);
    assert_eq!((&*found.from, &*found.to), ("sender", "receiver"));
    assert_eq!((found.sent, found.matched, found.lost, found.only_at_to), (100_000, 100_000, 0, 0));
    assert_eq!((found.duplicates_from, found.duplicates_to, found.reordered), (0, 0, 0));
    assert_eq!((found.sent_per_second, found.error_ns), (1_000_000.0, Some(2)));
    let figures = latency(&analysis);
    assert_eq!((figures.min_ns, figures.max_ns, figures.mean_ns), (5_000, 5_099, 5_049.5));
    assert_eq!((figures.buckets.as_slice(), figures.negative), (&[(0, 100_000)][..], 0));
}

#[test]
fn losses_duplicates_and_disorder_are_found_exactly() {
    let _repeat = testkit::repeat!();
    for memory_bytes in [0, 256 << 20] {
        let files = Files::new();
        let mut rng = Rng::new(11);
        let count = 50_000_u64;
        let sent: Vec<(u64, u64)> = (0..count).map(|number| (id(9, number), 1_000 * number)).collect();
        // A message in 100 is lost, one in 50 comes twice, one in 40 comes up to 500 messages late.
        let (mut lost, mut twice) = (0, 0);
        let mut arrivals: Vec<(u64, u64, u64)> = Vec::new();
        for (id, at) in &sent {
            let (late, delay) = (rng.next_u64().is_multiple_of(40), 1_000 * (1 + rng.next_u64() % 500));
            if rng.next_u64().is_multiple_of(100) {
                lost += 1;
                continue;
            }
            let comes = at + 300 + if late { delay } else { 0 };
            arrivals.push((comes, *id, 0));
            if rng.next_u64().is_multiple_of(50) {
                twice += 1;
                arrivals.push((comes + 200_000, *id, 1));
            }
        }
        arrivals.sort_unstable();
        // By the definition: among first copies, how far each is behind the furthest before it.
        let mut behind = Vec::new();
        let mut furthest = 0;
        for (_, id, copy) in &arrivals {
            if *copy == 0 && *id < furthest {
                behind.push(furthest - id);
            }
            furthest = furthest.max(*id);
        }
        let strangers = [(id(8, 5), 77), (id(10, 5), 78)];
        let came: Vec<(u64, u64)> = arrivals.iter().map(|(at, id, _)| (*id, *at)).chain(strangers).collect();
        files.add(&head("out"), &[&sent[..], &[sent[7]]].concat());
        files.add(&head("in"), &came);
        let analysis = files.analyse(&Options { memory_bytes, ..Options::default() });
        let found = pair(&analysis);
        assert!(lost > 400 && twice > 800 && behind.len() > 1_000, "something is planted");
        assert_eq!((found.sent, found.lost, found.only_at_to), (count, lost, 2));
        assert_eq!((found.duplicates_from, found.duplicates_to, found.matched), (1, twice, count - lost));
        assert_eq!(
            (found.reordered, found.reordered_most_behind),
            (behind.len() as u64, behind.iter().copied().max().expect("some are late"))
        );
        let mean = behind.iter().sum::<u64>() as f64 / behind.len() as f64;
        assert!((found.reordered_mean_behind - mean).abs() < 1e-9);
        assert_eq!(found.first_lost.len(), 10);
        let named = found.first_lost.iter().all(|(_, lost)| came.iter().all(|(id, _)| id != lost));
        assert!(named && latency(&analysis).min_ns == 300);
    }
}

#[test]
fn publishers_in_one_file_are_kept_apart() {
    let files = Files::new();
    let of = |publisher: u16, from: u64| {
        at_rate(from, 1_000, 3_000).into_iter().map(move |(n, at)| (id(publisher, n), at))
    };
    for publisher in 1..4 {
        files.add(&head("out"), &of(publisher, u64::from(publisher)).collect::<Vec<_>>());
    }
    let mut all: Vec<(u64, u64)> = (1..4).flat_map(|publisher| of(publisher, u64::from(publisher))).collect();
    all.sort_unstable_by_key(|(_, at)| *at);
    files.add(&head("in"), &all.iter().map(|(id, at)| (*id, at + 40)).collect::<Vec<_>>());
    let analysis = files.analyse(&Options::default());
    assert_eq!((pair(&analysis).matched, pair(&analysis).lost, pair(&analysis).reordered), (3_000, 0, 0));
    assert_eq!(latency(&analysis).max_ns, 40);
}

#[test]
fn a_relay_with_a_known_distribution_of_delays_is_recovered() {
    let _repeat = testkit::repeat!();
    let files = Files::new();
    let mut rng = Rng::new(3);
    // Exponential with a mean of 80 us over a floor of 20 us.
    let mut delay = || {
        let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        20_000.0 - 80_000.0 * (1.0 - uniform).ln()
    };
    let sent = at_rate(0, 400_000, 10_000);
    files.add(&head("in"), &sent);
    files.add(&head("relay"), &sent.iter().map(|(id, at)| (*id, at + delay() as u64)).collect::<Vec<_>>());
    let analysis = files.analyse(&Options::default());
    let figures = latency(&analysis);
    let is_near = |found: f64, theory: f64| assert!((found / theory - 1.0).abs() < 0.02, "{found} {theory}");
    is_near(figures.mean_ns, 100_000.0);
    is_near(figures.deviation_ns, 80_000.0);
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let (_, found) =
            figures.percentiles_ns.iter().find(|(of, _)| *of == name).expect("it is one of them");
        is_near(found.expect("there are enough"), 20_000.0 - 80_000.0 * f64::ln(1.0 - share));
    }
    // The histogram, in buckets of 10 us, as the density says: those with a hundredth of all or more.
    for (begins, count) in figures.buckets.iter().filter(|(_, count)| *count >= 4_000) {
        let above = |ns: f64| (-(ns - 20_000.0) / 80_000.0).exp();
        let theory = 400_000.0 * (above(*begins as f64) - above(*begins as f64 + 10_000.0));
        let spread = 5.0 * theory.sqrt();
        assert!((*count as f64 - theory).abs() < spread, "{begins}: {count} {theory}");
    }
}

#[test]
fn a_stall_shows_as_latencies_that_fall_in_a_straight_line() {
    let files = Files::new();
    // 100,000 a second, of which those sent in the 20 ms from 100 ms on wait for their end.
    let sent = at_rate(0, 100_000, 10_000);
    let (begins, ends) = (100_000_000, 120_000_000);
    let base = sent[0].1;
    let arrives = |at: u64| if (begins..ends).contains(&(at - base)) { base + ends } else { at } + 3_000;
    files.add(&head("in"), &sent);
    files.add(&head("out"), &sent.iter().map(|(id, at)| (*id, arrives(*at))).collect::<Vec<_>>());
    let analysis = files.analyse(&Options { over_time_ns: Some(10_000_000), ..Options::default() });
    let figures = latency(&analysis);
    assert_eq!((figures.min_ns, figures.max_ns), (3_000, 20_003_000));
    // Rate times width of a bucket in each bucket up to the length of the stall: one message each.
    let [(0, quiet), stalled @ ..] = &figures.buckets[..] else { panic!("{:?}", figures.buckets) };
    assert_eq!((*quiet, stalled.len()), (98_000, 2_000));
    assert!(stalled.iter().enumerate().all(|(at, bucket)| *bucket == (10_000 * (at as i64 + 1), 1)));
    // Over time: 10 ms each, of which two are those of the stall.
    let spans = &pair(&analysis).over_time;
    assert_eq!(spans.len(), 100);
    let means: Vec<f64> = spans.iter().map(|span| span.mean_ns).collect();
    assert!(
        (means[10], means[11]) == (15_008_000.0, 5_008_000.0) && means[9] == 3_000.0 && means[12] == 3_000.0
    );
    assert_eq!((spans[10].max_ns, spans[10].min_ns, spans[10].sent), (20_003_000, 10_013_000, 1_000));
}

#[test]
fn points_are_paired_as_they_are_named_or_all_of_them() {
    let files = Files::new();
    let sent = at_rate(0, 100, 1_000);
    for (point, delay) in [("c", 900), ("a", 0), ("b", 400)] {
        files.add(&head(point), &sent.iter().map(|(id, at)| (*id, at + delay)).collect::<Vec<_>>());
    }
    let of = |options: &Options| {
        let analysis = files.analyse(options);
        let pairs = analysis.pairs.iter();
        pairs
            .map(|p| (format!("{}{}", p.from, p.to), p.latency.as_ref().map_or(0, |l| l.max_ns)))
            .collect::<Vec<_>>()
    };
    let named = |from: Option<&str>, to: Option<&str>| {
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        of(&Options { from, to, ..Options::default() })
    };
    assert_eq!(named(None, None), [("ac".to_owned(), 900)]);
    assert_eq!(named(Some("b"), None), [("bc".to_owned(), 500)]);
    assert_eq!(named(None, Some("b")), [("ab".to_owned(), 400)]);
    assert_eq!(named(Some("c"), Some("b")), [("cb".to_owned(), -500)]);
    let all = of(&Options { is_all: true, ..Options::default() });
    assert_eq!(all, [("ab".to_owned(), 400), ("ac".to_owned(), 900), ("bc".to_owned(), 500)]);
}

#[test]
fn hosts_need_clocks_that_are_kept_or_a_bound_by_hand() {
    let (sent, files) = (at_rate(0, 1_000, 1_000), Files::new());
    files.add(&head("in"), &sent);
    let mut other = head("out");
    other.boot_id = "another".to_owned();
    files.add(&other, &sent.iter().map(|(id, at)| (*id, at + 7_000)).collect::<Vec<_>>());
    let analysis = files.analyse(&Options::default());
    let found = pair(&analysis);
    assert!(found.latency.is_none() && found.error_ns.is_none() && found.matched == 1_000);
    assert!(found.clock.contains("not kept by NTP or PTP; --clock-error NS"), "{}", found.clock);
    let text = analysis.to_string();
    assert!(text.contains("latency          none: the points are on different hosts"), "{text}");
    let by_hand = files.analyse(&Options { clock_error_ns: Some(1_500), ..Options::default() });
    assert_eq!(latency(&by_hand).max_ns, 7_000);
    // What was said, and the readings of both hosts: 10 ns each, and 1 ns of the clock itself.
    assert_eq!(pair(&by_hand).error_ns, Some(1_500 + 2 * 11));

    let kept = Files::new();
    for (point, boot, delay) in [("in", "one", 0), ("out", "two", 7_000)] {
        let mut head = head(point);
        head.boot_id = boot.to_owned();
        for moment in [&mut head.start, &mut head.end] {
            moment.discipline.is_synchronised = true;
            moment.discipline.maximum_error_us = 3;
        }
        kept.add(&head, &sent.iter().map(|(id, at)| (*id, at + delay)).collect::<Vec<_>>());
    }
    let analysis = kept.analyse(&Options::default());
    assert_eq!((latency(&analysis).max_ns, pair(&analysis).error_ns), (7_000, Some(2 * 3_011)));
}

#[test]
fn files_of_one_tsc_share_a_line_and_contradictions_are_told() {
    // 3 ticks a nanosecond; the second file's readings are 25 ns late, which does not show in the latencies.
    let tsc = |point: &str, off: u64| {
        let mut head = head(point);
        head.clock = Clock::Tsc;
        head.clock_sources = ["tsc", "tsc"].map(str::to_owned);
        for moment in [&mut head.start, &mut head.end] {
            moment.ticks = 3 * moment.monotonic_ns;
            moment.monotonic_ns += off;
        }
        (head.start.uncertainty_ns, head.end.uncertainty_ns) = (30, 30);
        head
    };
    let sent: Vec<(u64, u64)> = at_rate(0, 1_000, 1_000).into_iter().map(|(id, at)| (id, 3 * at)).collect();
    let came: Vec<(u64, u64)> = sent.iter().map(|(id, at)| (*id, at + 3 * 4_000)).collect();
    let files = Files::new();
    files.add(&tsc("in", 0), &sent);
    files.add(&tsc("out", 25), &came);
    let analysis = files.analyse(&Options::default());
    let figures = latency(&analysis);
    assert!((figures.mean_ns - 4_000.0).abs() <= 1.0 && figures.max_ns - figures.min_ns <= 1, "{figures:?}");
    assert!(pair(&analysis).clock.contains("one TSC of 3.0"), "{}", pair(&analysis).clock);

    let files = Files::new();
    files.add(&tsc("in", 0), &sent);
    files.add(&tsc("out", 900), &came);
    let analysis = files.analyse(&Options::default());
    assert!(pair(&analysis).latency.is_none() && pair(&analysis).clock.contains("contradict each other"));
    let mut left = tsc("out", 0);
    left.clock_sources[1] = "hpet".to_owned();
    files.add(&left, &came);
    assert!(files.analyse(&Options::default()).notes[0].contains("tsc at its start, hpet at its end"));
}

#[test]
fn what_cannot_be_analysed_is_said() {
    let files = Files::new();
    let refused = |files: &Files, options: &Options| match analyse(&files.paths(), options, |_| ()) {
        Err(AnalysisError::Input(text)) => text,
        other => panic!("{other:?}"),
    };
    files.add(&head("in"), &at_rate(0, 10, 1_000));
    assert!(refused(&files, &Options::default()).contains("one point alone, in"));
    let gone = analyse(&[PathBuf::from("/nowhere")], &Options::default(), |_| ()).expect_err("not there");
    assert!(gone.to_string().starts_with("/nowhere: "), "{gone}");
    files.add(&head("out"), &at_rate(0, 10, 1_000));
    let named =
        |name: &str| Options { from: Some(name.to_owned()), to: Some("in".to_owned()), ..Options::default() };
    assert!(refused(&files, &named("x")).contains("--from x: the files have the points in, out"));
    assert!(refused(&files, &named("in")).contains("--from and --to are both in"));
    let fine = Options { over_time_ns: Some(1), bucket_ns: 1, ..Options::default() };
    files.add(&head("out"), &at_rate(0, 10, 100_000));
    files.add(&head("in"), &at_rate(0, 10, 100_000));
    assert!(refused(&files, &fine).contains("spans of time; at most 100000"));
    assert!(
        refused(&files, &Options { bucket_ns: 0, ..Options::default() }).contains("a nanosecond at least")
    );
    let bytes = std::fs::read(&files.paths()[0]).expect("written");
    std::fs::write(&files.paths()[0], &bytes[..bytes.len() - 1]).expect("a writable place");
    assert!(refused(&files, &Options::default()).contains("with the 10 records of its head it would have"));
}

#[test]
fn a_full_recorder_and_a_stream_of_one_end_alone_are_noted() {
    let files = Files::new();
    let (mut out, mut into) = (head("out"), head("in"));
    (out.lost, into.stream) = (12, "other".to_owned());
    files.add(&out, &at_rate(0, 10, 1_000));
    files.add(&into, &at_rate(0, 10, 1_000));
    let analysis = files.analyse(&Options { from: Some("out".to_owned()), ..Options::default() });
    assert!(analysis.notes[0].contains("12 messages were not taken down"), "{:?}", analysis.notes);
    assert!(analysis.notes.iter().any(|note| note.contains("stream \"other\" is at in and not at out")));
    assert_eq!((pair(&analysis).lost, pair(&analysis).only_at_to), (10, 10));
    assert!(analysis.to_string().contains("no message is at both ends"));
}
