//! The consumer against the provider, in one process over loopback. Counts are exact on both sides.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use clap::Parser;
use tickcast_testtools::TestToolError;
use tickcast_testtools::testclient::{self, ClientOutcome, TestClientArgs};
use tickcast_testtools::testserver::{ServerCounts, TestServer, TestServerArgs};

#[derive(Parser)]
enum Program {
    Server(TestServerArgs),
    Client(TestClientArgs),
}

fn server_args(words: &[&str]) -> TestServerArgs {
    match Program::parse_from(["p", "server", "--port", "0"].iter().chain(words)) {
        Program::Server(args) => args,
        Program::Client(_) => unreachable!("the word is server"),
    }
}

fn client_args(words: &[&str]) -> TestClientArgs {
    match Program::parse_from(["p", "client"].iter().chain(words)) {
        Program::Client(args) => args,
        Program::Server(_) => unreachable!("the word is client"),
    }
}

/// A provider that serves in a thread of its own.
struct Serving {
    host: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<ServerCounts, TestToolError>>,
}

impl Serving {
    fn new(words: &[&str]) -> Serving {
        let server = TestServer::new(&server_args(words)).expect("a free port");
        let port = server.local_address().expect("it listens").port();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&ended, &mut std::io::sink()));
        Serving { host: format!("127.0.0.1:{port}"), stop, thread }
    }

    /// A consumer of it, to its end.
    fn consume(&self, words: &[&str]) -> (Result<ClientOutcome, TestToolError>, String) {
        let mut out = Vec::new();
        let args = client_args(&[&["--host", &self.host], words].concat());
        let result = testclient::run(&args, &AtomicBool::new(false), &mut out);
        (result, String::from_utf8(out).expect("text"))
    }

    fn end(self) -> ServerCounts {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("it does not panic").expect("it ends well")
    }
}

/// What both ends have counted of a run that went well.
fn run(server: &[&str], client: &[&str]) -> (ServerCounts, ClientOutcome, String) {
    let serving = Serving::new(server);
    let (outcome, said) = serving.consume(client);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{said}"));
    (serving.end(), outcome, said)
}

fn failure(result: Result<impl Debug, TestToolError>) -> String {
    result.expect_err("it must fail").to_string()
}

#[test]
fn every_image_and_every_update_comes_and_each_stamp_is_read() {
    let server = ["--updates", "5000", "--latency-rate", "all"];
    let (served, outcome, said) = run(&server, &["--items", "100", "--updates", "5000"]);
    let counts = &outcome.counts;
    assert_eq!((served.requests, served.images, served.updates, served.stamped), (100, 100, 5000, 5000));
    assert_eq!((counts.requests, counts.images, counts.updates()), (100, 100, 5000));
    assert_eq!(counts.overall_latency().moments.count, 5000);
    // Images have 35 fields, updates 23 and their stamp.
    assert_eq!((counts.fields, counts.unreadable, counts.unknown), (100 * 35 + 5000 * 24, 0, 0));
    assert_eq!((counts.statuses, counts.closed, counts.stamps_unusable, served.unusable), (0, 0, 0, 0));
    for line in ["--- OVERALL SUMMARY ---", "  Refreshes received: 100", "  Updates received: 5000"] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
}

#[test]
fn the_rate_is_that_of_each_connection_and_some_items_are_common_to_all() {
    let server = ["--updates", "2000", "--nanoseconds", "--latency-rate", "all"];
    let client =
        ["--items", "90", "--common-items", "30", "--connections", "3", "--updates", "6000", "--nanoseconds"];
    let (served, outcome, said) = run(&server, &client);
    assert_eq!((served.connections, served.requests, served.updates), (3, 3 * 30 + 60, 6000));
    let each: Vec<_> = outcome.connections.iter().map(|counts| (counts.images, counts.updates())).collect();
    assert_eq!(each, [(50, 2000); 3]);
    assert_eq!(outcome.counts.overall_latency().moments.count, 6000);
    assert!(said.contains("--- CLIENT 3 SUMMARY ---"), "{said}");
}

