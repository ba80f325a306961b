//! Recorders by the functions of the header, called as C calls them.

use std::ffi::{CStr, CString, c_int};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{null, null_mut};

use testkit::Folder;
use tickcast::error::{ErrorCode, tickcast_last_error};
use tickcast::recorder::*;

fn last_error() -> String {
    // SAFETY: it is a text until the next error of this thread.
    unsafe { CStr::from_ptr(tickcast_last_error()) }.to_string_lossy().into_owned()
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zeros")
}

fn create(point: &str, capacity: u64, clock: u32) -> Result<*mut RecorderHandle, (c_int, String)> {
    let (point, mut recorder) = (text(point), null_mut());
    // SAFETY: texts and places are ours.
    match unsafe { tickcast_recorder_create(point.as_ptr(), null(), capacity, clock, &raw mut recorder) } {
        0 => Ok(recorder),
        code => Err((code, last_error())),
    }
}

fn write(recorder: *mut RecorderHandle, path: &Path) -> c_int {
    let path = text(&path.display().to_string());
    // SAFETY: the recorder lives, and the path is ours.
    unsafe { tickcast_recorder_write(recorder, path.as_ptr()) }
}

#[test]
fn what_is_recorded_is_written_and_what_finds_no_room_is_counted() {
    let folder = Folder::new();
    let recorder = create("c", 3, clocks::MONOTONIC).expect("48 bytes of memory");
    // SAFETY: it lives until the end of this test, which alone uses it.
    let codes: Vec<c_int> = (0..5).map(|id| unsafe { tickcast_recorder_record(recorder, id) }).collect();
    let full = ErrorCode::Limit as c_int;
    assert_eq!(codes, [0, 0, 0, full, full]);
    let mut recorded = MaybeUninit::<RecordedValue>::uninit();
    // SAFETY: as above, and the place is ours; it is filled when the answer is 0.
    let recorded = unsafe {
        assert_eq!(tickcast_recorder_look(recorder, recorded.as_mut_ptr()), 0);
        recorded.assume_init()
    };
    assert_eq!((recorded.records, recorded.lost, recorded.capacity), (3, 2, 3));
    assert!(recorded.clock == clocks::MONOTONIC && recorded.cost_ns > 0.0);
    assert_eq!(write(recorder, &folder.join("file")), 0);
    let file = observation::Reader::open(&folder.join("file")).expect("as it was written");
    assert_eq!((file.head().records, file.head().lost, &*file.head().stream), (3, 2, ""));
    assert_eq!(write(recorder, &folder.join("none/file")), ErrorCode::Io as c_int);
    assert!(last_error().contains("none/file"), "{}", last_error());
    // SAFETY: it is not used any more; NULL is nothing.
    unsafe { (tickcast_recorder_destroy(recorder), tickcast_recorder_destroy(null_mut())) };
}

#[test]
fn a_recorder_that_cannot_be_made_says_why() {
    let (config, argument) = (ErrorCode::Config as c_int, ErrorCode::Argument as c_int);
    let refused = |point: &str, capacity, clock| create(point, capacity, clock).expect_err("refused");
    let (code, said) = refused("", 1, clocks::DEFAULT);
    assert!(code == config && said.contains("a name is 1 to 64 bytes"), "{said}");
    let (code, said) = refused("c", 0, clocks::DEFAULT);
    assert!(code == config && said.contains("it is 1 to 34359738368"), "{said}");
    assert_eq!(refused("c", 1, 4), (argument, "there is no such clock".to_owned()));
    let (point, mut none) = (text("c"), null_mut());
    // SAFETY: what is NULL is looked at.
    unsafe {
        assert_eq!(tickcast_recorder_create(null(), null(), 1, 0, &raw mut none), argument);
        assert_eq!(tickcast_recorder_create(point.as_ptr(), null(), 1, 0, null_mut()), argument);
        assert_eq!(tickcast_recorder_record(null_mut(), 1), argument);
        assert_eq!(tickcast_recorder_look(null(), null_mut()), argument);
        assert_eq!(tickcast_recorder_write(null(), point.as_ptr()), argument);
    }
}

#[test]
fn a_child_made_by_fork_records_into_nothing_and_writes_no_file() {
    let folder = Folder::new();
    let recorder = create("c", 10, clocks::MONOTONIC).expect("160 bytes of memory");
    let child = testkit::child::fork(|| {
        // SAFETY: the child's copy, which it alone uses.
        unsafe { tickcast_recorder_record(recorder, 1) };
        write(recorder, &folder.join("file")) == ErrorCode::Forked as c_int
    });
    assert!(child.expect("processes are left").has_ended_well() && !folder.join("file").exists());
    // SAFETY: it is not used any more.
    unsafe { tickcast_recorder_destroy(recorder) };
}
