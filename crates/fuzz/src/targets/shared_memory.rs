use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use net::shm::{Pacing, ReadError, Receiver, SessionName, Source, SourceOptions};
use units::Nanos;

use crate::Outcome;
use crate::input::Input;

const NAME: SessionName = SessionName { session_id: 0x5eed_1234, transport_id: 7 };
const RING_BYTES: u64 = 65_536;
/// Messages of one look.
const POLL_MAX: usize = 64;

/// A directory of one execution; several may run in a process.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = Place(format!("/dev/shm/tickcast-fuzz-{}-{number}", std::process::id()).into());
        fs::create_dir(&place.0).expect("/dev/shm is there");
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Input: operations on a ring of which the source waits for receivers (first byte even) or not, with a
/// receiver that was there before and one that comes at the end; and bytes that another process writes
/// anywhere into the region. What a receiver is handed lies within a segment, and whatever it finds, each
/// look ends and an error that is final stays.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let place = Place::new();
    let is_receiver_paced = input.u8().is_multiple_of(2);
    let pacing =
        if is_receiver_paced { Pacing::Receiver { drop_stopped_after: None } } else { Pacing::Source };
    let directory = place.0.clone();
    let options = SourceOptions { directory, ring_bytes: RING_BYTES, pacing, ..SourceOptions::default() };
    let mut source = Source::create(NAME, &options).expect("there is memory");
    let file = File::options().write(true).open(source.path()).expect("it was just made");
    let file_bytes = file.metadata().expect("it is open").len();
    let mut receiver = Receiver::open(NAME, &place.0).expect("it was just made");
    let (mut messages, mut failed, mut now) = (0, None, Nanos(1));
    while !input.is_empty() {
        match input.u8() % 8 {
            0..=2 => {
                let (length, tag) = (input.u16() % 5_000, input.u8());
                let _ = source.push(tag.into(), &[&vec![7; usize::from(length)]]);
            }
            3 => drop(source.publish()),
            4 | 5 => look(&mut receiver, &mut messages, &mut failed),
            6 => {
                let at = u64::from(input.u16()) << (input.u8() % 3);
                let bytes = input.chunk();
                let bytes = &bytes[..bytes.len().min(file_bytes.saturating_sub(at) as usize)];
                file.write_all_at(bytes, at).expect("there is memory");
            }
            _ => {
                now = now.after(Duration::from_millis(500));
                source.look_after_readers(now);
                let _ = receiver.is_over();
            }
        }
    }
    look(&mut receiver, &mut messages, &mut failed);
    let late = Receiver::open(NAME, &place.0);
    if let Ok(mut late) = late {
        look(&mut late, &mut messages, &mut None);
    }
    match failed {
        None => Outcome::accepted((is_receiver_paced, messages.min(4))),
        Some(error) => Outcome::refused((is_receiver_paced, error)),
    }
}

fn look(receiver: &mut Receiver, messages: &mut u64, failed: &mut Option<ReadError>) {
    let polled = receiver.poll(POLL_MAX, |frame| {
        assert!(frame.bytes.len() as u64 <= RING_BYTES / 16);
        *messages += 1;
        // All of it can be read.
        std::hint::black_box(frame.bytes.iter().fold(0, |a, b| a ^ b));
    });
    assert!(polled.is_ok_and(|count| count <= POLL_MAX) || polled.is_err());
    match failed {
        None | Some(ReadError::Lapped(_)) => *failed = polled.err().or(*failed),
        Some(last) => assert_eq!(polled, Err(*last), "it is final"),
    }
}
