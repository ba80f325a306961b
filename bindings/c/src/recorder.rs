//! `tickcast_recorder_...`

use std::ffi::{c_char, c_int};
use std::io;
use std::path::Path;

use observation::{Clock, Recorder, Settings};

use crate::error::{ErrorCode, Failure, guarded};
use crate::text;

/// `tickcast_recorder`
pub struct RecorderHandle(Recorder);

/// `tickcast_recorded`
#[repr(C)]
pub struct RecordedValue {
    /// Messages that were taken down.
    pub records: u64,
    /// Messages that found no room.
    pub lost: u64,
    /// Messages that there is room for.
    pub capacity: u64,
    /// What a call costs, nanoseconds.
    pub cost_ns: f64,
    /// One of [`clocks`].
    pub clock: u32,
    /// Whether the memory is locked.
    pub is_locked: u32,
}

/// `TICKCAST_CLOCK_...`
pub mod clocks {
    use observation::Clock;

    /// `TICKCAST_CLOCK_DEFAULT`
    pub const DEFAULT: u32 = 0;
    /// `TICKCAST_CLOCK_TSC`
    pub const TSC: u32 = Clock::Tsc as u32;
    /// `TICKCAST_CLOCK_MONOTONIC`
    pub const MONOTONIC: u32 = Clock::Monotonic as u32;
    /// `TICKCAST_CLOCK_MONOTONIC_RAW`
    pub const MONOTONIC_RAW: u32 = Clock::MonotonicRaw as u32;
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidInput => Failure::Config(error.to_string()),
        _ => Failure::Io(error),
    }
}

/// The recorder behind a pointer.
///
/// # Safety
/// `recorder` is NULL or a recorder, and no other thread uses it.
unsafe fn handle<'a>(recorder: *const RecorderHandle) -> Result<&'a Recorder, Failure> {
    // SAFETY: by the caller's promise it is NULL or lives, and nobody changes it meanwhile.
    unsafe { recorder.as_ref() }.map(|handle| &handle.0).ok_or(Failure::Null("recorder"))
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_recorder_create(
    point: *const c_char,
    stream: *const c_char,
    capacity: u64,
    clock: u32,
    recorder: *mut *mut RecorderHandle,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (point, stream) = unsafe { (text::required(point, "point")?, text::optional(stream, "stream")?) };
        let known = [None].into_iter().chain(Clock::ALL.map(Some));
        let clock =
            known.into_iter().find(|known| known.map_or(clocks::DEFAULT, |known| known as u32) == clock);
        let settings = Settings {
            point: point.to_owned(),
            stream: stream.unwrap_or_default().to_owned(),
            capacity,
            clock: clock.ok_or(Failure::Unknown("clock"))?,
        };
        if recorder.is_null() {
            return Err(Failure::Null("recorder"));
        }
        let made = Box::new(RecorderHandle(Recorder::new(&settings).map_err(failure)?));
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { text::answer(recorder, Box::into_raw(made), "recorder") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `recorder` is NULL or a recorder that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_recorder_record(recorder: *mut RecorderHandle, id: u64) -> c_int {
    // Nothing in it panics, so nothing has to be caught, and no text is made: a call takes nanoseconds.
    // SAFETY: by the caller's promise it is NULL or lives, and this thread alone has it.
    let Some(handle) = (unsafe { recorder.as_mut() }) else { return ErrorCode::Argument as c_int };
    if handle.0.record(id) { 0 } else { ErrorCode::Limit as c_int }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_recorder_look(
    recorder: *const RecorderHandle,
    recorded: *mut RecordedValue,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { handle(recorder) }?;
        let value = RecordedValue {
            records: own.records(),
            lost: own.lost(),
            capacity: own.capacity(),
            cost_ns: own.cost_ns(),
            clock: own.clock() as u32,
            is_locked: own.is_locked().into(),
        };
        // SAFETY: the caller's promise.
        unsafe { text::answer(recorded, value, "recorded") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_recorder_write(
    recorder: *const RecorderHandle,
    path: *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (own, path) = unsafe { (handle(recorder)?, text::required(path, "path")?) };
        own.write(Path::new(path), |_, _| ()).map_err(failure)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `recorder` is NULL or a recorder that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_recorder_destroy(recorder: *mut RecorderHandle) {
    if !recorder.is_null() {
        // SAFETY: it was made by `tickcast_recorder_create` from a box, and by the caller's promise nobody has it now.
        drop(unsafe { Box::from_raw(recorder) });
    }
}
