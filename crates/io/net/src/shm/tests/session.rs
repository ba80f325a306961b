//! Files, locks and sleeping.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use units::Nanos;

use crate::shm::file;
use crate::shm::layout::{CONTROL_BYTES, Identity, RING_BYTES_MIN, SLOT_COUNT};
use crate::shm::{
    ClaimError, LayoutError, OpenError, Pacing, ReadError, ReaderChanges, Receiver, SessionName, Source,
    SourceOptions, Wait, clean, slots,
};
use crate::{Interest, Poller, Token, byte_lock, owned_file};
use testkit::Folder;

const LIMIT: Duration = Duration::from_secs(5);
const PACED: Pacing = Pacing::Receiver { drop_stopped_after: Some(LIMIT) };
const NAME: SessionName = SessionName { session_id: 0xabc, transport_id: 1 };

/// A folder of its own for each test.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        Place(Folder::in_memory())
    }

    fn source(&self, pacing: Pacing) -> Source {
        let options = SourceOptions {
            directory: self.0.to_path_buf(),
            ring_bytes: RING_BYTES_MIN,
            pacing,
            ..SourceOptions::default()
        };
        Source::create(NAME, &options).expect("a directory of our own")
    }

    fn open(&self) -> Result<Receiver, OpenError> {
        Receiver::open(NAME, &self.0)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

fn identity(is_receiver_paced: bool) -> Identity {
    let SessionName { session_id, transport_id } = NAME;
    let ring_bytes = RING_BYTES_MIN;
    Identity { ring_bytes, session_id, transport_id, is_receiver_paced, source_pid: 1, created_ns: 1 }
}

fn send(source: &mut Source, message: &[u8]) -> Result<(), ClaimError> {
    source.push(0, &[message])?;
    source.publish();
    Ok(())
}

fn read_all(receiver: &mut Receiver) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    receiver.poll(usize::MAX, |frame| all.push(frame.bytes.to_vec())).expect("no loss, no nonsense");
    all
}

fn fill(source: &mut Source) -> usize {
    (0..).take_while(|_| send(source, &[0; 1016]).is_ok()).count()
}

#[test]
fn receivers_get_what_is_sent_after_they_came_then_the_end() {
    for pacing in [Pacing::Source, PACED] {
        let place = Place::new();
        let mut source = place.source(pacing);
        assert_eq!(place.names(), ["LBTIPC_abc_1"]);
        send(&mut source, b"before").unwrap();
        let mut receivers = [place.open().unwrap(), place.open().unwrap()];
        source.push(0, &[b"a", b"", b"bc"]).unwrap();
        source.publish();
        source.push(0, &[b"last"]).unwrap();
        for receiver in &mut receivers {
            assert_eq!(read_all(receiver), [b"abc"]);
            assert!(!receiver.is_over());
        }
        drop(source);
        assert_eq!(place.names(), [""; 0], "the source takes its file away");
        for receiver in &mut receivers {
            assert!(!receiver.is_over(), "something is left to read");
            assert_eq!(read_all(receiver), [b"last"]);
            assert!(receiver.is_over() && receiver.has_closed());
        }
        assert!(matches!(place.open(), Err(OpenError::Ended)));
    }
}

#[test]
fn the_source_hears_of_receivers_that_come_and_go() {
    let place = Place::new();
    let mut source = place.source(PACED);
    let receivers = [place.open().unwrap(), place.open().unwrap()];
    let joined = ReaderChanges { joined: 2, ..ReaderChanges::default() };
    assert_eq!(source.look_after_readers(Nanos(1)), joined);
    assert_eq!(source.look_after_readers(Nanos(2)), ReaderChanges::default());
    send(&mut source, b"12345678").unwrap();
    let all: Vec<_> = source.readers().collect();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|r| (r.pid, r.lag_bytes, r.is_dropped) == (std::process::id(), 16, false)));
    drop(receivers);
    let left = ReaderChanges { left: 2, ..ReaderChanges::default() };
    assert_eq!(source.look_after_readers(Nanos(3)), left);
    assert_eq!(source.readers().count(), 0);
}

