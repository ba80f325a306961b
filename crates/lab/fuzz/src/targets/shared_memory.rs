use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use net::shm::{
    BareReceiver, BareRing, Frame, Pacing, ReadError, Receiver, SessionName, Source, SourceOptions,
};
use testkit::Folder;
use units::Nanos;

use crate::Outcome;
use crate::input::Input;

const NAME: SessionName = SessionName { session_id: 0x5eed_1234, transport_id: 7 };
const RING_BYTES: u64 = 65_536;
/// Messages of one look.
const POLL_MAX: usize = 64;

/// Input: operations on a ring of which the source waits for receivers (first byte even) or not, with a
/// receiver that was there before and one that comes at the end; and bytes that another process writes
/// anywhere into the region. What a receiver is handed lies within a segment, and whatever it finds, each
/// look ends and an error that is final stays.
///
/// The ring is in memory. One input in 256, by a sum over it, goes through a file with its locks too, which
/// takes thirty times as long, and ends alike.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let sum = input.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    let outcome = run::<InMemory>(input);
    if sum == 0 {
        assert_eq!(run::<InFile>(input), outcome, "a file makes no difference");
    }
    outcome
}

/// A ring with its first receiver.
trait Ring {
    fn new(pacing: Pacing) -> Self;
    fn push(&mut self, tag: u8, message: &[u8]);
    fn publish(&mut self);
    fn poll(&mut self, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError>;
    fn write(&mut self, at: usize, bytes: &[u8]);
    fn look_after_readers(&mut self, now: Nanos);
    /// A look by a receiver that comes late, if it may.
    fn poll_late(&mut self, handle: impl FnMut(Frame<'_>)) -> Option<Result<usize, ReadError>>;
}

struct InMemory {
    // Dropped before the memory is kept for the next one.
    receiver: Option<BareReceiver>,
    ring: Option<BareRing>,
}

thread_local! {
    static KEPT: Cell<Option<BareRing>> = const { Cell::new(None) };
}

impl InMemory {
    fn ring(&mut self) -> &mut BareRing {
        self.ring.as_mut().expect("it is there until it is dropped")
    }
}

impl Ring for InMemory {
    fn new(pacing: Pacing) -> InMemory {
        let ring = match KEPT.take() {
            Some(kept) => kept.renewed(pacing),
            None => BareRing::new(RING_BYTES, pacing).expect("an allowed size"),
        };
        let receiver = ring.receiver(0).expect("it was just made");
        InMemory { receiver: Some(receiver), ring: Some(ring) }
    }

    fn push(&mut self, tag: u8, message: &[u8]) {
        let _ = self.ring().push(tag.into(), message);
    }

    fn publish(&mut self) {
        self.ring().publish();
    }

    fn poll(&mut self, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError> {
        self.receiver.as_mut().expect("it is there until it is dropped").poll(POLL_MAX, handle)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.ring().write(at, bytes);
    }

    fn look_after_readers(&mut self, now: Nanos) {
        // In a file the lock of a slot that nobody has taken tells that its owner is dead.
        self.ring().look_after_readers(now, !1);
        let _ = self.receiver.as_ref().is_some_and(BareReceiver::is_over);
    }

    fn poll_late(&mut self, handle: impl FnMut(Frame<'_>)) -> Option<Result<usize, ReadError>> {
        let mut late = self.ring().receiver(1).ok()?;
        Some(late.poll(POLL_MAX, handle))
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.receiver = None;
        KEPT.set(self.ring.take());
    }
}

struct InFile {
    receiver: Receiver,
    source: Source,
    file: File,
    place: Folder,
}

impl Ring for InFile {
    fn new(pacing: Pacing) -> InFile {
        let place = Folder::in_memory();
        let directory = place.to_path_buf();
        let options = SourceOptions { directory, ring_bytes: RING_BYTES, pacing, ..SourceOptions::default() };
        let source = Source::create(NAME, &options).expect("there is memory");
        let file = File::options().write(true).open(source.path()).expect("it was just made");
        let receiver = Receiver::open(NAME, &place).expect("it was just made");
        InFile { receiver, source, file, place }
    }

    fn push(&mut self, tag: u8, message: &[u8]) {
        let _ = self.source.push(tag.into(), &[message]);
    }

    fn publish(&mut self) {
        self.source.publish();
    }

    fn poll(&mut self, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError> {
        self.receiver.poll(POLL_MAX, handle)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let file_bytes = self.file.metadata().expect("it is open").len() as usize;
        let bytes = &bytes[..bytes.len().min(file_bytes.saturating_sub(at))];
        self.file.write_all_at(bytes, at as u64).expect("there is memory");
    }

    fn look_after_readers(&mut self, now: Nanos) {
        self.source.look_after_readers(now);
        let _ = self.receiver.is_over();
    }

    fn poll_late(&mut self, handle: impl FnMut(Frame<'_>)) -> Option<Result<usize, ReadError>> {
        let mut late = Receiver::open(NAME, &self.place).ok()?;
        Some(late.poll(POLL_MAX, handle))
    }
}

fn run<R: Ring>(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let is_receiver_paced = input.u8().is_multiple_of(2);
    let pacing =
        if is_receiver_paced { Pacing::Receiver { drop_stopped_after: None } } else { Pacing::Source };
    let mut ring = R::new(pacing);
    let (mut messages, mut failed, mut now) = (0, None, Nanos(1));
    while !input.is_empty() {
        match input.u8() % 8 {
            0..=2 => {
                let (length, tag) = (input.u16() % 5_000, input.u8());
                ring.push(tag, &[7; 5_000][..usize::from(length)]);
            }
            3 => ring.publish(),
            4 | 5 => look(&mut ring, &mut messages, &mut failed),
            6 => {
                let at = usize::from(input.u16()) << (input.u8() % 3);
                ring.write(at, input.chunk());
            }
            _ => {
                now = now.after(Duration::from_millis(500));
                ring.look_after_readers(now);
            }
        }
    }
    look(&mut ring, &mut messages, &mut failed);
    let late = ring.poll_late(|frame| messages += read(frame));
    assert!(late.is_none_or(|polled| polled.is_err() || polled.is_ok_and(|count| count <= POLL_MAX)));
    match failed {
        None => Outcome::accepted((is_receiver_paced, messages.min(4))),
        Some(error) => Outcome::refused((is_receiver_paced, error)),
    }
}

fn look<R: Ring>(ring: &mut R, messages: &mut u64, failed: &mut Option<ReadError>) {
    let polled = ring.poll(|frame| *messages += read(frame));
    assert!(polled.is_ok_and(|count| count <= POLL_MAX) || polled.is_err());
    match failed {
        None | Some(ReadError::Lapped(_)) => *failed = polled.err().or(*failed),
        Some(last) => assert_eq!(polled, Err(*last), "it is final"),
    }
}

/// Reads all of a message. Returns how many that is.
fn read(frame: Frame<'_>) -> u64 {
    assert!(frame.bytes.len() as u64 <= RING_BYTES / 16);
    std::hint::black_box(frame.bytes.iter().fold(0, |a, b| a ^ b));
    1
}
