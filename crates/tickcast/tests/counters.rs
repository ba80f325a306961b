//! `tickcast counters` reads what another process publishes: here, this one.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use counters::Registry;
use counters::table::LbtrmSource;
use net::counters_file::{CountersFile, CountersFileOptions};
use testkit::Folder;

fn tickcast_counters(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickcast"))
        .arg("counters")
        .args(words)
        .arg("--directory")
        .arg(directory)
        .output()
        .expect("the program was built")
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn another_process_is_listed_and_its_counters_are_shown() {
    let place = Folder::in_memory();
    let pid = std::process::id().to_string();
    let none = tickcast_counters(&place, &[&pid]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let (registry, source) = (Registry::default(), LbtrmSource::default());
    source.rxs_sent.add(12);
    registry.register(&[("session", "feed")], Arc::new(source));
    let (directory, program) = (place.to_path_buf(), "this test".to_owned());
    let options = CountersFileOptions { directory, interval: Duration::from_secs(1), program };
    let published = CountersFile::publish(registry, &options).expect("a directory of our own");
    let listed = text(tickcast_counters(&place, &[]));
    assert!(listed.contains(&pid) && listed.contains("this test"), "{listed}");
    let shown = text(tickcast_counters(&place, &[&pid, "session=feed"]));
    assert!(shown.contains("lbtrm_source_rxs_sent_total") && shown.contains(" 12 "), "{shown}");
    let line: serde_json::Value =
        serde_json::from_str(&text(tickcast_counters(&place, &["--json", &pid]))).expect("JSON");
    assert_eq!(line["sets"][0]["counters"]["lbtrm_source_rxs_sent_total"], 12);
    let odd = place.join("tickcast-counters-1-1-1");
    std::os::unix::fs::symlink("nowhere", &odd).expect("it is ours");
    let listed = tickcast_counters(&place, &[]);
    let told = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(
        told.contains("cannot read counters in ") && told.contains("tickcast-counters-1-1-1: "),
        "{told}"
    );
    assert!(text(listed).contains("this test"), "the others are listed all the same");
    std::fs::remove_file(&odd).expect("it is there");
    drop(published);
    assert_eq!(text(tickcast_counters(&place, &["--json"])), "");
    assert_eq!(tickcast_counters(&place, &["x"]).status.code(), Some(2), "no process id");
}

#[test]
fn who_publishes_says_that_its_counters_will_not_be_found() {
    let settings =
        ["messaging.counters_directory=/nowhere", "messaging.interface=127.0.0.1", "messaging.ttl=0"];
    let ran = Command::new(env!("CARGO_BIN_EXE_tickcast"))
        .args(["pub", "px", "--text", "x", "--count", "1", "--delay", "0", "--linger", "0"])
        .args(settings.iter().flat_map(|set| ["--set", set]))
        .output()
        .expect("the program was built");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    assert!(
        told.contains("`tickcast counters` will not find this process: cannot publish counters in /nowhere"),
        "{told}"
    );
}

/// A program that is ended with the test.
struct Program(Child);

impl Program {
    /// `tickcast` with a topic and what keeps it apart from other tests.
    fn topic(directory: &Path, words: &[&str]) -> Program {
        let id = std::process::id();
        let settings = [
            format!("counters_directory={}", directory.display()),
            "counters_interval_ms=20".to_owned(),
            "interface=127.0.0.1".to_owned(),
            "ttl=0".to_owned(),
            "transport=\"tcp\"".to_owned(),
            format!("resolver.multicast_address=239.244.{}.{}", id >> 8 & 0xff, id & 0xff),
        ];
        let child = Command::new(env!("CARGO_BIN_EXE_tickcast"))
            .args(words)
            .args(settings.iter().flat_map(|set| ["--set".to_owned(), format!("messaging.{set}")]))
            .stdout(Stdio::null())
            .spawn()
            .expect("the program was built");
        Program(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn signal(&self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.pid()]).status().expect("kill is there");
        assert!(done.success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is shown of a process by name, once it has a row of `kind`.
fn rows(directory: &Path, pid: &str, kind: &str) -> Vec<serde_json::Value> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {kind} is shown");
        let output = tickcast_counters(directory, &[pid, "--sessions", "--all", "--json"]);
        // It may not have begun yet.
        if output.status.success() {
            let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let contexts = line["contexts"].as_array().expect("a list");
            let rows: Vec<_> =
                contexts.iter().flat_map(|context| context["rows"].as_array()).flatten().collect();
            if rows.iter().any(|row| row["labels"]["kind"] == kind) {
                return rows.into_iter().cloned().collect();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn sessions_of_other_processes_are_shown_by_name_even_of_one_that_is_stopped() {
    let place = Folder::in_memory();
    let hearer = Program::topic(&place, &["sub", "px.eq", "--quiet"]);
    let sender = Program::topic(&place, &["pub", "px.eq", "--text", "x", "--rate", "100"]);
    let sent = rows(&place, &sender.pid(), "peer");
    let heard = rows(&place, &hearer.pid(), "stream");
    let of = |rows: &[serde_json::Value], kind: &str| {
        rows.iter().find(|row| row["labels"]["kind"] == kind).cloned().expect(kind)
    };
    let transport = of(&sent, "session")["labels"]["transport"].clone();
    assert!(transport.as_str().expect("text").starts_with("TCP:127.0.0.1:"), "{transport}");
    assert_eq!(of(&sent, "source")["labels"]["topic"], "px.eq");
    let peer = of(&sent, "peer");
    assert!(peer["labels"]["peer"].as_str().expect("text").starts_with("127.0.0.1:"), "{peer}");
    assert!(peer["counters"]["messaging_peer_naks_total"].is_u64(), "{peer}");
    let stream = of(&heard, "stream");
    assert_eq!((&stream["labels"]["topic"], &stream["labels"]["transport"]), (&"px.eq".into(), &transport));
    assert_eq!(of(&heard, "incoming")["counters"]["messaging_incoming_lost_total"], 0);
    // One that is stopped says nothing any more; its last values are there.
    hearer.signal("-STOP");
    let stopped = rows(&place, &hearer.pid(), "stream");
    assert_eq!(of(&stopped, "stream")["labels"], stream["labels"]);
    let line = text(tickcast_counters(&place, &[&hearer.pid(), "--sessions", "kind=stream"]));
    assert!(line.contains("\n  stream   topic=px.eq transport=TCP:127.0.0.1:"), "{line}");
    hearer.signal("-CONT");
    let none = tickcast_counters(&place, &["--sessions"]);
    assert_eq!(none.status.code(), Some(2), "of which process?");
}

#[test]
fn a_file_that_is_no_file_of_counters_is_named_and_not_read() {
    let place = Folder::in_memory();
    let registry = Registry::default();
    let _lent = registry.lend_roll(&[("context", "1")], counters::Roll::default());
    let (directory, program) = (place.to_path_buf(), "this test".to_owned());
    let options = CountersFileOptions { directory, interval: Duration::from_secs(3_600), program };
    let published = CountersFile::publish(registry, &options).expect("a directory of our own");
    let pid = std::process::id().to_string();
    let shown = text(tickcast_counters(&place, &[&pid, "--sessions"]));
    assert!(shown.contains("context 1: 0 rows, not written yet"), "{shown}");
    let path =
        std::fs::read_dir(&place).expect("it is there").next().expect("a file").expect("a file").path();
    let whole = std::fs::read(&path).expect("it is ours");
    let file = std::fs::File::options().write(true).open(&path).expect("it is ours");
    // The bank that holds: its length, then what stands in front of the sets.
    let bank = 4_096 + (8 << 20);
    let damages: [(u64, &[u8], &str); 5] = [
        (0, b"nonsense", "it is no file of counters of version 1"),
        (8, &[9], "it is no file of counters of version 1"),
        (bank, &[3, 0, 0], "the counters end before what they announce"),
        (bank + 8, &[7], "the counters are of version 7, version 1 is known here"),
        (bank + 8 + 40, &[0xff; 64], "the counters end before what they announce"),
    ];
    for (at, bytes, said) in damages {
        file.write_all_at(bytes, at).expect("there is room");
        for words in [&[&*pid, "--sessions"][..], &[&*pid]] {
            let refused = tickcast_counters(&place, words);
            let told = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{told}");
            assert!(told.contains(said) && told.contains(&*path.to_string_lossy()), "{told}");
        }
        let range = at as usize..at as usize + bytes.len();
        file.write_all_at(&whole[range], at).expect("there is room");
    }
    assert!(tickcast_counters(&place, &[&pid, "--sessions"]).status.success(), "as it was");
    drop(published);
}
