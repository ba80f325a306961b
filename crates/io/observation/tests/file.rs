//! What a recorder takes down is in its file; files that are none are refused with words that say why.

use std::io::Read;

use net::fork::Forked;
use testkit::Folder;
use tickcast_observation::{
    Clock, FileError, HEAD_BYTES, Head, RECORD_BYTES, Reader, Record, Recorder, Settings, encode, id,
    publisher_of,
};

fn settings(capacity: u64, clock: Clock) -> Settings {
    let (point, stream) = ("sender".to_owned(), "orders".to_owned());
    Settings { point, stream, capacity, clock: Some(clock) }
}

/// The clocks of this host.
fn clocks() -> impl Iterator<Item = Clock> {
    Clock::ALL.into_iter().filter(|clock| clock.why_not().is_none())
}

fn all<R: Read>(reader: &mut Reader<R>) -> Result<Vec<Record>, FileError> {
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    assert!(reader.next()?.is_none(), "the end stays the end");
    Ok(records)
}

#[test]
fn what_is_recorded_is_in_the_file_by_every_clock() {
    let folder = Folder::new();
    for clock in clocks() {
        let mut recorder = Recorder::new(&settings(10_000, clock)).expect("160 KB of memory");
        assert_eq!((recorder.records(), recorder.clock()), (0, clock), "measuring the cost leaves nothing");
        assert!((0..9_000).all(|number| recorder.record(id(3, number))));
        let path = folder.join("observations");
        let mut told = Vec::new();
        recorder.write(&path, |written, total| told.push((written, total))).expect("a writable place");
        let mut file = Reader::open(&path).expect("as it was written");
        let head = file.head().clone();
        assert_eq!((head.records, head.lost, head.capacity, head.clock), (9_000, 0, 10_000, clock));
        assert_eq!((&*head.point, &*head.stream, head.pid), ("sender", "orders", std::process::id()));
        assert!(head.cost_ns > 0.0 && head.cost_ns == recorder.cost_ns() && head.doubt().is_none());
        assert_eq!(told.last(), Some(&(head.file_bytes(), head.file_bytes())));
        let records = all(&mut file).expect("the sum is right");
        assert!(records.iter().map(|record| record.id).eq((0..9_000).map(|number| id(3, number))));
        assert!(records.iter().all(|record| publisher_of(record.id) == 3));
        let (line, within) =
            (head.to_monotonic(), head.start.monotonic_ns as i64..=head.end.monotonic_ns as i64);
        assert!(records.iter().all(|record| within.contains(&line.at(record.ticks))), "{clock:?}: {head:?}");
        // It goes on, and the next file takes the place of this one.
        recorder.record(7);
        recorder.write(&path, |_, _| ()).expect("a writable place");
        assert_eq!(all(&mut Reader::open(&path).expect("whole")).expect("whole").len(), 9_001);
    }
    assert_eq!(std::fs::read_dir(&*folder).expect("there").count(), 1, "nothing unfinished is left");
}

#[test]
fn what_finds_no_room_is_counted_and_the_rest_stays() {
    let folder = Folder::new();
    let mut recorder = Recorder::new(&settings(3, Clock::Monotonic)).expect("48 bytes of memory");
    let taken: Vec<bool> = (0..5).map(|number| recorder.record(number)).collect();
    assert_eq!((taken, recorder.records(), recorder.lost()), (vec![true, true, true, false, false], 3, 2));
    recorder.write(&folder.join("full"), |_, _| ()).expect("a writable place");
    let mut file = Reader::open(&folder.join("full")).expect("as it was written");
    assert_eq!((file.head().records, file.head().lost), (3, 2));
    assert!(all(&mut file).expect("whole").iter().map(|record| record.id).eq(0..3));
}

