//! `tickcast_context_statistics` and `tickcast_thread_statistics`

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;

use messaging::{Context, Statistic};

use crate::context::{self, ContextHandle};
use crate::error::{Failure, guarded};
use crate::text;
use crate::thread::{self, ThreadHandle};

/// `tickcast_statistic`
#[repr(C)]
#[allow(missing_docs)]
pub struct StatisticValue {
    pub kind: *const c_char,
    pub topic: *const c_char,
    pub transport: *const c_char,
    pub peer: *const c_char,
    pub count: usize,
    pub names: *const *const c_char,
    pub values: *const u64,
}

/// What the application has called for each of them.
type Each = extern "C" fn(*mut c_void, *const StatisticValue);

/// One of them, as it was when it was asked for.
struct Row {
    kind: CString,
    topic: Option<CString>,
    transport: CString,
    peer: Option<CString>,
    names: Vec<CString>,
    values: Vec<u64>,
}

impl Row {
    fn of(one: &Statistic<'_>) -> Row {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        one.numbers(|name, value| {
            names.push(text::owned(name));
            values.push(value);
        });
        Row {
            kind: text::owned(one.kind()),
            topic: one.topic().map(text::owned),
            transport: text::owned(&one.transport().to_string()),
            peer: one.peer().as_deref().map(text::owned),
            names,
            values,
        }
    }

    fn tell(&self, each: Each, user: *mut c_void) {
        let names: Vec<*const c_char> = self.names.iter().map(|name| name.as_ptr()).collect();
        let optional = |text: &Option<CString>| text.as_deref().map_or(null(), CStr::as_ptr);
        let value = StatisticValue {
            kind: self.kind.as_ptr(),
            topic: optional(&self.topic),
            transport: self.transport.as_ptr(),
            peer: optional(&self.peer),
            count: names.len(),
            names: names.as_ptr(),
            values: self.values.as_ptr(),
        };
        each(user, &raw const value);
    }
}

fn rows(context: &mut Context) -> Vec<Row> {
    let mut rows = Vec::new();
    context.statistics(|one| rows.push(Row::of(&one)));
    rows
}

fn tell(rows: &[Row], each: Option<Each>, user: *mut c_void) -> Result<c_int, Failure> {
    let each = each.ok_or(Failure::Null("each"))?;
    rows.iter().for_each(|row| row.tell(each, user));
    Ok(0)
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context; `each` may be called with `user` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_statistics(
    context: *mut ContextHandle,
    each: Option<Each>,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let rows = unsafe { context::handle(context) }?.enter(|context| Ok(rows(context)))?;
        // The context is free again: `each` may use it.
        tell(&rows, each, user)
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread; `each` may be called with `user` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_statistics(
    thread: *mut ThreadHandle,
    each: Option<Each>,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let rows = unsafe { thread::handle(thread) }?.call(rows)?;
        tell(&rows, each, user)
    })
}
