//! What C has sent arrives, or is told lost, though the context is destroyed at once.

#[path = "../../../crates/messaging/tests/common/bounded.rs"]
mod bounded;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bounded::joined;
use tickcast::callbacks::{AskedValue, EndValue, Handlers, LeftValue, MessageValue, ends};
use tickcast::context::*;
use tickcast::error::{ErrorCode, tickcast_last_error};
use tickcast::receiver::*;
use tickcast::request::*;
use tickcast::source::*;
use tickcast::thread::*;

/// Messages that are sent before the end.
const COUNT: u32 = 5_000;
/// Whatever takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);
const TRANSPORTS: [&CStr; 4] = [c"lbtrm", c"lbtru", c"tcp", c"lbtipc"];
const WOULD_BLOCK: c_int = ErrorCode::WouldBlock as c_int;

fn last_error() -> String {
    // SAFETY: it is a text until the next error of this thread.
    unsafe { CStr::from_ptr(tickcast_last_error()) }.to_string_lossy().into_owned()
}

/// What keeps this test's traffic apart from others, with `more`.
fn settings(test: usize, more: &[&str]) -> Vec<CString> {
    bounded::watch();
    let port = 20_000 + std::process::id() % 10_000;
    let mut settings = vec![
        format!("resolver_multicast_address=239.255.97.{test}"),
        format!("resolver_multicast_port={port}"),
        format!("transport_lbtrm_multicast_address=239.255.98.{test}"),
        format!("transport_lbtrm_destination_port={port}"),
    ];
    let ports = ["lbtrm_source_port", "tcp_port", "lbtru_port", "lbtru_receiver_port"];
    for (end, number) in [("low", 30_000), ("high", 40_000)] {
        settings.extend(ports.iter().map(|port| format!("transport_{port}_{end}={number}")));
    }
    settings.extend(more.iter().map(|text| (*text).to_owned()));
    settings.into_iter().map(|text| CString::new(text).expect("no zeros")).collect()
}

/// A pointer that goes to another thread; one thread at a time uses it.
struct Handed<T>(*mut T);
// SAFETY: the contexts of the library may be used by any thread, one at a time.
unsafe impl<T> Send for Handed<T> {}

fn context(settings: &[CString]) -> *mut ContextHandle {
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let mut context = null_mut();
    // SAFETY: texts and a place, as the header wants them.
    let code =
        unsafe { tickcast_context_create(null(), pointers.as_ptr(), pointers.len(), &raw mut context) };
    assert_eq!(code, 0, "{}", last_error());
    context
}

/// What a receiver was told of its one stream, each number checked to follow the one before.
#[derive(Default)]
struct Heard {
    next: Option<u32>,
    has_met: bool,
    delivered: u32,
    lost: u32,
    end: Option<EndValue>,
}

impl Heard {
    fn follow(&mut self, first: u32, count: u32) {
        assert!(self.next.is_none_or(|next| next == first), "{first} follows {:?}", self.next);
        self.next = Some(first + count);
    }
}

unsafe extern "C" fn on_message(user: *mut c_void, message: *const MessageValue) {
    // SAFETY: what was given with the handlers, and what the library gives to callbacks.
    let (heard, message) = unsafe { (&*user.cast::<Mutex<Heard>>(), &*message) };
    let mut heard = heard.lock().expect("no callback panics");
    heard.follow(message.sqn, 1);
    heard.has_met |= message.length == 5;
    heard.delivered += u32::from(message.length == 4);
}

unsafe extern "C" fn on_loss(user: *mut c_void, _: u64, _: u32, first: u32, count: u32, _: c_int) {
    // SAFETY: what was given with the handlers.
    let mut heard = unsafe { &*user.cast::<Mutex<Heard>>() }.lock().expect("no callback panics");
    heard.follow(first, count);
    heard.lost += count;
}

unsafe extern "C" fn on_stream_end(user: *mut c_void, _: u64, _: u32, end: *const EndValue) {
    // SAFETY: what was given with the handlers, and what the library gives to callbacks.
    let (heard, end) = unsafe { (&*user.cast::<Mutex<Heard>>(), *end) };
    heard.lock().expect("no callback panics").end = Some(end);
}