#[test]
fn a_recorder_that_cannot_be_made_says_why() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = settings(10, Clock::Monotonic);
        change(&mut settings);
        Recorder::new(&settings).expect_err("refused").to_string()
    };
    assert!(refused(|s| s.capacity = 0).contains("a capacity of 0 observations; it is 1 to 34359738368"));
    assert!(refused(|s| s.capacity = u64::MAX).contains("it is 1 to 34359738368"));
    assert!(refused(|s| s.point = String::new()).contains("a name is 1 to 64 bytes"));
    assert!(refused(|s| s.point = "a\nb".to_owned()).contains("point \"a\\nb\""));
    assert!(refused(|s| s.stream = "x".repeat(65)).contains("a name is 0 to 64 bytes"));
    if let Some(why) = Clock::Tsc.why_not() {
        assert!(refused(|s| s.clock = Some(Clock::Tsc)).contains(&why));
    }
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing_and_a_child_writes_none() {
    let folder = Folder::new();
    let recorder = Recorder::new(&settings(10, Clock::Monotonic)).expect("160 bytes of memory");
    let error =
        recorder.write(&folder.join("none/there"), |_, _| ()).expect_err("no such folder").to_string();
    assert!(error.contains("none/there"), "{error}");
    std::fs::create_dir(folder.join("taken")).expect("a writable place");
    recorder.write(&folder.join("taken"), |_, _| ()).expect_err("a folder has the name");
    let path = folder.join("child");
    let child =
        testkit::child::fork(|| recorder.write(&path, |_, _| ()).is_err_and(|error| Forked::is(&error)));
    assert!(child.expect("processes are left").has_ended_well());
    assert_eq!(std::fs::read_dir(&*folder).expect("there").count(), 1, "only the folder made here");
}

/// A file of three records.
fn file() -> Vec<u8> {
    let folder = Folder::new();
    let mut recorder = Recorder::new(&settings(10, Clock::Monotonic)).expect("160 bytes of memory");
    assert!((0..3).all(|number| recorder.record(number)));
    recorder.write(&folder.join("file"), |_, _| ()).expect("a writable place");
    std::fs::read(folder.join("file")).expect("written")
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut reader = Reader::new(bytes, bytes.len() as u64).map_err(|error| error.to_string())?;
    all(&mut reader).map_err(|error| error.to_string())
}

#[test]
fn every_cut_and_every_changed_byte_is_refused() {
    let bytes = file();
    assert_eq!(read(&bytes).expect("as it was written").len(), 3);
    for length in 0..bytes.len() {
        read(&bytes[..length]).expect_err("cut");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        read(&changed).expect_err(&format!("byte {at} is changed"));
    }
    read(&[&bytes[..], &[0]].concat()).expect_err("longer than its head says");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let said = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = file();
        change(&mut bytes);
        read(&bytes).expect_err("wrong")
    };
    assert!(said(&|b| b[0] = b'x').contains("does not begin with TICKOBSV"));
    assert!(said(&|b| b[8] = 2).contains("version 2; this program reads version 1"));
    assert!(said(&|b| b[16..24].reverse()).contains("big-endian"));
    assert!(said(&|b| b[48] = 9).contains("byte 48: clock 9; known are 1 (tsc) to 3"));
    assert!(said(&|b| b[40] = 2).contains("byte 24: 3 records where there was room for 2"));
    assert!(said(&|b| b[24] = 4).contains("with the 4 records of its head it would have 1092"));
    assert!(said(&|b| b[232] = 0).contains("byte 232: the point has no name"));
    assert!(said(&|b| b[232] = 65).contains("byte 232: a point of 65 bytes; it is at most 64"));
    assert!(said(&|b| b[235] = 0xff).contains("byte 232: the point is no text"));
    assert!(said(&|b| b[80 + 7] = 0xff).contains("is past the year 2262"));
    assert!(said(&|b| b.copy_within(160..168, 80)).contains("is no clock"));
    assert!(said(&|b| b[HEAD_BYTES + RECORD_BYTES + 15] = 0xff).contains("byte 1048: record 1 is of time"));
    assert!(said(&|b| b[HEAD_BYTES] = 7).contains("changed or damaged"));
}

#[test]
fn a_file_made_of_its_parts_reads_the_same() {
    let bytes = file();
    let reader = Reader::new(&bytes[..], bytes.len() as u64).expect("as it was written");
    let (head, records) = (reader.head().clone(), read(&bytes).expect("as it was written"));
    assert_eq!(encode(&head, &records).expect("it fits"), bytes);
    assert!(encode(&head, &records[1..]).expect_err("one less").contains("2 records, and 3 in the head"));
    let none = Head { capacity: 0, ..head };
    assert!(encode(&none, &records).expect_err("no room").contains("capacity of 0"));
}
