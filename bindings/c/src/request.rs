//! `tickcast_request_...` and `tickcast_respond`

use std::ffi::{c_int, c_void};

use messaging::{RequestError, RequestId, Source};

use crate::callbacks::AskedValue;
use crate::context::{ContextHandle, handle};
use crate::deferred::Action;
use crate::error::{Failure, guarded};
use crate::text;

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_request_send(
    context: *mut ContextHandle,
    source: u64,
    data: *const c_void,
    length: usize,
    request: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, payload) = unsafe { (handle(context)?, text::bytes(data.cast(), length)?) };
        let source = Source::from_bits(source);
        let id = handle.enter_in_order(source, |context| {
            context.request(source, &[payload]).map_err(|error| match error {
                RequestError::Send(error) => Failure::Send(error),
                RequestError::Listen(error) => Failure::Context(error),
                error => Failure::Limit(error.to_string()),
            })
        })?;
        // SAFETY: the header's promise.
        unsafe { text::answer(request, id.0, "request") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_request_cancel(context: *mut ContextHandle, request: u32) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| {
            context.cancel_request(RequestId(request));
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_respond(
    context: *mut ContextHandle,
    asked: *const AskedValue,
    data: *const c_void,
    length: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, payload) = unsafe { (handle(context)?, text::bytes(data.cast(), length)?) };
        // SAFETY: the header's promise.
        let asked = *unsafe { asked.as_ref() }.ok_or(Failure::Null("asked"))?;
        handle.act(Action::Respond(asked.into()), payload)?;
        Ok(0)
    })
}
