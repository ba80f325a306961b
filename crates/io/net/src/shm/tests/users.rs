//! Sources and receivers of different users.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use testkit::Folder;

use crate::shm::{OpenError, Pacing, Receiver, SessionName, Source, SourceOptions, Wait};
use crate::{Interest, Poller, Token};

const NAME: SessionName = SessionName { session_id: 0xbeef, transport_id: 3 };
const GROUP: u32 = 64_000;
const SENDS: u32 = 64_001;
const HEARS: u32 = 64_002;

/// A folder in which everybody may make files, as in `/dev/shm`.
fn open_folder() -> Folder {
    let folder = Folder::in_memory();
    fs::set_permissions(&folder, Permissions::from_mode(0o1777)).expect("it was just made");
    folder
}

fn source(directory: &Path, group: Option<u32>) -> Source {
    let options = SourceOptions {
        directory: directory.to_owned(),
        ring_bytes: 1 << 16,
        pacing: Pacing::Receiver { drop_stopped_after: None },
        permissions: if group.is_some() { 0o660 } else { 0o600 },
        group,
    };
    Source::create(NAME, &options).expect("there is room")
}

/// Runs both ends as users of their own, with a stream between them.
fn run(sends: impl FnOnce(&mut UnixStream) -> bool, hears: impl FnOnce(&mut UnixStream) -> bool) {
    if !testkit::child::is_root() {
        eprintln!("skipped: only root becomes other users");
        return;
    }
    let (mut near, mut far) = UnixStream::pair().expect("descriptors are left");
    for end in [&near, &far] {
        end.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    }
    let as_user = |user| testkit::child::become_user(user, GROUP).expect("root may");
    let sending = testkit::child::fork(|| {
        as_user(SENDS);
        sends(&mut near)
    });
    let hearing = testkit::child::fork(|| {
        as_user(HEARS);
        hears(&mut far)
    });
    assert!(hearing.expect("processes are left").has_ended_well(), "the receiver");
    assert!(sending.expect("processes are left").has_ended_well(), "the source");
}

fn say(to: &mut UnixStream) {
    to.write_all(&[1]).expect("the other side lives");
}

fn wait_for(from: &mut UnixStream) {
    from.read_exact(&mut [0]).expect("the other side says so within a minute");
}

#[test]
fn members_of_the_group_receive_and_are_woken_whatever_the_umask() {
    let place = open_folder();
    let sends = |other: &mut UnixStream| {
        let mut source = source(&place, Some(GROUP));
        say(other);
        wait_for(other);
        source.push(0, &[b"news"]).expect("there is room");
        source.publish();
        wait_for(other);
        source.counters().wakes_sent.get() == 1 && source.counters().wakes_failed.get() == 0
    };
    let hears = |other: &mut UnixStream| {
        wait_for(other);
        let mut receiver = Receiver::open(NAME, &place).expect("a member may");
        let mut poller = Poller::new().expect("descriptors are left");
        let bell = receiver.enable_sleep().expect("a slot is free");
        poller.registrar().add(bell, Token(1), Interest::Read).expect("a socket");
        let socket = fs::metadata(place.join(format!("{NAME}.w0"))).expect("its name");
        assert_eq!((socket.mode() & 0o777, socket.gid()), (0o660, GROUP));
        assert!(!matches!(receiver.before_sleep(), Wait::Ready));
        say(other);
        let is_woken = poller.wait(Some(Duration::from_secs(60))).expect("a socket").count() == 1;
        receiver.after_sleep();
        let mut heard = Vec::new();
        receiver.poll(10, |frame| heard.extend_from_slice(frame.bytes)).expect("it reads all");
        say(other);
        is_woken && heard == b"news"
    };
    run(sends, hears);
}

#[test]
fn without_a_group_others_are_denied_and_told_file_user_and_permissions() {
    let place = open_folder();
    let sends = |other: &mut UnixStream| {
        let source = source(&place, None);
        let is_own = Receiver::open(NAME, &place).is_ok();
        say(other);
        wait_for(other);
        is_own && source.path().exists()
    };
    let hears = |other: &mut UnixStream| {
        wait_for(other);
        let error = Receiver::open(NAME, &place).err().expect("a stranger may not");
        let text = error.to_string();
        let is_removed = crate::shm::clean(&place).is_ok_and(|count| count > 0);
        say(other);
        let is_told =
            [&NAME.to_string(), "64002", "64001", "600", "ipc.group"].iter().all(|word| text.contains(word));
        assert!(is_told, "{text}");
        matches!(error, OpenError::Denied { user: HEARS, owner: SENDS, permissions: 0o600, .. })
            && !is_removed
    };
    run(sends, hears);
}

#[test]
fn a_group_that_the_process_is_not_a_member_of_is_refused_by_name() {
    let place = open_folder();
    let child = |_: &mut UnixStream| {
        let options = SourceOptions {
            directory: place.to_path_buf(),
            group: Some(GROUP + 9),
            ..SourceOptions::default()
        };
        let error = Source::create(NAME, &options).err().expect("only members and root may give it away");
        let text = error.to_string();
        assert!(["64001", "64009", "LBTIPC_beef_3"].iter().all(|word| text.contains(word)), "{text}");
        true
    };
    run(child, |_| true);
    assert_eq!(fs::read_dir(&place).expect("it is there").count(), 0, "nothing is left");
}