#[test]
fn posts_come_back_and_are_acknowledged_and_generic_messages_are_answered() {
    let mixes = ["--post-rate", "2000", "--post-latency-rate", "all", "--post-acks", "--posts", "300"];
    let generics = ["--generic-rate", "1000", "--generic-latency-rate", "all", "--generics", "200"];
    let client = [&["--items", "10", "--updates", "100"][..], &mixes, &generics].concat();
    let (served, outcome, _) = run(&["--updates", "100"], &client);
    let counts = &outcome.counts;
    assert_eq!(
        (served.posts, served.posts_reflected, served.generics, served.generics_answered),
        (300, 300, 200, 200)
    );
    assert_eq!((counts.posts, counts.posts_returned, counts.posts_refused), (300, 300, 0));
    assert_eq!((counts.generics, counts.generics_returned), (200, 200));
    assert_eq!((counts.post_latency.moments.count, counts.generic_latency.moments.count), (300, 200));
    assert_eq!((served.updates, counts.updates()), (100, 100 + 300));
    assert_eq!(served.generic_latency.moments.count, 200);
    // The acks of the last posts may be under way when the posts have come back.
    assert!(counts.posts_acked <= 300);
}

#[test]
fn a_batch_with_a_view_has_the_fields_of_the_view() {
    let client = ["--items", "50", "--batch", "20", "--view", "22,25,3902", "--updates", "1000"];
    let (served, outcome, _) = run(&["--updates", "1000", "--latency-rate", "all"], &client);
    assert_eq!((served.requests, served.images, served.stamped), (50, 50, 1000));
    assert_eq!((outcome.counts.images, outcome.counts.fields), (50, (50 + 1000) * 3));
}

#[test]
fn without_the_stamp_in_the_view_none_is_sent() {
    let client = ["--items", "5", "--view", "22", "--updates", "100"];
    let (served, outcome, _) = run(&["--updates", "100", "--latency-rate", "all"], &client);
    assert_eq!((served.stamped, outcome.counts.overall_latency().moments.count), (0, 0));
    assert_eq!(outcome.counts.fields, 5 + 100);
}

#[test]
fn a_share_of_the_items_are_snapshots_and_with_all_of_them_the_run_ends_with_the_last_image() {
    let (served, outcome, _) =
        run(&["--updates", "500"], &["--items", "40", "--snapshots", "25", "--updates", "500"]);
    assert_eq!((served.requests, served.images, outcome.counts.images), (40, 40, 40));
    assert_eq!((outcome.counts.closed, outcome.counts.updates()), (0, 500));
    let (served, outcome, said) = run(&[], &["--items", "40", "--snapshots", "100"]);
    assert_eq!((served.images, served.updates, outcome.counts.images), (40, 0, 40));
    assert!(said.contains("  Image retrieval time (sec): "), "{said}");
}

#[test]
fn what_is_decoded_is_a_matter_of_choice() {
    for (decode, stamps) in [("stamps", 200), ("none", 0)] {
        let client = ["--items", "4", "--updates", "200", "--decode", decode, "--keep-images"];
        let (_, outcome, _) = run(&["--updates", "200", "--latency-rate", "all"], &client);
        assert_eq!((outcome.counts.fields, outcome.counts.overall_latency().moments.count), (0, stamps));
    }
}

#[test]
fn a_stream_that_is_closed_ends_the_run_as_failed_and_says_which() {
    let serving = Serving::new(&["--open-limit", "3"]);
    let (result, said) = serving.consume(&["--items", "5", "--steady-state-time", "60"]);
    let why = failure(result);
    assert!(why.contains("item TEST.3: the stream was closed: ") && why.contains("--open-limit"), "{why}");
    assert!(said.contains("ERROR: TEST FAILED: connection 1: item TEST.3"), "{said}");
    assert!(serving.end().refused >= 1);
}

#[test]
fn a_run_that_is_to_go_on_does_so_without_the_items_that_are_closed() {
    let serving = Serving::new(&["--open-limit", "3", "--updates", "300"]);
    let (result, said) = serving.consume(&["--items", "5", "--keep-going", "--updates", "300"]);
    let counts = result.unwrap_or_else(|error| panic!("{error}\n{said}")).counts;
    assert_eq!((counts.images, counts.closed, counts.updates()), (3, 2, 300));
    serving.end();
}