/// Hears `topic` on a thread of its own until the end, and tells by the first value when it has met the source.
fn hear(settings: &[CString], topic: &'static CStr) -> (std::sync::Arc<Mutex<Heard>>, JoinHandle<()>) {
    let heard = std::sync::Arc::new(Mutex::new(Heard::default()));
    let (there, context) = (heard.clone(), Handed(context(settings)));
    let thread = std::thread::spawn(move || {
        let context = context;
        let handlers = Handlers {
            on_message: Some(on_message),
            on_loss: Some(on_loss),
            on_stream_end: Some(on_stream_end),
            ..Handlers::NONE
        };
        let (begun, mut receiver) = (Instant::now(), 0);
        // SAFETY: a context, a text, places, and handlers whose `user` outlives the context.
        unsafe {
            let user = std::sync::Arc::as_ptr(&there).cast_mut().cast();
            assert_eq!(tickcast_context_set_handlers(context.0, &raw const handlers, user), 0);
            let made = tickcast_receiver_create(context.0, topic.as_ptr(), 0, &raw mut receiver);
            assert_eq!(made, 0, "{}", last_error());
            while there.lock().expect("no callback panics").end.is_none() {
                assert!(begun.elapsed() < WATCHDOG, "the end is not told");
                assert!(tickcast_context_wait(context.0, 10_000_000) >= 0, "{}", last_error());
            }
            tickcast_context_destroy(context.0);
        }
    });
    (heard, thread)
}

