//! `tickcast_context_statistics`, `tickcast_thread_statistics`, and the same page by page

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;

use messaging::{Context, STATISTICS_MAX, Statistic, StatisticsPosition};

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

/// Some of them, and where to go on.
struct Page {
    rows: Vec<Row>,
    rest: Option<StatisticsPosition>,
}

impl Page {
    fn first(context: &mut Context) -> Page {
        let mut rows = Vec::new();
        let rest = context.statistics(|one| rows.push(Row::of(&one)));
        Page { rows, rest }
    }

    /// From a position on; `most` is what the caller asks for, and bounded here.
    fn from(context: &mut Context, position: u64, most: usize) -> Page {
        let mut rows = Vec::new();
        let (from, most) = (StatisticsPosition::from_bits(position), most.min(STATISTICS_MAX));
        let rest = context.statistics_from(from, most, |one| rows.push(Row::of(&one)));
        Page { rows, rest }
    }

    /// Whether there is more, as functions return it.
    fn tell(&self, each: Each, user: *mut c_void) -> c_int {
        self.rows.iter().for_each(|row| row.tell(each, user));
        self.rest.is_some().into()
    }
}

fn present(each: Option<Each>) -> Result<Each, Failure> {
    each.ok_or(Failure::Null("each"))
}

/// The caller's position, which a page moves.
///
/// # Safety
/// `position` is NULL or may be read and written until this function's caller returns.
unsafe fn position<'a>(position: *mut u64) -> Result<&'a mut u64, Failure> {
    // SAFETY: the caller's promise.
    unsafe { position.as_mut() }.ok_or(Failure::Null("position"))
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
        let each = present(each)?;
        // SAFETY: the header's promise.
        let page = unsafe { context::handle(context) }?.enter(|context| Ok(Page::first(context)))?;
        // The context is free again: `each` may use it.
        Ok(page.tell(each, user))
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
        let each = present(each)?;
        // SAFETY: the header's promise.
        let page = unsafe { thread::handle(thread) }?.call(Page::first)?;
        Ok(page.tell(each, user))
    })
}

/// See the header.
///
/// # Safety
/// As [`tickcast_context_statistics`]; `at` is NULL or may be read and written until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_statistics_from(
    context: *mut ContextHandle,
    at: *mut u64,
    most: usize,
    each: Option<Each>,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        let each = present(each)?;
        // SAFETY: the header's promises.
        let (at, context) = unsafe { (position(at)?, context::handle(context)?) };
        let page = context.enter(|context| Ok(Page::from(context, *at, most)))?;
        *at = page.rest.unwrap_or_default().to_bits();
        Ok(page.tell(each, user))
    })
}

/// See the header.
///
/// # Safety
/// As [`tickcast_thread_statistics`]; `at` is NULL or may be read and written until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_statistics_from(
    thread: *mut ThreadHandle,
    at: *mut u64,
    most: usize,
    each: Option<Each>,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        let each = present(each)?;
        // SAFETY: the header's promises.
        let (at, thread) = unsafe { (position(at)?, thread::handle(thread)?) };
        let from = *at;
        let page = thread.call(move |context| Page::from(context, from, most))?;
        *at = page.rest.unwrap_or_default().to_bits();
        Ok(page.tell(each, user))
    })
}