#[test]
fn what_does_not_come_in_time_is_a_failure_that_says_what() {
    let serving = Serving::new(&["--updates", "10"]);
    let (result, _) = serving.consume(&["--items", "2", "--updates", "11", "--steady-state-time", "0.2"]);
    let why = failure(result);
    assert!(why.contains(" of 11 updates (--updates)"), "{why}");
    let (result, _) = serving.consume(&["--items", "2", "--service", "OTHER", "--startup-time", "20"]);
    let why = failure(result);
    assert!(why.contains("0 of 2 images") && why.contains("DIRECT_FEED, not OTHER"), "{why}");
    serving.end();
    let args = client_args(&["--host", "127.0.0.1:1", "--items", "1", "--startup-time", "3"]);
    let why = failure(testclient::run(&args, &AtomicBool::new(false), &mut std::io::sink()));
    assert!(why.contains("127.0.0.1:1"), "{why}");
}

#[test]
fn a_server_that_dies_ends_the_run_as_failed() {
    let serving = Serving::new(&[]);
    let args = client_args(&["--host", &serving.host, "--items", "10", "--steady-state-time", "600"]);
    let (said, heard) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        testclient::run(&args, &AtomicBool::new(false), &mut ToChannel(said)).map(|_| ())
    });
    while !heard.recv().expect("it runs").contains("all images have come") {}
    serving.end();
    let why = failure(testkit::watchdog::joined(client));
    assert!(why.contains("connection 1: "), "{why}");
}

/// Hands on what is written.
struct ToChannel(std::sync::mpsc::Sender<String>);

impl std::io::Write for ToChannel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Who listens may have heard enough.
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_latency_is_written_to_the_file() {
    let directory = testkit::Folder::new();
    let file = directory.join("latencies");
    let path = file.to_str().expect("text");
    let client =
        ["--items", "10", "--connections", "2", "--updates", "800", "--nanoseconds", "--latency-file", path];
    run(&["--updates", "400", "--latency-rate", "all", "--nanoseconds"], &client);
    for name in [path.to_owned(), format!("{path}-2")] {
        let text = std::fs::read_to_string(name).expect("it was written");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("send,receive,difference"));
        let rows: Vec<Vec<u64>> = lines
            .map(|line| line.split(',').map(|number| number.parse().expect("a number")).collect())
            .collect();
        assert_eq!(rows.len(), 400);
        assert!(rows.iter().all(|row| row[1] - row[0] == row[2]));
    }
}

#[test]
fn reports_are_json_where_that_is_wanted() {
    let serving = Serving::new(&["--updates", "100"]);
    let (_, said) = serving.consume(&["--items", "5", "--updates", "100", "--json"]);
    serving.end();
    let events: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let summary = events.last().expect("a summary");
    assert_eq!((&summary["ev"], &summary["status"]), (&"summary".into(), &"OK".into()));
    assert_eq!((&summary["counts"]["updates"], &summary["counts"]["images"]), (&100.into(), &5.into()));
}

#[test]
fn values_that_do_not_go_together_are_refused_and_named() {
    let wrong = |words: &[&str]| failure(TestServer::new(&server_args(words)).map(|_| ()));
    assert_eq!(wrong(&["--latency-rate", "2000"]), "--latency-rate 2000 is above --tick-rate 1000");
    assert_eq!(
        wrong(&["--latency-rate", "5", "--update-rate", "4"]),
        "--latency-rate 5 is above --update-rate 4"
    );
    assert!(wrong(&["--msg-file", "/nonexistent.xml"]).starts_with("/nonexistent.xml: cannot be read"));
    let wrong = |words: &[&str]| {
        failure(testclient::run(&client_args(words), &AtomicBool::new(false), &mut std::io::sink()))
    };
    assert_eq!(wrong(&[]), "--items or --item-file must be given");
    assert_eq!(wrong(&["--items", "2", "--connections", "3"]), "2 items are fewer than --connections 3");
    assert_eq!(wrong(&["--items", "2", "--common-items", "3"]), "--common-items 3: there are 2 items");
    assert!(wrong(&["--items", "2", "--snapshots", "100", "--updates", "1"]).contains("--snapshots 100"));
}
