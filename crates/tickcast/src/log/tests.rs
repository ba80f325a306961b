use std::fs;
use std::path::PathBuf;

use testkit::Folder;

use super::queue::LINE_MAX_BYTES;
use super::*;

/// A file of this test's own, in a folder that is gone when it ends.
struct Scratch(PathBuf, #[expect(dead_code, reason = "it is kept for its end")] Folder);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder = Folder::new();
        Scratch(folder.join(name), folder)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).expect("it was written")
    }
}

struct Nothing;

impl Reporter for Nothing {
    fn lost(&mut self, _: u64) {}
    fn tick(&mut self, _: Instant, _: bool) {}
}

fn queue(limit_bytes: usize) -> (Arc<Queue>, Arc<Counters>) {
    let counters = Arc::<Counters>::default();
    (Arc::new(Queue::new(limit_bytes, Arc::clone(&counters))), counters)
}

#[test]
fn a_line_without_room_is_lost_and_counted_and_the_others_are_written() {
    let (queue, counters) = queue(1_000);
    for _ in 0..100 {
        queue.push(b"0123456789\n");
    }
    let kept = 1_000 / (11 + 64);
    assert_eq!(counters.lines_lost.get(), 100 - kept);
    let file = Scratch::new("full");
    queue.start(Target::open(Some(&file.0)).expect("writable"), Nothing).expect("a thread");
    queue.close(Duration::from_secs(60));
    assert_eq!(file.text(), "0123456789\n".repeat(kept as usize));
    assert_eq!(counters.lines_written.get(), kept);
    queue.push(b"too late\n");
    assert_eq!(counters.lines_lost.get(), 101 - kept);
}

#[test]
fn lines_that_cannot_be_written_are_lost_and_counted() {
    let (queue, counters) = queue(1_000_000);
    let full = PathBuf::from("/dev/full");
    queue.start(Target::open(Some(&full)).expect("it can be opened"), Nothing).expect("a thread");
    queue.push(b"a\n");
    queue.push(b"b\n");
    queue.close(Duration::from_secs(60));
    assert_eq!((counters.lines_lost.get(), counters.lines_written.get()), (2, 0));
}

#[test]
fn an_event_is_one_line_of_bounded_length() {
    let (queue, _) = queue(1_000_000);
    let file = Scratch::new("lines");
    queue.push(b"user \"a\nb\r\"\n");
    queue.push("\u{e9}".repeat(LINE_MAX_BYTES).as_bytes());
    queue.start(Target::open(Some(&file.0)).expect("writable"), Nothing).expect("a thread");
    queue.close(Duration::from_secs(60));
    let text = file.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "user \"a\\nb\\r\""));
    assert!(lines[1].ends_with("\u{e9} ...") && lines[1].len() < LINE_MAX_BYTES + 10, "{}", lines[1].len());
}

#[test]
fn a_file_that_is_opened_anew_gets_what_comes_later() {
    let (queue, _) = queue(1_000_000);
    let (before, after) = (Scratch::new("before"), Scratch::new("after"));
    queue.start(Target::open(Some(&before.0)).expect("writable"), Nothing).expect("a thread");
    queue.push(b"first\n");
    queue.flush(Duration::from_secs(60));
    queue.reopen(Some(after.0.clone()), Duration::from_secs(60)).expect("writable");
    let refused = queue.reopen(Some("/nonexistent/log".into()), Duration::from_secs(60));
    assert!(refused.expect_err("no such folder").to_string().contains("/nonexistent/log"));
    queue.push(b"second\n");
    queue.close(Duration::from_secs(60));
    assert_eq!((before.text(), after.text()), ("first\n".to_owned(), "second\n".to_owned()));
}

#[test]
fn one_place_logs_so_many_lines_in_an_interval_and_the_rest_is_reported() {
    let (queue, counters) = queue(1_000_000);
    let interval = Duration::from_secs(3600);
    let limit = Arc::new(Limit::new(3, interval, Arc::clone(&counters)));
    let subscriber = Spans::default()
        .with(LimitLayer(Arc::clone(&limit)))
        .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Lines(Arc::clone(&queue))));
    let file = Scratch::new("repeats");
    tracing::subscriber::with_default(subscriber, || {
        for peer in 0..10 {
            warn!(peer, "refused");
        }
        warn!("another place");
        let now = Instant::now();
        assert!(limit.take_suppressed(now, false).is_empty(), "the interval is not over");
        Reports(Arc::clone(&limit)).tick(now + interval, false);
        assert!(limit.take_suppressed(now + interval, true).is_empty(), "it is said once");
    });
    queue.start(Target::open(Some(&file.0)).expect("writable"), Nothing).expect("a thread");
    queue.close(Duration::from_secs(60));
    let text = file.text();
    assert_eq!(text.matches("refused peer=").count(), 3, "{text}");
    assert!(text.contains("WARN tickcast::log: 7 more suppressed: refused"), "{text}");
    assert!(text.contains("another place"), "{text}");
    assert_eq!(counters.lines_suppressed.get(), 7);
}

#[test]
fn the_variable_counts_more_than_the_configuration_unless_it_is_not_understood() {
    let of = |asked, level| {
        let (directives, error) = choose(asked, level, "warn");
        (directives, error.is_some())
    };
    assert_eq!(of(None, None), ("warn".to_owned(), false));
    assert_eq!(of(None, Some("debug")), ("debug".to_owned(), false));
    assert_eq!(of(Some("p2ps=debug"), Some("info")), ("p2ps=debug".to_owned(), false));
    for asked in ["p2ps=loud", "loud", ""] {
        assert_eq!(of(Some(asked), Some("info")), ("info".to_owned(), true), "{asked}");
    }
}