/// Sends by `send` until the receiver hears it.
fn meet(heard: &Mutex<Heard>, mut send: impl FnMut(&[u8]) -> c_int) {
    let begun = Instant::now();
    while !heard.lock().expect("no callback panics").has_met {
        assert!(begun.elapsed() < WATCHDOG, "they do not meet");
        assert_eq!(send(b"hello"), 0, "{}", last_error());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Each of `sent` messages was delivered or told lost, and the end says which number would have come next.
fn assert_accounted(heard: &Mutex<Heard>, sent: u32) {
    let heard = heard.lock().expect("no callback panics");
    assert_eq!(heard.delivered + heard.lost, sent, "{} are lost", heard.lost);
    let next = heard.next.expect("something was heard");
    let end = EndValue { reason: ends::ENDED, has_next: 1, next, is_tail_unknown: 0 };
    assert_eq!(heard.end, Some(end));
}

#[test]
fn what_was_sent_arrives_or_is_told_lost_when_the_context_is_destroyed_at_once() {
    for (test, transport) in TRANSPORTS.into_iter().enumerate() {
        let settings = settings(1 + test, &[]);
        let (context, mut source) = (context(&settings), 0);
        let (heard, thread) = hear(&settings, c"c.closing");
        // SAFETY: a context, texts, bytes and places.
        unsafe {
            let topic = c"c.closing".as_ptr();
            let made = tickcast_source_create(context, topic, transport.as_ptr(), &raw mut source);
            assert_eq!(made, 0, "{}", last_error());
            let send = |payload: &[u8]| {
                let (data, length) = (payload.as_ptr().cast(), payload.len());
                tickcast_source_send_wait(context, source, data, length, 0, -1, null_mut())
            };
            meet(&heard, |payload| send(payload).min(tickcast_context_poll(context).min(0)));
            for number in 0..COUNT {
                assert_eq!(send(&number.to_be_bytes()), 0, "{}", last_error());
            }
            tickcast_context_destroy(context);
        }
        joined(thread);
        assert_accounted(&heard, COUNT);
    }
}

#[test]
fn what_was_sent_arrives_or_is_told_lost_when_the_librarys_thread_is_stopped_at_once() {
    for (test, transport) in TRANSPORTS.into_iter().enumerate() {
        let settings = settings(11 + test, &[]);
        let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
        let (mut thread, mut sender) = (null_mut(), null_mut());
        let (heard, hearing) = hear(&settings, c"c.stopping");
        // SAFETY: texts, bytes and places.
        unsafe {
            let (texts, count) = (pointers.as_ptr(), pointers.len());
            let code = tickcast_thread_start(null(), texts, count, null(), null_mut(), &raw mut thread);
            assert_eq!(code, 0, "{}", last_error());
            let topic = c"c.stopping".as_ptr();
            assert_eq!(tickcast_sender_create(thread, topic, transport.as_ptr(), &raw mut sender), 0);
            meet(&heard, |payload| tickcast_sender_send(sender, payload.as_ptr().cast(), payload.len(), 1));
            for number in 0..COUNT {
                let payload = number.to_be_bytes();
                let code = tickcast_sender_send_wait(sender, payload.as_ptr().cast(), 4, 0, -1);
                assert_eq!(code, 0, "{}", last_error());
            }
            assert_eq!(tickcast_sender_flush(sender), 0);
            let mut left = LeftValue { messages: 7, ..LeftValue::default() };
            assert_eq!(tickcast_thread_close(thread, -1, &raw mut left), 0, "{}", last_error());
            assert_eq!(left, LeftValue::default());
            let code = tickcast_sender_send(sender, null(), 0, 0);
            assert_eq!(code, ErrorCode::Ended as c_int);
            tickcast_sender_destroy(sender);
        }
        joined(hearing);
        assert_accounted(&heard, COUNT);
    }
}

#[test]
fn draining_and_closing_say_what_has_not_left() {
    let slow = [
        "transport_lbtrm_data_rate_limit_bits_per_second=1000000",
        "transport_lbtrm_retransmit_rate_limit_bits_per_second=500000",
    ];
    let (settings, mut source, mut sent) = (settings(21, &slow), 0, 0);
    let context = context(&settings);
    let mut left = LeftValue::default();
    // SAFETY: a context, texts, bytes and places.
    unsafe {
        let topic = c"c.left".as_ptr();
        assert_eq!(tickcast_source_create(context, topic, c"lbtrm".as_ptr(), &raw mut source), 0);
        let payload = [7_u8; 1_000];
        let data = payload.as_ptr().cast();
        while tickcast_source_send(context, source, data, payload.len(), 0, null_mut()) == 0 {
            sent += 1;
        }
        let send =
            |timeout| tickcast_source_send_wait(context, source, data, payload.len(), 0, timeout, null_mut());
        // There may be room for some of them by now.
        let refused = loop {
            match send(0) {
                0 => sent += 1,
                code => break code,
            }
        };
        assert_eq!(refused, WOULD_BLOCK);
        assert_eq!(send(-1), 0, "{}", last_error());
        sent += 1;
        assert_eq!(tickcast_context_drain(context, 0, &raw mut left), 1);
        assert!(left.messages > 0 && left.messages <= sent && left.bytes > 1_000 && left.sessions == 1);
        assert_eq!(tickcast_context_drain(context, -1, &raw mut left), 0);
        assert_eq!(left, LeftValue::default());
        while tickcast_source_send(context, source, data, payload.len(), 0, null_mut()) == 0 {
            sent += 1;
        }
        assert_eq!(tickcast_context_close(context, 0, &raw mut left), 1);
        assert!(left.messages > 0 && left.messages <= sent, "{left:?} of {sent}");
        assert_eq!(send(-1), ErrorCode::Ended as c_int);
        assert_eq!(tickcast_context_close(context, -1, null_mut()), 0, "it is closed");
        let (ended, mut made, mut request) = (ErrorCode::Ended as c_int, 0, 0);
        assert_eq!(tickcast_source_create(context, topic, null(), &raw mut made), ended);
        assert!(last_error().contains("closed"), "{}", last_error());
        assert_eq!(tickcast_receiver_create(context, topic, 0, &raw mut made), ended);
        assert_eq!(tickcast_receiver_create_prefix(context, topic, 0, &raw mut made), ended);
        assert_eq!(tickcast_receiver_create_pattern(context, topic, 0, &raw mut made), ended);
        assert_eq!(tickcast_request_send(context, source, data, 4, &raw mut request), ended);
        let asked = AskedValue { index: 1, address: 0x7f00_0001, port: 9 };
        assert_eq!(tickcast_respond(context, &raw const asked, data, 4), ended);
        assert_eq!(tickcast_context_poll(context), ended);
        assert_eq!(tickcast_context_wait(context, -1), ended);
        assert_eq!(tickcast_context_run(context), ended);
        assert_eq!(tickcast_context_drain(context, 0, null_mut()), ended);
        tickcast_context_destroy(context);
    }
}
