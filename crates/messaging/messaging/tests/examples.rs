//! The examples, run as processes against each other.

#[path = "common/examples.rs"]
mod processes;

use std::path::PathBuf;
use std::process::Child;

use processes::{assert_subscribed, end, limited, settings};

/// Where cargo puts examples: beside the directory of the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let place = test.ancestors().nth(2).expect("tests are two directories deep").join("examples").join(name);
    assert!(place.exists(), "no {}: cargo test builds it", place.display());
    place
}

fn start(name: &str, words: &[&str], test: u8) -> Child {
    let mut command = limited();
    command.arg(example(name)).args(words).args(settings([89, 90], test));
    command.spawn().expect("the program is there")
}

#[test]
fn the_subscriber_prints_what_the_publisher_sends() {
    let publish = || start("publish", &["example", "20"], 1);
    assert_subscribed(|| start("subscribe", &["example"], 1), publish);
}

#[test]
fn the_responder_answers_who_asks() {
    let responder = start("respond", &["question"], 2);
    assert_eq!(end(start("request", &["question", "what time is it"], 2)), "what time is it\n");
    assert_eq!(end(start("request", &["question", "stop"], 2)), "stop\n");
    end(responder);
}

#[test]
fn a_wrong_setting_is_told_with_its_name() {
    let failed = start("publish", &["x", "1", "tll=4"], 3).wait_with_output().expect("it was started");
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("ttl"));
}
