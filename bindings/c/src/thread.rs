//! `tickcast_thread_...` and `tickcast_sender_...`: contexts with a thread of the library.

use std::ffi::{c_char, c_int, c_void};
use std::thread::ThreadId;
use std::time::Duration;

use messaging::{
    Context, ContextCounters, ContextError, EmbeddedContext, EmbeddedSource, End, FailoverLoss, Handler,
    Home, Loss, Message, QueueError, Receiver, RequestEnd, RequestId, SecurityEvent, SendError, Source,
    SourceEvent, SourceInfo, SourceOptions, Sqn, StreamId,
};

use crate::callbacks::{AskedValue, Calls, Handlers, LeftValue};
use crate::context::{answer_left, configuration, handlers_of, span};
use crate::error::{Failure, guarded};
use crate::receiver::options_of;
use crate::source::answer_receivers;
use crate::source::transport_of;
use crate::text;

/// `tickcast_thread`
pub struct ThreadHandle {
    context: EmbeddedContext,
    /// The thread, once it is known.
    id: ThreadId,
    home: Home,
}

/// `tickcast_sender`
pub struct SenderHandle(EmbeddedSource);

/// Callbacks that go to the library's thread.
struct CallsThere(Calls);

// SAFETY: the header says that the callbacks are called with `user` on a thread of the library, and the
// application sees to what `user` points to; nothing else is in there but pointers to functions.
unsafe impl Send for CallsThere {}

impl Handler for CallsThere {
    #[inline]
    fn on_message(&mut self, message: &Message<'_>) {
        self.0.on_message(message);
    }
    fn on_source(&mut self, receiver: Receiver, stream: StreamId, info: &SourceInfo<'_>) {
        self.0.on_source(receiver, stream, info);
    }
    fn on_begin(&mut self, receiver: Receiver, stream: StreamId, first: Sqn) {
        self.0.on_begin(receiver, stream, first);
    }
    fn on_loss(&mut self, receiver: Receiver, stream: StreamId, loss: Loss) {
        self.0.on_loss(receiver, stream, loss);
    }
    fn on_failover_loss(&mut self, receiver: Receiver, topic: &str, loss: FailoverLoss) {
        self.0.on_failover_loss(receiver, topic, loss);
    }
    fn on_end(&mut self, receiver: Receiver, stream: StreamId, end: &End) {
        self.0.on_end(receiver, stream, end);
    }
    fn on_source_event(&mut self, source: Source, event: SourceEvent) {
        self.0.on_source_event(source, event);
    }
    fn on_security(&mut self, event: SecurityEvent, text: &str) {
        self.0.on_security(event, text);
    }
    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        self.0.on_response(request, payload);
    }
    fn on_request_end(&mut self, request: RequestId, reason: RequestEnd) {
        self.0.on_request_end(request, reason);
    }
}

impl ThreadHandle {
    /// Runs `task` on the thread and waits for it.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Context) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.refuse_there()?;
        self.context.call(task).map_err(|_| Failure::Send(SendError::Ended))
    }

    /// A callback that waited for its own thread would wait for ever.
    fn refuse_there(&self) -> Result<(), Failure> {
        if !self.home.is_here() {
            return Err(Failure::Send(SendError::Forked));
        }
        if std::thread::current().id() == self.id {
            return Err(Failure::Busy("called from a callback on the library's thread"));
        }
        Ok(())
    }
}

