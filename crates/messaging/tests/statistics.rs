//! What a context counts is there for `tickcast counters` without anybody asking for it.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Patience;
use counters::Registry;
use counters::snapshot::Snapshot;
use net::counters_file;
use tickcast_messaging::{
    Context, ContextCounters, EmbeddedContext, MessagingConfig, SourceOptions, Transport,
};

/// A directory of one test, in memory.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = PathBuf::from(format!("/dev/shm/tickcast-statistics-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).expect("/dev/shm is there");
        Place(place)
    }

    fn config(&self, test: u8) -> MessagingConfig {
        MessagingConfig {
            counters_directory: self.0.to_str().expect("text").to_owned(),
            counters_interval_ms: 10,
            ..common::config(test)
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Its file is gone if the test has passed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(place: &Place) -> Snapshot {
    counters_file::read(&place.0, std::process::id()).expect("this process publishes there")
}

/// The values of a counter, with the number of the context.
fn values(snapshot: &Snapshot, name: &str) -> Vec<(String, u64)> {
    let of = |set: &counters::snapshot::Row| {
        let column = snapshot.tables[set.table].iter().position(|column| column.name == name)?;
        let context = set.labels.iter().find(|label| label.0 == "context")?;
        Some((context.1.clone(), set.values[column]))
    };
    snapshot.sets.iter().filter_map(of).collect()
}

fn until(place: &Place, mut done: impl FnMut(&Snapshot) -> bool) {
    let patience = Patience::new();
    while !done(&read(place)) {
        assert!(patience.lasts(), "it is never shown");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn files(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("it is there").count()
}

const SENT: &str = "lbtrm_source_lbm_msgs_sent_total";

#[test]
fn every_context_is_shown_under_its_number_as_long_as_it_lives() {
    let place = Place::new("lives");
    let config = place.config(1);
    let mut one = Context::standalone(&config).expect("loopback is there");
    let source = one.create_source("px", &SourceOptions::default()).expect("a port is free");
    one.send(source, &[b"x"]).expect("there is room");
    one.flush();
    let two = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let shown = |n: &str, count| (n.to_owned(), count);
    until(&place, |s| values(s, SENT) == [shown("1", 1), shown("2", 0)]);
    let snapshot = read(&place);
    assert_eq!(files(&place.0), 1, "one file for all contexts of a process");
    assert!(snapshot.head.program.starts_with("statistics"), "{}", snapshot.head.program);
    two.stop().expect("nothing failed");
    until(&place, |s| values(s, SENT) == [shown("1", 1)]);
    drop(one);
    assert_eq!(files(&place.0), 0);
}

#[test]
fn a_session_that_counts_for_itself_is_shown_beside_its_context() {
    let place = Place::new("session");
    let config = MessagingConfig { transport: Transport::LbtIpc, ..place.config(2) };
    let mut context = Context::standalone(&config).expect("loopback is there");
    let source = context.create_source("px", &SourceOptions::default()).expect("there is memory");
    let transport = context.source_transport(source).expect("it is there").to_string();
    until(&place, |s| {
        s.sets.iter().any(|set| set.labels.contains(&("transport".to_owned(), transport.clone())))
    });
}

#[test]
fn counters_that_the_application_shows_or_nobody_wants_are_not_published() {
    let place = Place::new("unwanted");
    let config = place.config(3);
    let registry = Registry::default();
    let counters = ContextCounters::registered(&registry, &[("role", "test")]);
    let _shown = Context::standalone_with(&config, counters).expect("loopback is there");
    assert_eq!(files(&place.0), 0);
    let config = MessagingConfig { counters_directory: String::new(), ..config };
    let _silent = Context::standalone(&config).expect("loopback is there");
    assert_eq!(files(&place.0), 0);
    let nowhere = format!("{}/nowhere", place.0.display());
    let config = MessagingConfig { counters_directory: nowhere, ..config };
    let works = Context::standalone(&config).expect("it works without the file");
    let error = works.counters().publish_error().expect("it says that there is none").to_string();
    assert!(error.contains("/nowhere/tickcast-counters-"), "{error}");
}
