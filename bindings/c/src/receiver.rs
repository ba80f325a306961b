//! `tickcast_receiver_...`

use std::ffi::{c_char, c_int};

use messaging::{Context, ContextError, Order, Receiver, ReceiverOptions};

use crate::context::{ContextHandle, handle};
use crate::error::{Failure, guarded};
use crate::text;

/// `TICKCAST_ARRIVAL_ORDER`
pub const ARRIVAL_ORDER: u32 = 1;
/// `TICKCAST_HOT_FAILOVER`
pub const HOT_FAILOVER: u32 = 2;

/// What the flags of a receiver ask for.
pub(crate) fn options_of(flags: u32) -> ReceiverOptions {
    let order = (flags & ARRIVAL_ORDER != 0).then_some(Order::Arrival);
    ReceiverOptions { order, hot_failover: flags & HOT_FAILOVER != 0 }
}

/// Makes a receiver by `make`.
///
/// # Safety
/// The pointers are what the header says, or NULL.
unsafe fn create(
    context: *mut ContextHandle,
    (text, name): (*const c_char, &'static str),
    flags: u32,
    receiver: *mut u64,
    make: fn(&mut Context, &str, &ReceiverOptions) -> Result<Receiver, ContextError>,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, text) = unsafe { (handle(context)?, text::required(text, name)?) };
        let options = options_of(flags);
        let made = handle.enter(|context| make(context, text, &options).map_err(Failure::Context))?;
        // SAFETY: the caller's promise.
        unsafe { text::answer(receiver, made.to_bits(), "receiver") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_receiver_create(
    context: *mut ContextHandle,
    topic: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { create(context, (topic, "topic"), flags, receiver, Context::create_receiver) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_receiver_create_prefix(
    context: *mut ContextHandle,
    prefix: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { create(context, (prefix, "prefix"), flags, receiver, Context::create_prefix_receiver) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_receiver_create_pattern(
    context: *mut ContextHandle,
    pattern: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { create(context, (pattern, "pattern"), flags, receiver, Context::create_pattern_receiver) }
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_receiver_delete(context: *mut ContextHandle, receiver: u64) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| {
            context.delete_receiver(Receiver::from_bits(receiver));
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_receiver_restart_hot_failover(
    context: *mut ContextHandle,
    receiver: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.turn(|context, calls| {
            context.restart_hot_failover(Receiver::from_bits(receiver), calls);
            Ok(false)
        })
    })
}