#[test]
fn what_a_lapped_receiver_gets_and_misses_is_counted() {
    let place = Place::new();
    let mut source = place.source(Pacing::Source);
    let mut receiver = place.open().unwrap();
    for _ in 0..201 {
        send(&mut source, &[1; 1016]).unwrap();
    }
    let polled = receiver.poll(usize::MAX, |_| {});
    let Err(ReadError::Lapped(missed)) = polled else { panic!("{polled:?}") };
    let rest = read_all(&mut receiver).len() as u64;
    let counted = receiver.counters();
    assert_eq!((counted.lapped.get(), Some(counted.msgs_missed.get())), (1, missed.messages));
    assert_eq!((counted.msgs_rcved.get(), counted.msgs_rcved.get() + counted.msgs_missed.get()), (rest, 201));
    assert_eq!(counted.bytes_rcved.get() + counted.bytes_missed.get(), source.position());
    let file = owned_file::open_existing(source.path()).unwrap();
    file.write_all_at(&[0xff; 8], CONTROL_BYTES as u64 + source.position() % RING_BYTES_MIN).unwrap();
    for _ in 0..2 {
        assert!(matches!(receiver.poll(1, |_| {}), Err(ReadError::Nonsense { .. })));
    }
    assert_eq!(receiver.counters().nonsense.get(), 1);
}

#[test]
fn a_ring_has_room_for_so_many_receivers() {
    let place = Place::new();
    let _source = place.source(PACED);
    let all: Vec<_> = (0..SLOT_COUNT).map(|_| place.open().unwrap()).collect();
    assert!(matches!(place.open(), Err(OpenError::NoSlot { max: SLOT_COUNT })));
    drop(all);
    assert!(place.open().is_ok());
}

/// A receiver whose process has died: its slot is taken, its lock is gone.
fn leave_a_dead_receiver(place: &Place) {
    let file = owned_file::open_existing(&NAME.path(&place.0)).unwrap();
    let region = file::map(&file, &identity(true), false).unwrap();
    assert!(byte_lock::try_lock(&file, file::slot_lock(0)).unwrap());
    slots::join(region.control(), 0, 4711);
    fs::write(place.0.join("LBTIPC_abc_1.w0"), b"").unwrap();
}

#[test]
fn a_dead_receiver_gives_its_room_back() {
    let place = Place::new();
    let mut source = place.source(Pacing::Receiver { drop_stopped_after: None });
    leave_a_dead_receiver(&place);
    assert_eq!(fill(&mut source), 64);
    assert_eq!(source.readers().map(|r| r.pid).collect::<Vec<_>>(), [4711]);
    let died = ReaderChanges { joined: 1, left: 1, died: 1, dropped: 0 };
    assert_eq!(source.look_after_readers(Nanos(1)), died);
    assert_eq!(place.names(), ["LBTIPC_abc_1"], "its socket is removed");
    let counted = source.counters();
    assert_eq!(
        (counted.clients_died.get(), counted.clients_left.get(), counted.num_clients.get()),
        (1, 1, 0)
    );
    assert_eq!((counted.send_would_block.get(), counted.msgs_sent.get()), (1, 64));
    assert_eq!(counted.bytes_sent.get(), RING_BYTES_MIN);
    assert_eq!(send(&mut source, b"on it goes"), Ok(()));
    assert_eq!(source.look_after_readers(Nanos(2)), ReaderChanges::default());
}

