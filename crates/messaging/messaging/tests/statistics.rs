//! What a context counts is there for `tickcast counters` without anybody asking for it.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Party, Patience, meet, party};
use counters::Registry;
use counters::snapshot::{RollRead, Snapshot};
use net::counters_file;
use testkit::Folder;
use tickcast_messaging::{
    Context, ContextCounters, EmbeddedContext, MessagingConfig, SourceOptions, Transport,
};

fn config_in(place: &Folder, test: u8) -> MessagingConfig {
    MessagingConfig {
        counters_directory: place.to_str().expect("text").to_owned(),
        counters_interval_ms: 10,
        ..common::config(test)
    }
}

fn read(place: &Folder) -> Snapshot {
    counters_file::read(place, std::process::id()).expect("this process publishes there")
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

fn until(place: &Folder, mut done: impl FnMut(&Snapshot) -> bool) {
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
    let place = Folder::in_memory();
    let config = config_in(&place, 1);
    let mut one = Context::standalone(&config).expect("loopback is there");
    let source = one.create_source("px", &SourceOptions::default()).expect("a port is free");
    one.send(source, &[b"x"]).expect("there is room");
    one.flush();
    let two = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let shown = |n: &str, count| (n.to_owned(), count);
    until(&place, |s| values(s, SENT) == [shown("1", 1), shown("2", 0)]);
    let snapshot = read(&place);
    assert_eq!(files(&place), 1, "one file for all contexts of a process");
    assert!(snapshot.head.program.starts_with("statistics"), "{}", snapshot.head.program);
    two.stop().expect("nothing failed");
    until(&place, |s| values(s, SENT) == [shown("1", 1)]);
    drop(one);
    assert_eq!(files(&place), 0);
}

#[test]
fn a_session_that_counts_for_itself_is_shown_beside_its_context() {
    let place = Folder::in_memory();
    let config = MessagingConfig { transport: Transport::LbtIpc, ..config_in(&place, 2) };
    let mut context = Context::standalone(&config).expect("loopback is there");
    let source = context.create_source("px", &SourceOptions::default()).expect("there is memory");
    let transport = context.source_transport(source).expect("it is there").to_string();
    until(&place, |s| {
        s.sets.iter().any(|set| set.labels.contains(&("transport".to_owned(), transport.clone())))
    });
}

#[test]
fn counters_that_the_application_shows_or_nobody_wants_are_not_published() {
    let place = Folder::in_memory();
    let config = config_in(&place, 3);
    let registry = Registry::default();
    let counters = ContextCounters::registered(&registry, &[("role", "test")]);
    let _shown = Context::standalone_with(&config, counters).expect("loopback is there");
    assert_eq!(files(&place), 0);
    let config = MessagingConfig { counters_directory: String::new(), ..config };
    let _silent = Context::standalone(&config).expect("loopback is there");
    assert_eq!(files(&place), 0);
    let nowhere = format!("{}/nowhere", place.display());
    let config = MessagingConfig { counters_directory: nowhere, ..config };
    let works = Context::standalone(&config).expect("it works without the file");
    let error = works.counters().publish_error().expect("it says that there is none").to_string();
    assert!(error.contains("/nowhere/tickcast-counters-"), "{error}");
}

/// The rows of a context: each as its labels, and its counters by name.
fn rows(roll: &RollRead) -> Vec<(String, Vec<(String, u64)>)> {
    let row = |set: &counters::snapshot::Row| {
        let labels: Vec<_> = set.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let names = roll.tables[set.table].iter().map(|column| column.name.clone());
        (labels.join(" "), names.zip(set.values.iter().copied()).collect())
    };
    roll.sets.iter().map(row).collect()
}

/// Drives contexts until the file shows what is wanted of one of them, by number.
fn until_rows(
    place: &Folder,
    context: &str,
    parties: &mut [&mut Party],
    mut done: impl FnMut(&mut [&mut Party], &RollRead) -> bool,
) {
    let patience = Patience::new();
    loop {
        assert!(patience.lasts(), "it is never shown");
        parties.iter_mut().for_each(|party| party.turn());
        let read = read(place);
        let wanted = ("context".to_owned(), context.to_owned());
        if let Some(roll) = read.rolls.iter().find(|roll| roll.labels.contains(&wanted))
            && done(parties, roll)
        {
            return;
        }
    }
}

/// A party that shows what it counts.
fn shown(config: &MessagingConfig) -> Party {
    Party { context: Context::standalone(config).expect("loopback is there"), ..party(&silent(config)) }
}

fn silent(config: &MessagingConfig) -> MessagingConfig {
    MessagingConfig { counters_directory: String::new(), ..config.clone() }
}

/// The same as the application is told, but for spans, which go on.
fn told(party: &mut Party) -> Vec<(String, Vec<(String, u64)>)> {
    let mut all = Vec::new();
    let rest = party.context.statistics(|one| {
        let mut labels = format!("kind={}", one.kind());
        one.topic().iter().for_each(|topic| labels += &format!(" topic={topic}"));
        labels += &format!(" transport={}", one.transport());
        one.peer().iter().for_each(|peer| labels += &format!(" peer={peer}"));
        let mut numbers = Vec::new();
        one.numbers(|name, value| match name {
            "id" => labels += &format!(" source={value}"),
            "session" | "stream" => labels += &format!(" {name}={value}"),
            "silent_ns" => {}
            _ => numbers.push((format!("messaging_{}_{name}", one.kind()), value)),
        });
        all.push((labels, numbers));
    });
    assert_eq!(rest, None);
    all
}

#[test]
fn the_file_names_the_same_sources_sessions_peers_and_streams_as_the_library() {
    for (test, transport) in
        [Transport::LbtRm, Transport::LbtRu, Transport::Tcp, Transport::LbtIpc].into_iter().enumerate()
    {
        let place = Folder::in_memory();
        let config = MessagingConfig { transport, ..config_in(&place, 10 + test as u8) };
        let (mut sender, mut receiver) = (shown(&config), shown(&config));
        let source = sender.source("px");
        receiver.receiver("px");
        meet(&mut sender, source, &mut receiver);
        for (context, at) in [("1", 0), ("2", 1)] {
            until_rows(&place, context, &mut [&mut sender, &mut receiver], |parties, roll| {
                let told = told(parties[at]);
                let mut shown = rows(roll);
                for (_, numbers) in &mut shown {
                    numbers.retain(|(name, _)| !name.ends_with("silent_ns"));
                    numbers.iter_mut().for_each(|(name, _)| *name = name.replace("_total", ""));
                }
                assert_eq!(roll.left_out, 0, "every number has a description");
                let of = |kind: &str| shown.iter().any(|(labels, _)| labels.starts_with(kind));
                let kinds =
                    if at == 0 { ["kind=session", "kind=source"] } else { ["kind=incoming", "kind=stream"] };
                !shown.is_empty() && told == shown && kinds.into_iter().all(of)
            });
        }
    }
}

#[test]
fn what_is_over_leaves_its_place_to_others_and_what_has_none_is_counted() {
    const MAX: usize = 8;
    let place = Folder::in_memory();
    let config = MessagingConfig { counters_sessions_maximum: MAX as u32, ..config_in(&place, 5) };
    let mut party = shown(&config);
    let names = |roll: &RollRead| rows(roll).into_iter().map(|row| row.0).collect::<Vec<_>>();
    let topic = |n: usize| format!("topic-{n}");
    // Three times as many as there is room for, each after the other.
    for n in 0..3 * MAX {
        let source = party.source(&topic(n));
        until_rows(&place, "1", &mut [&mut party], |_, roll| {
            let names = names(roll);
            assert!(names.len() <= 2 && roll.left_out == 0, "{names:?}");
            names.iter().any(|name| name.contains(&topic(n)))
        });
        party.context.delete_source(source);
    }
    // And all at once.
    let sources: Vec<_> = (0..3 * MAX).map(|n| party.source(&topic(n))).collect();
    until_rows(&place, "1", &mut [&mut party], |_, roll| {
        let names = names(roll);
        assert!(names.len() <= MAX);
        // The session itself goes first.
        names.len() == MAX && names[0].starts_with("kind=session") && roll.left_out == 2 * MAX as u64 + 1
    });
    sources.into_iter().for_each(|source| party.context.delete_source(source));
    let source = party.source("last");
    until_rows(&place, "1", &mut [&mut party], |_, roll| {
        roll.left_out == 0 && names(roll)[1].contains("last")
    });
    party.context.delete_source(source);
}

#[test]
fn nothing_is_named_where_nobody_wants_it_and_a_context_takes_its_rows_with_it() {
    let place = Folder::in_memory();
    let config = MessagingConfig { counters_sessions_maximum: 0, ..config_in(&place, 6) };
    let quiet = shown(&config);
    let one = shown(&config_in(&place, 7));
    until(&place, |snapshot| snapshot.rolls.len() == 1);
    drop(one);
    until(&place, |snapshot| snapshot.rolls.is_empty());
    drop(quiet);
    // Where the application has a registry of its own, rows stand there under its labels.
    let registry = Registry::default();
    let counters = ContextCounters::registered(&registry, &[("role", "test")]);
    let _lent = Context::standalone_with(&silent(&config), counters.clone()).expect("loopback is there");
    assert!(registry.rolls().is_empty());
    let wanted = silent(&config_in(&place, 7));
    let _lent = Context::standalone_with(&wanted, counters).expect("loopback is there");
    assert_eq!(registry.rolls()[0].0, [("role".to_owned(), "test".to_owned())]);
}
