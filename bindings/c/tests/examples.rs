//! The examples in C, compiled and run beside those in Rust.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo puts this library: with the tests, or above them.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let found = test.ancestors().skip(1).map(|dir| dir.join("libtickcast.so")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no libtickcast.so above {}", test.display()))
}

/// Compiles an example, each once in a run of the tests.
fn example(name: &str) -> PathBuf {
    static DONE: OnceLock<()> = OnceLock::new();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    DONE.get_or_init(|| {
        let library = library();
        let place = library.parent().expect("it is in a directory").display().to_string();
        for name in ["publish", "subscribe", "request", "respond"] {
            let result = Command::new("cc")
                .args(["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"])
                .args(["-I", &format!("{DIRECTORY}/include"), &format!("{DIRECTORY}/examples/{name}.c")])
                .args(["-o", &directory.join(name).display().to_string()])
                .args(["-L", &place, "-ltickcast", &format!("-Wl,-rpath,{place}")])
                .output()
                .expect("a C compiler");
            assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        }
    });
    directory.join(name)
}

/// What keeps a test's traffic apart from others.
fn settings(test: u8) -> Vec<String> {
    let port = 20_000 + std::process::id() % 10_000;
    vec![
        format!("resolver_multicast_address=239.255.95.{test}"),
        format!("resolver_multicast_port={port}"),
        format!("transport_lbtrm_multicast_address=239.255.96.{test}"),
        format!("transport_lbtrm_destination_port={port}"),
        "transport_lbtrm_source_port_low=30000".to_owned(),
        "transport_lbtrm_source_port_high=40000".to_owned(),
        "request_tcp_port_low=30000".to_owned(),
        "request_tcp_port_high=40000".to_owned(),
    ]
}

fn start(program: &Path, words: &[&str], test: u8) -> Child {
    // Whatever hangs is ended.
    Command::new("timeout")
        .arg("120")
        .arg(program)
        .args(words)
        .args(settings(test))
        // Cargo's would come before the place that the example was linked for.
        .env_remove("LD_LIBRARY_PATH")
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

/// What a subscriber prints, while publishers of twenty messages come and go. Each starts when the machine lets it: a
/// subscriber may miss a publisher altogether, or hear nothing of it but its end.
fn subscribed(program: &Path, words: &[&str], topic: &str, test: u8) -> String {
    for _ in 0..10 {
        let mut subscriber = start(program, words, test);
        while subscriber.try_wait().expect("it was started").is_none() {
            end(start(&example("publish"), &[topic, "20"], test));
        }
        let text = end(subscriber);
        if !text.is_empty() {
            return text;
        }
    }
    panic!("nothing came");
}

/// What a subscriber that came late may have missed is the beginning.
fn assert_tail_of_twenty(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let expected: Vec<String> = (20 - lines.len()..20).map(|i| format!("{i} message {i}")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn publish_and_subscribe_in_c() {
    assert_tail_of_twenty(&subscribed(&example("subscribe"), &["c.example"], "c.example", 1));
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
    assert_tail_of_twenty(&subscribed(valgrind, &words, "c.valgrind", 3));
}