#[test]
fn a_stopped_receiver_is_dropped_after_its_time() {
    let place = Place::new();
    let mut source = place.source(PACED);
    let (mut stopped, mut fast) = (place.open().unwrap(), place.open().unwrap());
    let start = Nanos(1_000);
    source.look_after_readers(start);
    let idle = start.after(LIMIT * 10);
    assert_eq!(source.look_after_readers(idle).dropped, 0, "nobody waits for it");
    assert_eq!(fill(&mut source), 64);
    assert_eq!(read_all(&mut fast).len(), 64);
    assert_eq!(source.look_after_readers(idle).dropped, 0);
    assert_eq!(stopped.poll(1, |_| {}), Ok(1), "slow, but not stopped");
    assert_eq!(source.look_after_readers(idle.after(LIMIT)).dropped, 0);
    let last = idle.after(LIMIT * 2);
    assert_eq!(source.look_after_readers(last), ReaderChanges { dropped: 1, ..ReaderChanges::default() });
    assert_eq!(source.readers().filter(|r| r.is_dropped).count(), 1);
    assert_eq!(send(&mut source, b"on it goes"), Ok(()));
    assert_eq!(read_all(&mut fast), [b"on it goes"]);
    assert_eq!(stopped.poll(usize::MAX, |_| {}), Ok(3), "the rest of its segment");
    for _ in 0..2 {
        assert_eq!(stopped.poll(usize::MAX, |_| {}), Err(ReadError::Dropped));
    }
    assert_eq!(stopped.counters().dropped.get(), 1);
    assert_eq!(stopped.counters().bytes_rcved.get(), 4 * 1024);
    drop(stopped);
    assert_eq!(source.look_after_readers(last).left, 1);
    let counted = source.counters();
    assert_eq!((counted.clients_dropped.get(), counted.segments_skipped.get()), (1, 1));
    assert_eq!(
        (counted.clients_joined.get(), counted.clients_left.get(), counted.num_clients.get()),
        (2, 1, 1)
    );
}

#[test]
fn a_receiver_is_never_dropped_where_that_is_not_configured() {
    let place = Place::new();
    let mut source = place.source(Pacing::Receiver { drop_stopped_after: None });
    let mut stopped = place.open().unwrap();
    assert_eq!(fill(&mut source), 64);
    for second in 0..1_000 {
        assert_eq!(source.look_after_readers(Nanos(second * 1_000_000_000)).dropped, 0);
    }
    assert_eq!(read_all(&mut stopped).len(), 64);
}

#[test]
fn a_living_source_keeps_its_name_and_a_dead_one_does_not() {
    let place = Place::new();
    let options =
        SourceOptions { directory: place.0.to_path_buf(), ring_bytes: RING_BYTES_MIN, ..Default::default() };
    let living = place.source(Pacing::Source);
    let error = Source::create(NAME, &options).err().expect("the name is taken");
    assert!(error.to_string().contains("LBTIPC_abc_1"), "{error}");
    assert_eq!(clean(&place.0).unwrap(), 0);
    drop(living);
    leave_a_dead_source(&place);
    drop(Source::create(NAME, &options).expect("the dead one's is removed"));
    assert_eq!(place.names(), [""; 0]);
}

fn leave_a_dead_source(place: &Place) {
    let path = NAME.path(&place.0);
    file::create(&path, &identity(true), (0o600, None)).unwrap();
    assert!(path.exists());
}

#[test]
fn what_dead_sources_have_left_is_removed() {
    let place = Place::new();
    leave_a_dead_source(&place);
    assert!(matches!(place.open(), Err(OpenError::Ended)));
    assert_eq!(place.names(), [""; 0], "by a receiver that finds it");
    leave_a_dead_source(&place);
    fs::write(place.0.join("LBTIPC_abc_1.w7"), b"").unwrap();
    fs::write(place.0.join("LBTIPC_other"), b"").unwrap();
    assert_eq!(clean(&place.0).unwrap(), 1);
    clean(&place.0).unwrap();
    assert_eq!(place.names(), ["LBTIPC_other"], "and by whoever cleans, who leaves other files alone");
    leave_a_dead_source(&place);
    let other = SessionName { session_id: 0xabd, ..NAME };
    let options =
        SourceOptions { directory: place.0.to_path_buf(), ring_bytes: RING_BYTES_MIN, ..Default::default() };
    let _source = Source::create(other, &options).unwrap();
    assert_eq!(place.names(), ["LBTIPC_abd_1", "LBTIPC_other"], "as the next source does");
}