/// The thread behind a pointer of the application.
///
/// # Safety
/// `thread` is NULL, or came from [`tickcast_thread_start`] and was not stopped.
pub(crate) unsafe fn handle<'a>(thread: *const ThreadHandle) -> Result<&'a ThreadHandle, Failure> {
    // SAFETY: the caller's promise; only shared references to a handle are ever made.
    unsafe { thread.as_ref() }.ok_or(Failure::Null("thread"))
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; the callbacks may be called with `user` on another thread
/// until [`tickcast_thread_stop`] has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_start(
    file: *const c_char,
    settings: *const *const c_char,
    count: usize,
    handlers: *const Handlers,
    user: *mut c_void,
    thread: *mut *mut ThreadHandle,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { text::answer(thread, std::ptr::null_mut(), "thread") }?;
        // SAFETY: the header's promise.
        let (config, handlers) = unsafe { (configuration(file, settings, count)?, handlers_of(handlers)) };
        let calls = CallsThere(Calls { handlers, user });
        let context =
            EmbeddedContext::start(&config, ContextCounters::default(), calls).map_err(Failure::Context)?;
        let id =
            context.call(|_| std::thread::current().id()).map_err(|_| Failure::Send(SendError::Ended))?;
        let made = Box::into_raw(Box::new(ThreadHandle { context, id, home: Home::here() }));
        // SAFETY: as above.
        unsafe { text::answer(thread, made, "thread") }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread that is not used after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_stop(thread: *mut ThreadHandle) -> c_int {
    guarded(|| {
        if thread.is_null() {
            return Ok(0);
        }
        // SAFETY: the header's promise.
        unsafe { handle(thread) }?.refuse_there()?;
        // SAFETY: it came from `Box::into_raw`, and nobody uses it any more by the header's promise.
        let owned = unsafe { Box::from_raw(thread) };
        owned.context.stop().map_err(Failure::Io)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread that is not used after this; `left` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_close(
    thread: *mut ThreadHandle,
    linger_ns: i64,
    left: *mut LeftValue,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { handle(thread) }?.refuse_there()?;
        // SAFETY: it came from `Box::into_raw`, and nobody uses it any more by the header's promise.
        let owned = unsafe { Box::from_raw(thread) };
        let what = match span(linger_ns) {
            Some(linger) => owned.context.close(linger),
            None => owned.context.stop(),
        };
        let what = what.map_err(Failure::Io)?;
        // SAFETY: the header's promise.
        unsafe { answer_left(left, &what) };
        Ok(c_int::from(!what.is_empty()))
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread; `left` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_drain(
    thread: *mut ThreadHandle,
    timeout_ns: i64,
    left: *mut LeftValue,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(thread) }?;
        handle.refuse_there()?;
        let what = handle.context.drain(span(timeout_ns).unwrap_or(Duration::MAX));
        let what = what.map_err(|_| Failure::Send(SendError::Ended))?;
        // SAFETY: the header's promise.
        unsafe { answer_left(left, &what) };
        Ok(c_int::from(!what.is_empty()))
    })
}

/// Makes a receiver by `make`.
///
/// # Safety
/// The pointers are what the header says, or NULL.
unsafe fn receive(
    thread: *mut ThreadHandle,
    (text, name): (*const c_char, &'static str),
    flags: u32,
    receiver: *mut u64,
    make: fn(&mut Context, &str, &messaging::ReceiverOptions) -> Result<Receiver, ContextError>,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (handle, text) = unsafe { (handle(thread)?, text::required(text, name)?.to_owned()) };
        let options = options_of(flags);
        let made = handle.call(move |context| make(context, &text, &options))?.map_err(Failure::Context)?;
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
pub unsafe extern "C" fn tickcast_thread_receive(
    thread: *mut ThreadHandle,
    topic: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { receive(thread, (topic, "topic"), flags, receiver, Context::create_receiver) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_receive_prefix(
    thread: *mut ThreadHandle,
    prefix: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { receive(thread, (prefix, "prefix"), flags, receiver, Context::create_prefix_receiver) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_receive_pattern(
    thread: *mut ThreadHandle,
    pattern: *const c_char,
    flags: u32,
    receiver: *mut u64,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { receive(thread, (pattern, "pattern"), flags, receiver, Context::create_pattern_receiver) }
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_forget(thread: *mut ThreadHandle, receiver: u64) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(thread) }?;
        handle.call(move |context| context.delete_receiver(Receiver::from_bits(receiver)))?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_restart_hot_failover(
    thread: *mut ThreadHandle,
    receiver: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(thread) }?;
        handle.refuse_there()?;
        let told = handle.context.restart_hot_failover(Receiver::from_bits(receiver));
        told.map_err(|_| Failure::Send(SendError::Ended))?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `thread` is NULL or a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_reload_security(thread: *mut ThreadHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let handle = unsafe { handle(thread) }?;
        handle.call(Context::reload_security)?.map_err(Failure::Context)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_respond(
    thread: *mut ThreadHandle,
    asked: *const AskedValue,
    data: *const c_void,
    length: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, payload) = unsafe { (handle(thread)?, text::bytes(data.cast(), length)?.to_vec()) };
        // SAFETY: the header's promise.
        let asked = *unsafe { asked.as_ref() }.ok_or(Failure::Null("asked"))?;
        handle.call(move |context| context.respond(asked.into(), &payload))?.map_err(Failure::Io)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_create(
    thread: *mut ThreadHandle,
    topic: *const c_char,
    transport: *const c_char,
    sender: *mut *mut SenderHandle,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { text::answer(sender, std::ptr::null_mut(), "sender") }?;
        // SAFETY: the header's promise.
        let (handle, topic) = unsafe { (handle(thread)?, text::required(topic, "topic")?) };
        // SAFETY: the header's promise.
        let transport = unsafe { text::optional(transport, "transport") }?.map(transport_of).transpose()?;
        handle.refuse_there()?;
        let options = SourceOptions { transport, ..SourceOptions::default() };
        let source = handle.context.create_source(topic, &options).map_err(Failure::Context)?;
        let made = Box::into_raw(Box::new(SenderHandle(source)));
        // SAFETY: as above.
        unsafe { text::answer(sender, made, "sender") }?;
        Ok(0)
    })
}

/// Sends by `send`.
///
/// # Safety
/// The pointers are what the header says, or NULL; no other call with the same sender runs.
unsafe fn send(
    sender: *mut SenderHandle,
    (data, length): (*const c_void, usize),
    flags: u32,
    send: impl FnOnce(&mut EmbeddedSource, &[&[u8]]) -> Result<(), QueueError>,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise: a sender that nobody else uses meanwhile, and bytes.
        let (sender, payload) = unsafe { (sender.as_mut(), text::bytes(data.cast(), length)?) };
        let sender = sender.ok_or(Failure::Null("sender"))?;
        send(&mut sender.0, &[payload]).map_err(|error| match error {
            QueueError::WouldBlock => Failure::Send(SendError::WouldBlock),
            QueueError::TooLong { bytes, max } => Failure::Send(SendError::TooLong { bytes, max }),
            QueueError::Stopped => Failure::Send(SendError::Ended),
            QueueError::Forked => Failure::Send(SendError::Forked),
            QueueError::OwnThread => Failure::Busy("a call that waits for room, on the thread that makes it"),
        })?;
        if flags & crate::source::flags::FLUSH != 0 {
            sender.0.flush();
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; no other call with the same sender runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_send(
    sender: *mut SenderHandle,
    data: *const c_void,
    length: usize,
    flags: u32,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { send(sender, (data, length), flags, EmbeddedSource::send) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; no other call with the same sender runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_send_wait(
    sender: *mut SenderHandle,
    data: *const c_void,
    length: usize,
    flags: u32,
    timeout_ns: i64,
) -> c_int {
    let timeout = span(timeout_ns).unwrap_or(Duration::MAX);
    // SAFETY: the header's promise.
    unsafe { send(sender, (data, length), flags, |source, parts| source.send_wait(parts, timeout)) }
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; no other call with the same sender runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_send_hot_failover(
    sender: *mut SenderHandle,
    number: u64,
    data: *const c_void,
    length: usize,
    flags: u32,
) -> c_int {
    // SAFETY: the header's promise.
    unsafe { send(sender, (data, length), flags, |source, parts| source.send_hot_failover(number, parts)) }
}

/// See the header.
///
/// # Safety
/// `sender` is NULL or a sender; no other call with the same sender runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_flush(sender: *mut SenderHandle) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        unsafe { sender.as_mut() }.ok_or(Failure::Null("sender"))?.0.flush();
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// The pointers are what the header says, or NULL; the sender is not destroyed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_thread_wait_for_receivers(
    thread: *mut ThreadHandle,
    sender: *const SenderHandle,
    count: u32,
    timeout_ns: i64,
    found: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: the header's promise.
        let (handle, sender) = unsafe { (handle(thread)?, sender.as_ref()) };
        let source = sender.ok_or(Failure::Null("sender"))?.0.handle();
        handle.refuse_there()?;
        let timeout = span(timeout_ns).unwrap_or(Duration::MAX);
        let there = handle.context.wait_for_receivers(source, count as usize, timeout);
        let there = there.map_err(|_| Failure::Send(SendError::Ended))?.map_err(Failure::Io)?;
        // SAFETY: the header's promise.
        unsafe { answer_receivers(there, count, found) }
    })
}

/// See the header.
///
/// # Safety
/// `sender` is NULL or a sender that is not used after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickcast_sender_destroy(sender: *mut SenderHandle) {
    guarded(|| {
        if !sender.is_null() {
            // SAFETY: it came from `Box::into_raw`, and nobody uses it any more by the header's promise.
            drop(unsafe { Box::from_raw(sender) });
        }
        Ok(0)
    });
}
