//! `tickcast_source_...`

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use messaging::{SendFlags, Source, SourceOptions, Transport};

use crate::callbacks::number_of;
use crate::context::{ContextHandle, handle, span};
use crate::deferred::Action;
use crate::error::{Failure, guarded};
use crate::text;

/// Flags of a send.
pub mod flags {
    /// `TICKCAST_FLUSH`
    pub const FLUSH: u32 = 1;
    /// `TICKCAST_BATCH_START`
    pub const BATCH_START: u32 = 2;
    /// `TICKCAST_BATCH_END`
    pub const BATCH_END: u32 = 4;
}

fn send_flags(bits: u32) -> SendFlags {
    let is_set = |flag| bits & flag != 0;
    SendFlags {
        flush: is_set(flags::FLUSH),
        batch_start: is_set(flags::BATCH_START),
        batch_end: is_set(flags::BATCH_END),
    }
}

pub(crate) fn transport_of(name: &str) -> Result<Transport, Failure> {
    let names = || Transport::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    let found = Transport::ALL.iter().copied().find(|t| t.name() == name);
    found.ok_or_else(|| Failure::Config(format!("transport `{name}` is none of {}", names())))
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_create(
    context: *mut ContextHandle,
    topic: *const c_char,
    transport: *const c_char,
    source: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, topic) = unsafe { (handle(context)?, text::required(topic, "topic")?) };
        // SAFETY: the header's promise.
        let transport = unsafe { text::optional(transport, "transport") }?.map(transport_of).transpose()?;
        let options = SourceOptions { transport, ..SourceOptions::default() };
        let made =
            handle.enter(|context| context.create_source(topic, &options).map_err(Failure::Context))?;
        // SAFETY: the header's promise.
        unsafe { text::answer(source, made.to_bits(), "source") }?;
        Ok(0)
    })
}

/// Sends by `action`.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[inline(always)]
unsafe fn send(
    context: *mut ContextHandle,
    action: Action,
    (data, length): (*const c_void, usize),
    sqn: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, payload) = unsafe { (handle(context)?, text::bytes(data.cast(), length)?) };
        let number = handle.act(action, payload)?;
        if !sqn.is_null() {
            // SAFETY: the caller's promise.
            unsafe { text::answer(sqn, number, "sqn") }?;
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_send(
    context: *mut ContextHandle,
    source: u64,
    data: *const c_void,
    length: usize,
    flags: u32,
    sqn: *mut u32,
) -> c_int {
    let action = Action::Send(Source::from_bits(source), send_flags(flags));
    // SAFETY: the header's promise.
    unsafe { send(context, action, (data, length), sqn) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_send_wait(
    context: *mut ContextHandle,
    source: u64,
    data: *const c_void,
    length: usize,
    flags: u32,
    timeout_ns: i64,
    sqn: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, payload) = unsafe { (handle(context)?, text::bytes(data.cast(), length)?) };
        let timeout = span(timeout_ns).unwrap_or(Duration::MAX);
        let what = (Source::from_bits(source), send_flags(flags));
        let number = handle.send_wait(what, payload, timeout)?;
        if !sqn.is_null() {
            // SAFETY: the header's promise.
            unsafe { text::answer(sqn, number.0, "sqn") }?;
        }
        Ok(0)
    })
}

/// Writes how many receivers there are to where the caller wants it, if anywhere; whether they are fewer than `count`.
///
/// # Safety
/// `place` is NULL or a place.
pub(crate) unsafe fn answer_receivers(found: usize, count: u32, place: *mut u32) -> Result<c_int, Failure> {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { text::answer(place, number_of(found), "found") }?;
    }
    Ok(c_int::from(found < count as usize))
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_wait_for_receivers(
    context: *mut ContextHandle,
    source: u64,
    count: u32,
    timeout_ns: i64,
    found: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let timeout = span(timeout_ns).unwrap_or(Duration::MAX);
        let there = handle.wait_for_receivers(Source::from_bits(source), count as usize, timeout)?;
        // SAFETY: the header's promise.
        unsafe { answer_receivers(there, count, found) }
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_watch_receivers(
    context: *mut ContextHandle,
    source: u64,
    watches: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let watch = |context: &mut messaging::Context| {
            context.watch_receivers(Source::from_bits(source), watches != 0).map_err(Failure::Io)
        };
        handle.enter(watch)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_receivers(
    context: *mut ContextHandle,
    source: u64,
    count: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let there = handle.enter(|context| Ok(context.receivers(Source::from_bits(source))))?;
        // SAFETY: the header's promise.
        unsafe { text::answer(count, number_of(there.unwrap_or(0)), "count") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_send_hot_failover(
    context: *mut ContextHandle,
    source: u64,
    number: u64,
    data: *const c_void,
    length: usize,
    flags: u32,
    sqn: *mut u32,
) -> c_int {
    let action = Action::SendHotFailover(Source::from_bits(source), number, send_flags(flags));
    // SAFETY: the header's promise.
    unsafe { send(context, action, (data, length), sqn) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_claim(
    context: *mut ContextHandle,
    source: u64,
    length: usize,
    payload: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        // SAFETY: the header's promise. Before the claim is open, so that nothing is left open if it is NULL.
        unsafe { text::answer(payload, std::ptr::null_mut(), "payload") }?;
        let source = Source::from_bits(source);
        let room =
            handle.open_claim(source, |context| context.claim(source, length).map_err(Failure::Send))?;
        // SAFETY: as above.
        unsafe { text::answer(payload, room, "payload") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_commit(context: *mut ContextHandle, sqn: *mut u32) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let number = unsafe { handle(context) }?.close_claim(|claim| claim.commit())?;
        if !sqn.is_null() {
            // SAFETY: the header's promise.
            unsafe { text::answer(sqn, number.0, "sqn") }?;
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_abort(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.close_claim(drop)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_claim_max(
    context: *mut ContextHandle,
    source: u64,
    length: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let max = handle.enter(|context| Ok(context.claim_max(Source::from_bits(source))))?;
        if max == 0 {
            return Err(Failure::Unknown("source"));
        }
        // SAFETY: the header's promise.
        unsafe { text::answer(length, max, "length") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_flush(context: *mut ContextHandle, source: u64) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| {
            context.flush_source(Source::from_bits(source));
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_source_delete(context: *mut ContextHandle, source: u64) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, source) = (unsafe { handle(context) }?, Source::from_bits(source));
        handle.enter_in_order(source, |context| {
            context.delete_source(source);
            Ok(0)
        })
    })
}
