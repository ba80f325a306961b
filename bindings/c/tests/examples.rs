//! The examples in C, compiled and run beside those in Rust.

#[path = "../../../crates/messaging/messaging/tests/common/examples.rs"]
mod processes;

mod common;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;

use common::compile;
use processes::{assert_subscribed, end, limited, settings};

/// Compiles an example, each once in a run of the tests.
fn example(name: &str) -> PathBuf {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        for name in ["publish", "subscribe", "request", "respond", "observe"] {
            compile("examples", name);
        }
    });
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn start(program: &Path, words: &[&str], test: u8) -> Child {
    let mut command = limited();
    // Cargo's would come before the place that the example was linked for.
    command.arg(program).args(words).args(settings([95, 96], test)).env_remove("LD_LIBRARY_PATH");
    command.spawn().expect("the program is there")
}

fn publish(topic: &str, test: u8) -> Child {
    start(&example("publish"), &[topic, "20"], test)
}

#[test]
fn publish_and_subscribe_in_c() {
    let subscribe = || start(&example("subscribe"), &["c.example"], 1);
    assert_subscribed(subscribe, || publish("c.example", 1));
}

#[test]
fn request_and_response_in_c() {
    let responder = start(&example("respond"), &["c.question"], 2);
    assert_eq!(end(start(&example("request"), &["c.question", "what time is it"], 2)), "what time is it\n");
    assert_eq!(end(start(&example("request"), &["c.question", "stop"], 2)), "stop\n");
    end(responder);
}

#[test]
fn a_subscriber_in_c_leaves_no_memory_behind_and_reads_none_that_is_not_its_own() {
    let valgrind = Path::new("/usr/bin/valgrind");
    if !valgrind.exists() {
        eprintln!("skipped: no valgrind");
        return;
    }
    let subscriber = example("subscribe").display().to_string();
    let words = ["--quiet", "--error-exitcode=9", "--leak-check=full", &subscriber, "c.valgrind"];
    assert_subscribed(|| start(valgrind, &words, 3), || publish("c.valgrind", 3));
}

#[test]
fn observations_in_c_are_files_that_can_be_read() {
    let folder = testkit::Folder::new();
    let paths = ["sender", "receiver"].map(|point| folder.join(point));
    let program = example("observe");
    let words = paths.each_ref().map(|path| path.display().to_string());
    let out = end(limited_without_settings(&program, &words));
    assert_eq!(out, "99900 of 1000000 messages, 0 without room\n");
    let ids = paths.map(|path| {
        let mut reader = observation::Reader::open(&path).expect("as it was written");
        assert_eq!(reader.head().point, path.file_name().expect("it has one").to_string_lossy());
        let mut ids = Vec::new();
        while let Some(record) = reader.next().expect("the sum is right") {
            ids.push(record.id);
        }
        ids
    });
    let sent = (0..100_000).map(|number| observation::id(1, number));
    assert!(
        ids[0].iter().copied().eq(sent.clone())
            && ids[1].iter().copied().eq(sent.filter(|id| (id & 0xffff_ffff) % 1000 != 999))
    );
}

fn limited_without_settings(program: &Path, words: &[String]) -> Child {
    let mut command = limited();
    command.arg(program).args(words).env_remove("LD_LIBRARY_PATH");
    command.spawn().expect("the program is there")
}
