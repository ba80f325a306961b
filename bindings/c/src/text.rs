//! Texts of C.

use std::ffi::{CStr, CString, c_char};

use crate::error::Failure;

/// A text that must be there.
///
/// # Safety
/// `text` is NULL or points to a NUL-terminated string that stays as it is for `'a`.
pub(crate) unsafe fn required<'a>(text: *const c_char, name: &'static str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise is the same.
    unsafe { optional(text, name) }?.ok_or(Failure::Null(name))
}

/// A text that may be NULL.
///
/// # Safety
/// As [`required`].
pub(crate) unsafe fn optional<'a>(
    text: *const c_char,
    name: &'static str,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL; by the caller's promise NUL-terminated and unchanged for 'a.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::NotUtf8(name))
}

/// Bytes that may be NULL if there are none.
///
/// # Safety
/// `data` is NULL or points to `length` bytes that stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    match (data.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::Null("data")),
        // SAFETY: not NULL, and by the caller's promise `length` bytes unchanged for 'a.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, length) }),
    }
}

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `place` is NULL or may be written.
pub(crate) unsafe fn answer<T>(place: *mut T, value: T, name: &'static str) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::Null(name));
    }
    // SAFETY: not NULL and writable by the caller's promise; `T` is plain data without a destructor.
    unsafe { place.write(value) };
    Ok(())
}

/// A text for C; zeros in it become spaces.
pub(crate) fn owned(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
