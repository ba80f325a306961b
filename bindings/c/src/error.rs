//! Error codes, and the words to the last error of a thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use messaging::{Closed, ContextError, Forked, SendError};

/// What a function returns other than 0 or a positive answer. The numbers are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ErrorCode {
    /// `TICKCAST_ERROR_ARGUMENT`
    Argument = -1,
    /// `TICKCAST_ERROR_CONFIG`
    Config = -2,
    /// `TICKCAST_ERROR_IO`
    Io = -3,
    /// `TICKCAST_ERROR_WOULD_BLOCK`
    WouldBlock = -4,
    /// `TICKCAST_ERROR_TOO_LONG`
    TooLong = -5,
    /// `TICKCAST_ERROR_ENDED`
    Ended = -6,
    /// `TICKCAST_ERROR_BUSY`
    Busy = -7,
    /// `TICKCAST_ERROR_BUG`
    Bug = -8,
    /// `TICKCAST_ERROR_LIMIT`
    Limit = -9,
    /// `TICKCAST_ERROR_FORKED`
    Forked = -10,
}

/// An error and what it has to say. The text is made when it is told: would-block costs none.
#[derive(Debug)]
pub(crate) enum Failure {
    Null(&'static str),
    NotUtf8(&'static str),
    Unknown(&'static str),
    Config(String),
    Context(ContextError),
    Io(std::io::Error),
    Send(SendError),
    Limit(String),
    Busy(&'static str),
    NoClaim,
    Bug,
}

impl Failure {
    fn code(&self) -> ErrorCode {
        match self {
            Failure::Null(_) | Failure::NotUtf8(_) | Failure::Unknown(_) | Failure::NoClaim => {
                ErrorCode::Argument
            }
            Failure::Config(_) => ErrorCode::Config,
            Failure::Context(ContextError::Forked(_)) | Failure::Send(SendError::Forked) => ErrorCode::Forked,
            Failure::Context(ContextError::Io(e)) | Failure::Io(e) if Forked::is(e) => ErrorCode::Forked,
            Failure::Context(ContextError::Closed) => ErrorCode::Ended,
            Failure::Io(e) if Closed::is(e) => ErrorCode::Ended,
            Failure::Context(ContextError::Io(_)) | Failure::Io(_) => ErrorCode::Io,
            Failure::Context(ContextError::Topic(_)) => ErrorCode::Argument,
            Failure::Context(_) => ErrorCode::Config,
            Failure::Send(SendError::WouldBlock) => ErrorCode::WouldBlock,
            Failure::Send(SendError::TooLong { .. }) => ErrorCode::TooLong,
            Failure::Send(_) => ErrorCode::Ended,
            Failure::Limit(_) => ErrorCode::Limit,
            Failure::Busy(_) => ErrorCode::Busy,
            Failure::Bug => ErrorCode::Bug,
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::Null(name) => format!("`{name}` is NULL"),
            Failure::NotUtf8(name) => format!("`{name}` is not UTF-8"),
            Failure::Unknown(what) => format!("there is no such {what}"),
            Failure::NoClaim => "nothing is claimed".to_owned(),
            Failure::Config(text) | Failure::Limit(text) => text.clone(),
            Failure::Context(error) => error.to_string(),
            Failure::Io(error) => error.to_string(),
            Failure::Send(error) => error.to_string(),
            Failure::Busy(why) => (*why).to_owned(),
            Failure::Bug => "a bug of the library; the context can only be destroyed".to_owned(),
        }
    }

    /// Keeps the words for `tickcast_last_error`; gives the code.
    pub(crate) fn tell(&self) -> c_int {
        let code = self.code();
        LAST.with_borrow_mut(|last| match code {
            // It is a result as much as an error, and made without memory.
            ErrorCode::WouldBlock => *last = Text::Fixed(c"the transport takes no more for now"),
            _ => {
                let text = self.text().replace('\0', " ");
                *last = Text::Owned(CString::new(text).unwrap_or_default());
            }
        });
        code as c_int
    }
}

enum Text {
    Fixed(&'static std::ffi::CStr),
    Owned(CString),
}

thread_local! {
    static LAST: RefCell<Text> = const { RefCell::new(Text::Fixed(c"")) };
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tickcast_last_error() -> *const c_char {
    LAST.with_borrow(|last| match last {
        Text::Fixed(text) => text.as_ptr(),
        Text::Owned(text) => text.as_ptr(),
    })
}

/// Runs a function of the interface: no panic leaves it.
pub(crate) fn guarded(run: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => failure.tell(),
        Err(_) => Failure::Bug.tell(),
    }
}
