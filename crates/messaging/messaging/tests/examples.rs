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

/// A publisher gives up waiting after five seconds, which a busy machine may need to start a subscriber; it says so then,
/// and that run does not count.
#[test]
fn a_publisher_that_waits_for_its_receiver_loses_no_message_to_it() {
    let publish = || start("publish", &["first", "2"], 4);
    let mut runs = 0;
    for _ in 0..30 {
        let mut subscriber = start("subscribe", &["first"], 4);
        let said = publish().wait_with_output().expect("it was started");
        assert!(said.status.success());
        if said.stderr.is_empty() {
            assert_eq!(end(subscriber), "0 message 0\n1 message 1\n");
            runs += 1;
            continue;
        }
        while subscriber.try_wait().expect("it was started").is_none() {
            end(publish());
        }
    }
    assert!(runs > 0, "nobody was ever waited for");
}
