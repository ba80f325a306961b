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
        for name in ["publish", "subscribe", "request", "respond"] {
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
