//! Hostile cases by name, each with what becomes of it: `docs/hostile.md` is held against what happens.
//!
//! `HOSTILE=write cargo test -p tickcast-fuzz --test hostile` writes the tables of these layers anew. Rows of
//! the form `crate: test` are held by the test of that name.

mod case;
mod client;
mod domain;
mod lbm;
mod rssl;
mod rwf;
mod table;
mod websocket;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use case::Layer;

/// The tests run one at a time: one of them goes by the memory of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layers() -> Vec<Layer> {
    [rssl::layers(), websocket::layers(), rwf::layers(), domain::layers(), client::layers(), lbm::layers()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn what_becomes_of_every_case_is_what_the_table_says() {
    let _alone = alone();
    let layers = layers();
    if std::env::var("HOSTILE").is_ok_and(|word| word == "write") {
        table::write(&layers);
    }
    for layer in &layers {
        let stated = table::rows(layer.title);
        let really: Vec<[String; 3]> = layer.cases.iter().map(|case| table::row(layer, case)).collect();
        assert_eq!(stated, really, "{}", layer.title);
    }
}

#[test]
fn names_are_used_once_within_a_layer_and_there_are_two_hundred_in_all() {
    let _alone = alone();
    let layers = layers();
    for layer in &layers {
        let names: BTreeSet<_> = layer.cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), layer.cases.len(), "{}", layer.title);
    }
    let count: usize = layers.iter().map(|layer| layer.cases.len()).sum();
    assert!(count >= 200, "{count}");
}

#[test]
fn every_test_that_the_table_names_exists() {
    let _alone = alone();
    for (krate, name) in table::named_tests() {
        assert!(table::has_test(&krate, &name), "{krate}: no test {name}");
    }
}

/// Pages of 4 KiB that this process has.
fn resident_pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[test]
fn all_cases_again_and_again_take_no_more_memory() {
    /// What the allocator may keep back for itself: 4 MiB.
    const SLACK_PAGES: usize = 1024;
    let _alone = alone();
    let layers = layers();
    let all = || {
        let cases = layers.iter().flat_map(|layer| layer.cases.iter().map(move |case| (layer, case)));
        cases.for_each(|(layer, case)| drop((layer.reaction)(&case.bytes)));
    };
    (0..3).for_each(|_| all());
    let before = resident_pages();
    (0..20).for_each(|_| all());
    let after = resident_pages();
    assert!(after <= before + SLACK_PAGES, "{before} pages, then {after}");
}
