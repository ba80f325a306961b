//! `tickcast_context_...`

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use messaging::{
    Claim, Context, Handler, Home, Left, MessagingConfig, SendError, SendFlags, Source, SourceEvent, Sqn,
};

use crate::callbacks::{Calls, Handlers, LeftValue};
use crate::deferred::{Action, Deferred};
use crate::error::{Failure, guarded};
use crate::text;

/// `tickcast_context`: a context and who uses it at the moment.
pub struct ContextHandle {
    home: Home,
    /// An open claim. It borrows from `context`, and is declared before it to be dropped before it.
    claim: UnsafeCell<Option<Claim<'static>>>,
    context: UnsafeCell<Box<Context>>,
    /// What callbacks want done.
    deferred: RefCell<Deferred>,
    calls: Cell<Calls>,
    state: Cell<State>,
    is_stopped: AtomicBool,
}

/// Who uses the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody.
    Idle,
    /// A function of ours; a callback of the application may be running.
    AtWork,
    /// The claim borrows from it.
    Claimed,
    /// A function of ours panicked.
    Broken,
}

/// While it lives the context is at work.
struct Entered<'a>(&'a Cell<State>);

impl<'a> Entered<'a> {
    #[inline]
    fn new(state: &'a Cell<State>) -> Result<Entered<'a>, Failure> {
        match state.get() {
            State::Idle => {
                state.set(State::AtWork);
                Ok(Entered(state))
            }
            State::AtWork => Err(Failure::Busy("called from a callback of the same context")),
            State::Claimed => Err(Failure::Busy("a claim is open: commit or abort it first")),
            State::Broken => Err(Failure::Bug),
        }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(if std::thread::panicking() { State::Broken } else { State::Idle });
    }
}

/// How long [`tickcast_context_run`] waits at most before it looks whether it is stopped.
const RUN_TURN: Duration = Duration::from_millis(50);

/// How long is waited for room at most before it is looked for again: room in shared memory is told by nobody.
const ROOM_TURN: Duration = Duration::from_millis(1);

impl ContextHandle {
    fn new(context: Context) -> ContextHandle {
        ContextHandle {
            home: Home::here(),
            claim: UnsafeCell::new(None),
            context: UnsafeCell::new(Box::new(context)),
            deferred: RefCell::default(),
            calls: Cell::new(Calls::NONE),
            state: Cell::new(State::Idle),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Refuses what a child made by `fork` asks for, in whatever state the context was then.
    #[inline]
    fn check_home(&self) -> Result<(), Failure> {
        if self.home.is_here() { Ok(()) } else { Err(Failure::Send(SendError::Forked)) }
    }

    /// Whether a callback may be running, so that sends must wait.
    #[inline]
    pub(crate) fn is_at_work(&self) -> bool {
        self.state.get() == State::AtWork
    }

    /// Runs `work` with the context to itself.
    #[inline]
    pub(crate) fn enter<R>(
        &self,
        work: impl FnOnce(&mut Context) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.check_home()?;
        let _entered = Entered::new(&self.state)?;
        // SAFETY: the state was Idle and is AtWork until `_entered` is dropped, so no claim is open and nobody
        // else is in here: calls from callbacks find AtWork and are refused, those of other threads stay away
        // by the contract of the header.
        work(unsafe { &mut *self.context.get() })
    }

    /// The same for what must not overtake messages of `source` that callbacks sent: refused while they wait.
    #[inline]
    pub(crate) fn enter_in_order<R>(
        &self,
        source: Source,
        work: impl FnOnce(&mut Context) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.enter(|context| {
            self.keep_order(context, source)?;
            work(context)
        })
    }

    #[inline]
    fn keep_order(&self, context: &mut Context, source: Source) -> Result<(), Failure> {
        let mut deferred = self.deferred.borrow_mut();
        if deferred.is_before(source) {
            deferred.run(context, None);
            if deferred.is_before(source) {
                return Err(Failure::Send(SendError::WouldBlock));
            }
        }
        Ok(())
    }

    /// Does something, or takes it down if a callback may be running, which is told 0; see [`Action::run`].
    #[inline(always)]
    pub(crate) fn act(&self, action: Action, payload: &[u8]) -> Result<u32, Failure> {
        self.check_home()?;
        if self.is_at_work() {
            return self.deferred.borrow_mut().push(action, payload).map(|()| 0);
        }
        match action.source() {
            Some(source) => self.enter_in_order(source, |context| action.run(context, payload)),
            None => self.enter(|context| action.run(context, payload)),
        }
    }

    /// One turn, `turn`, and before and after it what callbacks wanted done.
    #[inline]
    pub(crate) fn turn(
        &self,
        turn: impl FnOnce(&mut Context, &mut Calls) -> std::io::Result<bool>,
    ) -> Result<c_int, Failure> {
        let mut calls = self.calls.get();
        self.enter(|context| {
            self.deferred.borrow_mut().run(context, None);
            let worked = turn(context, &mut calls).map_err(Failure::Io)?;
            self.deferred.borrow_mut().run(context, None);
            let refused = self.deferred.borrow_mut().take_refused();
            if !refused.is_empty() {
                for source in refused {
                    calls.on_source_event(Source::from_bits(source), SourceEvent::WakeUp);
                }
                self.deferred.borrow_mut().run(context, None);
            }
            Ok(c_int::from(worked))
        })
    }

    /// The same for the calls that tell what of that failed.
    #[inline]
    fn tell_turn(
        &self,
        turn: impl FnOnce(&mut Context, &mut Calls) -> std::io::Result<bool>,
    ) -> Result<c_int, Failure> {
        let worked = self.turn(turn)?;
        self.deferred.borrow_mut().take_failure()?;
        Ok(worked)
    }

    /// Sends a message behind those that callbacks sent of its source, in turns while there is no room.
    pub(crate) fn send_wait(
        &self,
        (source, flags): (Source, SendFlags),
        payload: &[u8],
        timeout: Duration,
    ) -> Result<Sqn, Failure> {
        let (begun, mut sent) = (Instant::now(), Err(SendError::WouldBlock));
        self.turn(|context, calls| {
            let mut is_first = false;
            loop {
                // What callbacks send of this source from now on comes behind it.
                is_first |= !self.deferred.borrow().is_before(source);
                if is_first {
                    sent = context.send_flagged(source, flags, &[payload]);
                }
                let rest = timeout.saturating_sub(begun.elapsed());
                if sent != Err(SendError::WouldBlock) || rest.is_zero() {
                    return Ok(false);
                }
                context.wait(Some(ROOM_TURN.min(rest)), calls)?;
                self.deferred.borrow_mut().run(context, is_first.then_some(source));
            }
        })?;
        sent.map_err(Failure::Send)
    }

    /// Turns until `count` receivers of a source are there, within `timeout`. Returns how many are.
    pub(crate) fn wait_for_receivers(
        &self,
        source: Source,
        count: usize,
        timeout: Duration,
    ) -> Result<usize, Failure> {
        let (begun, mut found) = (Instant::now(), 0);
        self.turn(|context, calls| {
            let is_watched = context.receivers(source).is_some();
            context.watch_receivers(source, true)?;
            let turned = loop {
                found = context.receivers(source).unwrap_or(0);
                let rest = timeout.saturating_sub(begun.elapsed());
                if found >= count || rest.is_zero() {
                    break Ok(false);
                }
                if let Err(error) = context.wait(Some(ROOM_TURN.min(rest)), calls) {
                    break Err(error);
                }
                self.deferred.borrow_mut().run(context, None);
            };
            if !is_watched {
                context.watch_receivers(source, false)?;
            }
            turned
        })?;
        Ok(found)
    }

    /// Turns until all has left that was sent, by callbacks too, within `timeout`. Returns what has not.
    fn drain(&self, timeout: Duration) -> Result<Left, Failure> {
        let (begun, mut left) = (Instant::now(), Left::default());
        self.turn(|context, calls| {
            loop {
                let rest = timeout.saturating_sub(begun.elapsed());
                let is_waiting = self.deferred.borrow().len() > 0;
                // As long as something waits here, room is enough.
                left = context.drain(if is_waiting { ROOM_TURN.min(rest) } else { rest }, calls)?;
                let mut deferred = self.deferred.borrow_mut();
                let waited = deferred.len();
                if waited > 0 {
                    deferred.run(context, None);
                    left = context.left();
                    left.queued_messages = deferred.len() as u64;
                }
                if rest.is_zero() || (waited == 0 && left.is_empty()) {
                    return Ok(false);
                }
            }
        })?;
        Ok(left)
    }

    /// Closes the context, after what callbacks wanted to be sent, within `linger` or what is configured. Returns
    /// what did not leave, and the first error of what callbacks wanted.
    fn close(&self, linger: Option<Duration>) -> (Left, Result<(), Failure>) {
        let mut left = Left::default();
        let closed = self.enter(|context| {
            let linger = linger.unwrap_or_else(|| context.config().linger());
            let begun = Instant::now();
            let mut deferred = self.deferred.borrow_mut();
            loop {
                deferred.run(context, None);
                // A poller that fails takes nothing more.
                if deferred.len() == 0
                    || begun.elapsed() >= linger
                    || context.wait(Some(ROOM_TURN), &mut ()).is_err()
                {
                    break;
                }
            }
            let given_up = deferred.give_up();
            left = context.close(linger.saturating_sub(begun.elapsed()));
            left.queued_messages = given_up as u64;
            deferred.take_failure()
        });
        (left, closed)
    }

    /// Opens a claim for a message of `source`, by `make`.
    #[inline]
    pub(crate) fn open_claim(
        &self,
        source: Source,
        make: impl for<'a> FnOnce(&'a mut Context) -> Result<Claim<'a>, Failure>,
    ) -> Result<*mut c_void, Failure> {
        self.check_home()?;
        let entered = Entered::new(&self.state)?;
        // SAFETY: as in `enter`. The claim lives in `self.claim`, which is emptied or dropped before `context`,
        // and while it is there the state is Claimed, so that nobody else reaches the context, which is boxed
        // and does not move: the borrow may be as long as the handle lives.
        let context: &'static mut Context = unsafe { &mut *self.context.get() };
        self.keep_order(context, source)?;
        let claim = make(context)?;
        drop(entered);
        // SAFETY: the only references to `claim` are made here and in `close_claim`, each for one statement.
        let place = unsafe { &mut *self.claim.get() };
        let payload = place.insert(claim).payload().as_mut_ptr().cast();
        self.state.set(State::Claimed);
        Ok(payload)
    }

    /// Ends the claim, by `end`.
    #[inline]
    pub(crate) fn close_claim<R>(&self, end: impl FnOnce(Claim<'static>) -> R) -> Result<R, Failure> {
        self.check_home()?;
        // SAFETY: as in `open_claim`.
        let claim = unsafe { &mut *self.claim.get() }.take().ok_or(Failure::NoClaim)?;
        self.state.set(State::AtWork);
        let _entered = Entered(&self.state);
        Ok(end(claim))
    }
}

/// The context behind a pointer of the application.
///
/// # Safety
/// `context` is NULL, or came from [`tickcast_context_create`] and was not destroyed.
pub(crate) unsafe fn handle<'a>(context: *const ContextHandle) -> Result<&'a ContextHandle, Failure> {
    // SAFETY: the caller's promise; only shared references to a handle are ever made.
    unsafe { context.as_ref() }.ok_or(Failure::Null("context"))
}

/// The configuration of a file and of settings.
///
/// # Safety
/// `file` is a text or NULL; `settings` are `count` texts.
pub(crate) unsafe fn configuration(
    file: *const c_char,
    settings: *const *const c_char,
    count: usize,
) -> Result<MessagingConfig, Failure> {
    // SAFETY: the header's promise: a text or NULL.
    let file = unsafe { text::optional(file, "file") }?;
    let mut texts = Vec::new();
    for i in 0..count {
        if settings.is_null() {
            return Err(Failure::Null("settings"));
        }
        // SAFETY: the header's promise: `count` texts.
        texts.push(unsafe { text::required(*settings.add(i), "settings") }?);
    }
    let contents = match file {
        None => None,
        Some(path) => match std::fs::read(path) {
            Ok(contents) => Some((path, contents)),
            Err(e) => return Err(Failure::Config(format!("cannot read the configuration {path}: {e}"))),
        },
    };
    let layer = contents.as_ref().map(|(name, bytes)| (*name, bytes.as_slice()));
    MessagingConfig::load(layer, texts).map_err(|e| Failure::Config(e.to_string()))
}

/// A copy of the application's handlers; those that it does not know yet stay empty.
///
/// # Safety
/// `handlers` is NULL or what the header says.
pub(crate) unsafe fn handlers_of(handlers: *const Handlers) -> Handlers {
    let mut known = Handlers::NONE;
    if !handlers.is_null() {
        // SAFETY: the header's promise: `handlers` begins with its size.
        let size = unsafe { handlers.cast::<usize>().read() }.min(size_of::<Handlers>());
        // SAFETY: so many bytes are there and there is room for them; any callbacks behind stay empty. Both
        // sides consist of a size and optional pointers to functions, for which all bytes of the other side
        // are values.
        unsafe {
            std::ptr::copy_nonoverlapping(handlers.cast::<u8>(), (&raw mut known).cast::<u8>(), size);
        }
    }
    known
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tickcast_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_create(
    file: *const c_char,
    settings: *const *const c_char,
    count: usize,
    context: *mut *mut ContextHandle,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise: `context` may be written.
        unsafe { text::answer(context, std::ptr::null_mut(), "context") }?;
        // SAFETY: the header's promise: texts or NULL.
        let config = unsafe { configuration(file, settings, count) }?;
        let made = Context::standalone(&config).map_err(Failure::Context)?;
        let made = Box::into_raw(Box::new(ContextHandle::new(made)));
        // SAFETY: as above.
        unsafe { text::answer(context, made, "context") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context that is not used after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_destroy(context: *mut ContextHandle) {
    guarded(|| {
        // SAFETY: the header's promise: NULL, or a context that nobody uses any more.
        let handle = unsafe { handle(context) }?;
        if !handle.home.is_certain() {
            if handle.state.get() == State::Idle {
                // SAFETY: it came from `Box::into_raw`, and in this process nobody uses it. One that another thread of
                // the parent had at that moment, or that has a claim, stays as it is.
                drop(unsafe { Box::from_raw(context) });
            }
            return Ok(0);
        }
        // Mostly nothing is claimed.
        let _ = handle.close_claim(drop);
        let (left, ended) = handle.close(None);
        if matches!(ended, Err(Failure::Busy(_))) {
            return ended.map(|()| 0);
        }
        // SAFETY: it came from `Box::into_raw` and nobody uses it: not at work, and by promise not later.
        drop(unsafe { Box::from_raw(context) });
        // Nobody gets the code; the words can be asked for.
        ended?;
        if left.is_empty() { Ok(0) } else { Err(Failure::Limit(left.to_string())) }
    });
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context; `left` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_close(
    context: *mut ContextHandle,
    linger_ns: i64,
    left: *mut LeftValue,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        // Mostly nothing is claimed.
        let _ = handle.close_claim(drop);
        let (what, closed) = handle.close(span(linger_ns));
        // SAFETY: the header's promise.
        unsafe { answer_left(left, &what) };
        closed.map(|()| c_int::from(!what.is_empty()))
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context; `left` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_drain(
    context: *mut ContextHandle,
    timeout_ns: i64,
    left: *mut LeftValue,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let what = handle.drain(span(timeout_ns).unwrap_or(Duration::MAX))?;
        // SAFETY: the header's promise.
        unsafe { answer_left(left, &what) };
        Ok(c_int::from(!what.is_empty()))
    })
}

/// So many nanoseconds; none for a negative number.
pub(crate) fn span(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

/// Writes what has not left to where the caller wants it, if anywhere.
///
/// # Safety
/// `place` is NULL or may be written.
pub(crate) unsafe fn answer_left(place: *mut LeftValue, left: &Left) {
    if !place.is_null() {
        // SAFETY: the caller's promise; plain data.
        unsafe { place.write(LeftValue::from(left)) };
    }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; the callbacks may be called with `user` from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_set_handlers(
    context: *mut ContextHandle,
    handlers: *const Handlers,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        // SAFETY: the header's promise.
        let known = unsafe { handlers_of(handlers) };
        handle.enter(|_| {
            handle.calls.set(Calls { handlers: known, user });
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_poll(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        handle.tell_turn(|context, calls| context.poll(calls))
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_wait(context: *mut ContextHandle, timeout_ns: i64) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        handle.tell_turn(|context, calls| context.wait(timeout, calls))
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_run(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(context) }?;
        while !handle.is_stopped.swap(false, Ordering::AcqRel) {
            handle.tell_turn(|context, calls| context.wait(Some(RUN_TURN), calls))?;
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_stop(context: *mut ContextHandle) -> c_int {
    // Nothing but an atomic write: it may interrupt any other call.
    // SAFETY: the header's promise.
    match unsafe { context.as_ref() } {
        Some(handle) => {
            handle.is_stopped.store(true, Ordering::Release);
            0
        }
        None => crate::error::ErrorCode::Argument as c_int,
    }
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_flush(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| {
            context.flush();
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_reload_security(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| {
            context.reload_security().map_err(Failure::Context)?;
            Ok(0)
        })
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_descriptor(context: *mut ContextHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(context) }?.enter(|context| Ok(context.descriptor().as_raw_fd()))
    })
}

/// See the header.
///
/// # Safety
/// `context` is NULL or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_context_until_wakeup_ns(context: *mut ContextHandle) -> i64 {
    let mut until = i64::MAX;
    let result = guarded(|| {
        // SAFETY: the header's promise.
        let wait = unsafe { handle(context) }?.enter(|context| Ok(context.until_wakeup()))?;
        until = wait.map_or(i64::MAX, |wait| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
        Ok(0)
    });
    if result < 0 { i64::from(result) } else { until }
}
