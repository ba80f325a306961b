//! Processes that are killed while they use shared memory: nothing torn, nobody stuck, nothing left behind.
//!
//! The processes are this test program again, which runs one of the ignored tests below. `SHM_KILLS` says how
//! often one is killed (200); `SEED` repeats a run. How long the others took to go on is told by the clock
//! on the wall and by this process's own, and judged by the latter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use testkit::Folder;
use testkit::repeat::Repeat;
use tickcast_net::clock;
use tickcast_net::shm::{
    ClaimError, Frame, Missed, OpenError, Pacing, ReadError, Receiver, SessionName, Source, SourceOptions,
    clean,
};
use units::Rng;

const RING_BYTES: u64 = 65_536;
/// No wait here takes as long unless something is stuck.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Whoever is left goes on within this time of the process's own.
const GOES_ON: Duration = Duration::from_secs(1);
const ROLE: &str = "SHM_KILL_ROLE";

fn kills() -> u32 {
    std::env::var("SHM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

fn options(directory: &Path, pacing: Pacing) -> SourceOptions {
    SourceOptions { directory: directory.into(), ring_bytes: RING_BYTES, pacing, ..SourceOptions::default() }
}

/// Time in which this process runs: between two looks a moment at most counts, so that a machine that stands
/// still, or is busy with others, is not taken for a process that is stuck.
struct Running {
    started: Instant,
    looked: Instant,
    sum: Duration,
}

/// The most that counts of the time between two looks.
const MOMENT: Duration = Duration::from_millis(50);

impl Running {
    fn start() -> Running {
        let now = Instant::now();
        Running { started: now, looked: now, sum: Duration::ZERO }
    }

    /// How long it is since the start.
    fn look(&mut self) -> Duration {
        let now = Instant::now();
        self.sum += (now - self.looked).min(MOMENT);
        self.looked = now;
        self.sum
    }
}

/// How long those that are left took to go on after a kill, at the most, by both clocks.
#[derive(Debug, Default)]
struct Longest {
    own: Duration,
    wall: Duration,
}

impl Longest {
    /// Takes in one kill, since which `running` has run.
    fn take(&mut self, running: &mut Running) {
        self.own = self.own.max(running.look());
        self.wall = self.wall.max(running.started.elapsed());
        assert!(self.own < GOES_ON, "those that are left took {self:?}");
    }
}

/// A directory of its own for each test, which must be empty in the end.
/// Another process that runs the ignored test `role`; killed when dropped.
struct Other(Child);

impl Other {
    fn start(role: &str, directory: &Path, session: u32, argument: u64) -> Other {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{} {session} {argument}", directory.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this program runs");
        Other(child)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a child has one");
        kill_process(pid, signal).expect("our own child");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `Other::start` has told this process, which then lives no longer than its parent; `None` when the test
/// was started by hand.
fn role() -> Option<(PathBuf, SessionName, u64)> {
    let role = std::env::var(ROLE).ok()?;
    set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    let mut parts = role.split(' ');
    let (directory, session) = (parts.next()?.into(), parts.next()?.parse().ok()?);
    Some((directory, SessionName { session_id: session, transport_id: 1 }, parts.next()?.parse().ok()?))
}

/// Message `number`: itself, then words that follow from it, some dozens.
fn fill(message: &mut [u8], number: u64, mut pause: impl FnMut()) {
    let half = message.len() / 16 * 8;
    for (i, word) in message.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&number.wrapping_mul(2 * i as u64 + 1).to_le_bytes());
        if i * 8 == half {
            pause();
        }
    }
}

fn message_bytes(number: u64) -> usize {
    8 + (number % 61) as usize * 8
}

/// The number of a message, after everything in it was checked.
fn number(frame: Frame<'_>) -> u64 {
    let number = u64::from_le_bytes(*frame.bytes.first_chunk().expect("none is shorter"));
    let mut expected = vec![0; message_bytes(number)];
    fill(&mut expected, number, || {});
    assert_eq!(frame.bytes, expected, "torn");
    assert_eq!(frame.tag, number as u32);
    number
}

fn send(source: &mut Source, number: u64, pause: impl FnMut()) -> bool {
    match source.claim(message_bytes(number), number as u32) {
        Ok(mut claim) => {
            fill(&mut claim, number, pause);
            claim.commit();
            true
        }
        Err(ClaimError::Full) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Reads one stream and checks that nothing is missing that it was not told of.
struct Check {
    receiver: Receiver,
    next: Option<u64>,
}

impl Check {
    fn new(receiver: Receiver) -> Check {
        Check { receiver, next: None }
    }

    /// Returns how many messages there were.
    fn poll(&mut self) -> Result<usize, ReadError> {
        let next = &mut self.next;
        let polled = self.receiver.poll(100, |frame| {
            let number = number(frame);
            assert_eq!(number, next.unwrap_or(number), "one is missing, or came twice");
            *next = Some(number + 1);
        });
        match polled {
            Err(ReadError::Lapped(Missed { messages, .. })) => {
                self.next = self.next.zip(messages).map(|(next, missed)| next + missed);
                Ok(0)
            }
            other => other,
        }
    }
}

fn pacing(is_receiver_paced: bool) -> Pacing {
    if is_receiver_paced { Pacing::Receiver { drop_stopped_after: None } } else { Pacing::Source }
}

#[test]
#[ignore = "the source of `a_source_may_be_killed_at_any_instruction`"]
fn source_process() {
    let Some((directory, name, argument)) = role() else { return };
    let mut source = Source::create(name, &options(&directory, pacing(argument % 2 == 1))).expect("room");
    let mut rng = Rng::new(argument);
    let mut number = 0;
    // Most of the time is spent between claim and commit.
    let pause = |spins: u64| (0..spins).for_each(|_| std::hint::spin_loop());
    loop {
        let spins = rng.below(40);
        if send(&mut source, number, || pause(spins)) {
            number += 1;
        } else {
            std::thread::yield_now();
        }
        if rng.below(3) == 0 {
            source.publish();
        }
        if number % 1_000 == 0 {
            source.look_after_readers(clock::monotonic());
        }
    }
}

/// Waits until the source has made its ring; `None` if it should be killed before.
fn open_soon(name: SessionName, directory: &Path, patience: Duration) -> Option<Receiver> {
    let mut waits = Running::start();
    loop {
        match Receiver::open(name, directory) {
            Ok(receiver) => return Some(receiver),
            Err(OpenError::Ended) if waits.look() < patience => std::thread::yield_now(),
            Err(OpenError::Ended) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_source_may_be_killed_at_any_instruction() {
    let place = Folder::in_memory();
    let repeat = Repeat::of_new_seed(testkit::here!()).depending_on("SHM_KILLS");
    let mut rng = Rng::new(repeat.seed());
    let (mut in_creation, mut messages, mut longest) = (0, 0, Longest::default());
    for session in 0..kills() {
        let argument = rng.next_u64() >> 1;
        let other = Other::start("source_process", &place, session, argument);
        let name = SessionName { session_id: session, transport_id: 1 };
        // One in eight is killed while it starts.
        let patience = if rng.below(8) == 0 { Duration::from_micros(rng.below(6_000)) } else { WATCHDOG };
        let mut readers = Vec::new();
        if let Some(receiver) = open_soon(name, &place, patience) {
            readers.push(Check::new(receiver));
            if let Ok(receiver) = Receiver::open(name, &place) {
                readers.push(Check::new(receiver));
            }
        } else {
            assert!(patience < WATCHDOG, "the source has not come");
            in_creation += 1;
        }
        let (mut started, enough) = (Running::start(), messages + rng.below(300) as usize);
        while !readers.is_empty() && messages < enough {
            for reader in &mut readers {
                messages += reader.poll().expect("its source lives");
            }
            assert!(started.look() < WATCHDOG, "nothing comes");
        }
        let kill_at = Instant::now() + Duration::from_micros(rng.below(500));
        while Instant::now() < kill_at {
            for reader in &mut readers {
                messages += reader.poll().expect("its source lives");
            }
        }
        let mut killed = Running::start();
        other.signal(Signal::KILL);
        for reader in &mut readers {
            while !reader.receiver.is_over() {
                messages += reader.poll().expect("what was published is whole");
                assert!(killed.look() < WATCHDOG, "the end has not come");
            }
            longest.take(&mut killed);
        }
        drop(other);
        if readers.is_empty() {
            clean(&place).expect("a directory of our own");
        }
        assert_eq!(place.names(), [""; 0], "the file of session {session} was left behind");
    }
    println!(
        "{} sources killed, {in_creation} before they were found; {messages} messages, all whole; the end was seen \
         after {:?} at the latest, {:?} by the clock on the wall",
        kills(),
        longest.own,
        longest.wall
    );
}

/// How a receiving process ends that was dropped.
const DROPPED: i32 = 7;

#[test]
#[ignore = "the receiver of the tests below"]
fn receiver_process() {
    let Some((directory, name, argument)) = role() else { return };
    let mut reader = Check::new(Receiver::open(name, &directory).expect("its source is there"));
    let sleeps = argument % 2 == 1;
    if sleeps {
        reader.receiver.enable_sleep().expect("a slot is free");
    }
    loop {
        match reader.poll() {
            Ok(0) if sleeps => {
                reader.receiver.before_sleep();
                reader.receiver.after_sleep();
            }
            Ok(_) => {}
            Err(ReadError::Dropped) => std::process::exit(DROPPED),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends and receives in this process until `until` is true.
fn stream_until(
    source: &mut Source,
    steady: &mut Check,
    next: &mut u64,
    mut until: impl FnMut(&mut Source) -> bool,
) {
    let mut start = Running::start();
    while !until(source) {
        for _ in 0..100 {
            *next += u64::from(send(source, *next, || {}));
        }
        source.publish();
        steady.poll().expect("it reads all the time");
        assert!(start.look() < WATCHDOG, "a receiver is in the way");
    }
}

#[test]
fn receivers_may_be_killed_at_any_instruction() {
    let place = Folder::in_memory();
    let repeat = Repeat::of_new_seed(testkit::here!()).depending_on("SHM_KILLS");
    let mut rng = Rng::new(repeat.seed());
    let name = SessionName { session_id: 1, transport_id: 1 };
    let mut source = Source::create(name, &options(&place, pacing(true))).expect("room");
    let mut steady = Check::new(Receiver::open(name, &place).expect("it was just made"));
    let (mut next, mut died, mut longest) = (0, 0, Longest::default());
    source.look_after_readers(clock::monotonic());
    for _ in 0..kills() {
        let other = Other::start("receiver_process", &place, 1, rng.next_u64() >> 1);
        stream_until(&mut source, &mut steady, &mut next, |source| {
            source.look_after_readers(clock::monotonic()).joined > 0
        });
        let kill_at = Instant::now() + Duration::from_micros(rng.below(2_000));
        stream_until(&mut source, &mut steady, &mut next, |_| Instant::now() >= kill_at);
        let mut killed = Running::start();
        drop(other);
        let goes_on_at = source.position() + 3 * RING_BYTES;
        stream_until(&mut source, &mut steady, &mut next, |source| {
            died += source.look_after_readers(clock::monotonic()).died;
            killed.look();
            source.position() > goes_on_at
        });
        longest.take(&mut killed);
    }
    assert_eq!(died, kills(), "each was noticed");
    assert_eq!(source.readers().count(), 1);
    source.publish();
    while steady.poll().expect("it reads all the time") > 0 {}
    assert_eq!(steady.next, Some(next), "the other receiver got everything");
    println!(
        "{} receivers killed; {next} messages, all whole; three rings more were sent and read after {:?} at the \
         latest, {:?} by the clock on the wall",
        kills(),
        longest.own,
        longest.wall
    );
    drop(source);
    drop(steady);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_stopped_process_is_dropped_and_hears_of_it_when_it_goes_on() {
    let place = Folder::in_memory();
    let name = SessionName { session_id: 1, transport_id: 1 };
    let pacing = Pacing::Receiver { drop_stopped_after: Some(Duration::from_millis(300)) };
    let mut source = Source::create(name, &options(&place, pacing)).expect("room");
    let mut steady = Check::new(Receiver::open(name, &place).expect("it was just made"));
    let mut next = 0;
    source.look_after_readers(clock::monotonic());
    let mut others = HashMap::new();
    for i in 0..3 {
        let other = Other::start("receiver_process", &place, 1, i);
        stream_until(&mut source, &mut steady, &mut next, |source| {
            source.look_after_readers(clock::monotonic()).joined > 0
        });
        others.insert(i, other);
    }
    others.values().for_each(|other| other.signal(Signal::STOP));
    let mut dropped = 0;
    stream_until(&mut source, &mut steady, &mut next, |source| {
        dropped += source.look_after_readers(clock::monotonic()).dropped;
        dropped >= 3
    });
    let goes_on_at = source.position() + 3 * RING_BYTES;
    stream_until(&mut source, &mut steady, &mut next, |source| source.position() > goes_on_at);
    source.look_after_readers(clock::monotonic());
    assert!(source.counters().segments_skipped.get() > 0, "what they may be reading stays as it is");
    others.values().for_each(|other| other.signal(Signal::CONT));
    for other in others.values_mut() {
        let status = other.0.wait().expect("our own child");
        assert_eq!(status.code(), Some(DROPPED), "nothing torn before it hears that it was dropped");
    }
    source.look_after_readers(clock::monotonic());
    assert_eq!(source.readers().count(), 1);
}