#[test]
fn a_receiver_sees_its_source_die() {
    for is_receiver_paced in [true, false] {
        let place = Place::new();
        let path = NAME.path(&place.0);
        let (file, region) = file::create(&path, &identity(is_receiver_paced), (0o600, None)).unwrap();
        let mut producer = crate::shm::producer::Producer::new(region.into(), is_receiver_paced);
        let mut receiver = place.open().unwrap();
        producer.claim(4, 0).unwrap().commit();
        producer.publish();
        producer.claim(4, 0).unwrap().commit();
        producer.claim(4, 0).unwrap().fill(1);
        assert!(!receiver.is_over());
        drop((file, producer));
        assert!(!receiver.is_over(), "something is left to read");
        assert_eq!(read_all(&mut receiver), [[0; 4]], "what was published");
        assert!(receiver.is_over());
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn files_of_others_or_of_other_shape_are_refused() {
    let _repeat = testkit::repeat!();
    let place = Place::new();
    let source = place.source(Pacing::Source);
    let path = NAME.path(&place.0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(place.open(), Err(OpenError::Untrusted { permissions: 0o666, .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    let other = SessionName { transport_id: 2, ..NAME };
    fs::hard_link(&path, other.path(&place.0)).unwrap();
    let found = Receiver::open(other, &place.0).err();
    assert!(
        matches!(
            found,
            Some(OpenError::Layout(LayoutError::OtherSession { session_id: 0xabc, transport_id: 1 }))
        ),
        "{found:?}"
    );
    let file = owned_file::open_existing(&path).unwrap();
    file.set_len(CONTROL_BYTES as u64).unwrap();
    assert!(matches!(place.open(), Err(OpenError::Layout(LayoutError::FileBytes { .. }))));
    file.set_len(10).unwrap();
    assert!(matches!(place.open(), Err(OpenError::Layout(LayoutError::FileBytes { .. }))));
    std::mem::forget(source);
    fs::remove_file(&path).unwrap();
    let mut rng = units::Rng::new(5);
    for _ in 0..200 {
        let nonsense: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.next_u64() as u8).collect();
        fs::write(&path, nonsense).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(place.open(), Err(OpenError::Layout(_))));
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(other.path(&place.0), &path).unwrap();
    assert!(matches!(place.open(), Err(OpenError::Io(_))), "no link is followed");
}

#[test]
fn a_ring_of_a_size_that_is_not_allowed_is_refused() {
    for ring_bytes in [0, RING_BYTES_MIN - 1, RING_BYTES_MIN / 2, RING_BYTES_MIN + 8, 1 << 35, u64::MAX] {
        let options = SourceOptions { ring_bytes, ..SourceOptions::default() };
        let error = Source::create(NAME, &options).err().expect("not allowed");
        assert!(error.to_string().contains(&ring_bytes.to_string()), "{error}");
    }
}

#[test]
fn nothing_is_left_of_a_source_that_cannot_get_its_name() {
    let place = Place::new();
    fs::create_dir(NAME.path(&place.0)).unwrap();
    let options =
        SourceOptions { directory: place.0.to_path_buf(), ring_bytes: RING_BYTES_MIN, ..Default::default() };
    assert!(Source::create(NAME, &options).is_err());
    assert_eq!(place.names(), ["LBTIPC_abc_1"]);
    assert!(Source::create(NAME, &SourceOptions { directory: "/nowhere".into(), ..options }).is_err());
}

#[test]
fn names_that_somebody_has_removed_are_noticed_and_a_bell_is_made_anew() {
    let place = Place::new();
    let mut source = place.source(Pacing::Source);
    let mut receiver = place.open().unwrap();
    receiver.enable_sleep().unwrap();
    assert!(source.has_name() && !receiver.has_lost_bell());
    let (ring, bell) = (source.path().to_owned(), source.path().with_extension("w0"));
    std::fs::remove_file(&bell).unwrap();
    assert!(receiver.has_lost_bell());
    assert!(!receiver.has_bell() && !receiver.has_lost_bell(), "it has none");
    receiver.enable_sleep().unwrap();
    assert_eq!(place.names(), ["LBTIPC_abc_1", "LBTIPC_abc_1.w0"]);
    assert!(!receiver.has_lost_bell());
    assert_eq!(receiver.counters().bells_lost.get(), 1);
    // Another file of that name is no bell, and is left alone.
    std::fs::remove_file(&bell).unwrap();
    std::fs::write(&bell, b"other").unwrap();
    assert!(receiver.has_lost_bell());
    assert_eq!(std::fs::read(&bell).unwrap(), b"other");
    std::fs::remove_file(&ring).unwrap();
    assert!(!source.has_name());
    send(&mut source, b"it goes on").unwrap();
    assert_eq!(read_all(&mut receiver), [b"it goes on"]);
}

#[test]
fn a_sleeping_receiver_is_woken() {
    for pacing in [Pacing::Source, PACED] {
        let place = Place::new();
        let mut source = place.source(pacing);
        let mut receiver = place.open().unwrap();
        send(&mut source, b"awake").unwrap();
        assert_eq!(source.counters().wakes_sent.get(), 0, "nobody sleeps, nobody is woken");
        let mut poller = Poller::new().unwrap();
        let bell = receiver.enable_sleep().unwrap();
        poller.registrar().add(bell, Token(1), Interest::Read).unwrap();
        assert_eq!(place.names(), ["LBTIPC_abc_1", "LBTIPC_abc_1.w0"]);
        assert_eq!(receiver.before_sleep(), Wait::Ready);
        receiver.after_sleep();
        assert_eq!(read_all(&mut receiver), [b"awake"]);
        assert_eq!(receiver.before_sleep(), Wait::SleepAtMost(Duration::from_millis(1)));
        receiver.after_sleep();
        send(&mut source, b"noticed").unwrap();
        assert_eq!(read_all(&mut receiver), [b"noticed"]);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            while !receiver.is_over() {
                if receiver.poll(usize::MAX, |frame| all.push(frame.bytes[0])).unwrap() > 0 {
                    continue;
                }
                let limit = match receiver.before_sleep() {
                    Wait::Ready => Duration::ZERO,
                    Wait::Sleep => Duration::from_secs(60),
                    Wait::SleepAtMost(limit) => limit,
                };
                let ready = poller.wait(Some(limit)).unwrap().count();
                assert!(ready > 0 || limit < Duration::from_secs(60), "a wake-up was lost");
                receiver.after_sleep();
            }
            all
        });
        for i in 0..50 {
            send(&mut source, &[i]).unwrap();
            std::thread::sleep(Duration::from_millis(u64::from(i % 3)));
        }
        assert!(source.counters().wakes_sent.get() > 0, "it has slept at least once");
        drop(source);
        assert_eq!(reader.join().unwrap(), (0..50).collect::<Vec<u8>>());
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn a_receiver_with_a_slot_and_without_a_socket_looks_by_itself() {
    let place = Place::new();
    let mut source = place.source(PACED);
    let mut receiver = place.open().unwrap();
    // Its socket's name is taken by what cannot be replaced.
    fs::create_dir(place.0.join("LBTIPC_abc_1.w0")).unwrap();
    assert!(receiver.enable_sleep().is_err());
    assert_eq!(receiver.before_sleep(), Wait::SleepAtMost(Duration::from_millis(1)));
    receiver.after_sleep();
    send(&mut source, b"found").unwrap();
    assert_eq!(source.counters().wakes_sent.get(), 0, "nobody could be woken");
    assert_eq!(read_all(&mut receiver), [b"found"]);
}

#[test]
fn a_socket_that_a_dead_receiver_has_left_is_replaced() {
    let place = Place::new();
    let _source = place.source(PACED);
    fs::write(place.0.join("LBTIPC_abc_1.w0"), b"").unwrap();
    let mut receiver = place.open().unwrap();
    assert!(receiver.enable_sleep().is_ok());
}

#[test]
fn the_identity_of_a_file_is_complete_before_it_has_a_name() {
    let place = Place::new();
    let source = place.source(PACED);
    let file = owned_file::open_existing(Path::new(source.path())).unwrap();
    let mut start = [0; Identity::BYTES];
    file.read_exact_at(&mut start, 0).unwrap();
    let found = Identity::parse(&start, file.metadata().unwrap().len()).unwrap();
    assert_eq!((found.source_pid, found.is_receiver_paced), (std::process::id(), true));
    assert!(owned_file::is_owned(&file).unwrap());
}
