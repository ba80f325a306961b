//! The examples, run as processes against each other.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Where cargo puts examples: beside the directory of the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let place = test.ancestors().nth(2).expect("tests are two directories deep").join("examples").join(name);
    assert!(place.exists(), "no {}: cargo test builds it", place.display());
    place
}

/// What keeps a test's traffic apart from others.
fn settings(test: u8) -> Vec<String> {
    let port = 20_000 + std::process::id() % 10_000;
    vec![
        format!("resolver_multicast_address=239.255.89.{test}"),
        format!("resolver_multicast_port={port}"),
        format!("transport_lbtrm_multicast_address=239.255.90.{test}"),
        format!("transport_lbtrm_destination_port={port}"),
        "transport_lbtrm_source_port_low=30000".to_owned(),
        "transport_lbtrm_source_port_high=40000".to_owned(),
        "request_tcp_port_low=30000".to_owned(),
        "request_tcp_port_high=40000".to_owned(),
    ]
}

fn start(name: &str, words: &[&str], test: u8) -> Child {
    // Whatever hangs is ended.
    Command::new("timeout")
        .arg("120")
        .arg(example(name))
        .args(words)
        .args(settings(test))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is there")
}

fn end(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it was started");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{status}: {text}{}", String::from_utf8_lossy(&stderr));
    text
}

#[test]
fn the_subscriber_prints_what_the_publisher_sends() {
    let mut text = String::new();
    // Each starts when the machine lets it: a subscriber may miss a publisher altogether, or hear nothing but its end.
    for _ in 0..10 {
        let mut subscriber = start("subscribe", &["example"], 1);
        while subscriber.try_wait().expect("it was started").is_none() {
            end(start("publish", &["example", "20"], 1));
        }
        text = end(subscriber);
        if !text.is_empty() {
            break;
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    // One that comes late misses the beginning.
    assert!(!lines.is_empty(), "nothing came");
    let expected: Vec<String> = (20 - lines.len()..20).map(|i| format!("{i} message {i}")).collect();
    assert_eq!(lines, expected);
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
