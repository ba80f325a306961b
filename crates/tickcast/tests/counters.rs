//! `tickcast counters` reads what another process publishes: here, this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use counters::Registry;
use counters::table::LbtrmSource;
use net::counters_file::{CountersFile, CountersFileOptions};

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

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
    let place = Place(PathBuf::from(format!("/dev/shm/tickcast-counters-command-{}", std::process::id())));
    std::fs::create_dir(&place.0).expect("/dev/shm is there");
    let pid = std::process::id().to_string();
    let none = tickcast_counters(&place.0, &[&pid]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let (registry, source) = (Registry::default(), LbtrmSource::default());
    source.rxs_sent.add(12);
    registry.register(&[("session", "feed")], Arc::new(source));
    let (directory, program) = (place.0.clone(), "this test".to_owned());
    let options = CountersFileOptions { directory, interval: Duration::from_secs(1), program };
    let published = CountersFile::publish(registry, &options).expect("a directory of our own");
    let listed = text(tickcast_counters(&place.0, &[]));
    assert!(listed.contains(&pid) && listed.contains("this test"), "{listed}");
    let shown = text(tickcast_counters(&place.0, &[&pid, "session=feed"]));
    assert!(shown.contains("lbtrm_source_rxs_sent_total") && shown.contains(" 12 "), "{shown}");
    let line: serde_json::Value =
        serde_json::from_str(&text(tickcast_counters(&place.0, &["--json", &pid]))).expect("JSON");
    assert_eq!(line["sets"][0]["counters"]["lbtrm_source_rxs_sent_total"], 12);
    let odd = place.0.join("tickcast-counters-1-1-1");
    std::os::unix::fs::symlink("nowhere", &odd).expect("it is ours");
    let listed = tickcast_counters(&place.0, &[]);
    let told = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(
        told.contains("cannot read counters in ") && told.contains("tickcast-counters-1-1-1: "),
        "{told}"
    );
    assert!(text(listed).contains("this test"), "the others are listed all the same");
    std::fs::remove_file(&odd).expect("it is there");
    drop(published);
    assert_eq!(text(tickcast_counters(&place.0, &["--json"])), "");
    assert_eq!(tickcast_counters(&place.0, &["x"]).status.code(), Some(2), "no process id");
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
