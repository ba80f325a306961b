//! What C has sent arrives, or is told lost, though the context is destroyed at once.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::watchdog::{self, joined};
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
    watchdog::watch();
    let port = 20_000 + std::process::id() % 10_000;
    let mut settings = vec![
        format!("resolver.multicast_address=239.255.97.{test}"),
        format!("resolver.multicast_port={port}"),
        format!("lbtrm.multicast_address=239.255.98.{test}"),
        format!("lbtrm.destination_port={port}"),
    ];
    let ports = ["lbtrm.source_port", "tcp.port", "lbtru.port", "lbtru.receiver_port"];
    for (end, number) in [("low", 30_000), ("high", 40_000)] {
        settings.extend(ports.iter().map(|port| format!("{port}_{end}={number}")));
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
        "lbtrm.data_rate_limit_bits_per_second=1000000",
        "lbtrm.retransmit_rate_limit_bits_per_second=500000",
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

/// Numbers messages in the order of the calls that send them.
struct Numbering {
    context: *mut ContextHandle,
    source: u64,
    next: u32,
    /// Most that callbacks send.
    until: u32,
    refused: u32,
}

/// Sends the next number, within a callback.
unsafe extern "C" fn send_next(user: *mut c_void, _: *const MessageValue) {
    // SAFETY: what was given with the handlers; nobody else uses it while callbacks run.
    let numbering = unsafe { &mut *user.cast::<Numbering>() };
    if numbering.next >= numbering.until {
        return;
    }
    let payload = numbering.next.to_be_bytes();
    // SAFETY: a context and bytes that are there.
    let code = unsafe {
        let data = payload.as_ptr().cast();
        tickcast_source_send(numbering.context, numbering.source, data, 4, 0, null_mut())
    };
    assert!(code == 0 || code == WOULD_BLOCK, "{}", last_error());
    numbering.next += u32::from(code == 0);
    numbering.refused += u32::from(code != 0);
}

/// Numbers in the order in which they came.
unsafe extern "C" fn note_number(user: *mut c_void, message: *const MessageValue) {
    // SAFETY: what was given with the handlers, and what the library gives to callbacks.
    let (numbers, message) = unsafe { (&mut *user.cast::<Vec<u32>>(), &*message) };
    if message.length == 4 {
        // SAFETY: so many bytes are there.
        numbers.push(u32::from_be_bytes(unsafe { message.data.cast::<[u8; 4]>().read() }));
    }
}

/// A context with `c.live` by TCP, which it receives itself, and `c.slow` by LBT-RM of little rate.
fn slow_and_live(test: usize, rate: u32) -> (Vec<CString>, *mut ContextHandle, [u64; 2]) {
    let rates = [
        format!("lbtrm.data_rate_limit_bits_per_second={rate}"),
        format!("lbtrm.retransmit_rate_limit_bits_per_second={}", rate / 2),
    ];
    let settings = settings(test, &rates.each_ref().map(String::as_str));
    let context = context(&settings);
    let (mut sources, mut receiver) = ([0; 2], 0);
    // SAFETY: a context, texts and places.
    unsafe {
        for (place, (topic, transport)) in
            sources.iter_mut().zip([(c"c.live", c"tcp"), (c"c.slow", c"lbtrm")])
        {
            let made = tickcast_source_create(context, topic.as_ptr(), transport.as_ptr(), place);
            assert_eq!(made, 0, "{}", last_error());
        }
        let made = tickcast_receiver_create(context, c"c.live".as_ptr(), 0, &raw mut receiver);
        assert_eq!(made, 0, "{}", last_error());
    }
    (settings, context, sources)
}

#[test]
fn a_source_keeps_the_order_of_calls_whether_callbacks_or_waiting_calls_send() {
    const NUMBERS: u32 = 1_000;
    let (settings, near, [live, slow]) = slow_and_live(31, 4_000_000);
    let far = context(&settings);
    let mut numbering = Numbering { context: near, source: slow, next: 0, until: 0, refused: 0 };
    let (mut numbers, mut receiver, begun) = (Vec::new(), 0, Instant::now());
    let (user, far_user): (*mut Numbering, *mut Vec<u32>) = (&raw mut numbering, &raw mut numbers);
    let numbering_handlers = Handlers { on_message: Some(send_next), ..Handlers::NONE };
    let noting = Handlers { on_message: Some(note_number), ..Handlers::NONE };
    // SAFETY: contexts, texts, bytes, places, and `user`s that outlive the handlers' use; nothing but the raw
    // pointers reaches them.
    unsafe {
        assert_eq!(tickcast_context_set_handlers(near, &raw const numbering_handlers, user.cast()), 0);
        assert_eq!(tickcast_context_set_handlers(far, &raw const noting, far_user.cast()), 0);
        assert_eq!(tickcast_receiver_create(far, c"c.slow".as_ptr(), 0, &raw mut receiver), 0);
        let turn = || {
            assert!(begun.elapsed() < WATCHDOG, "it hangs");
            assert!(tickcast_context_poll(near) >= 0, "{}", last_error());
            assert!(tickcast_context_wait(far, 1_000_000) >= 0, "{}", last_error());
        };
        let send = |source, payload: &[u8], timeout| {
            let (data, length) = (payload.as_ptr().cast(), payload.len());
            tickcast_source_send_wait(near, source, data, length, 1, timeout, null_mut())
        };
        // Until they have met.
        while (*far_user).is_empty() {
            turn();
            assert_eq!(send(slow, &u32::MAX.to_be_bytes(), -1), 0, "{}", last_error());
        }
        (*user).until = NUMBERS;
        let filling = [7; 20_000];
        while (*user).next < NUMBERS {
            for _ in 0..20 {
                assert_eq!(send(live, b"now", -1), 0, "{}", last_error());
            }
            turn();
            let number = (*user).next;
            (*user).next += 1;
            assert_eq!(send(slow, &number.to_be_bytes(), -1), 0, "{}", last_error());
            assert_eq!(send(slow, &filling, -1), 0, "{}", last_error());
        }
        let count = (*user).next;
        assert_eq!(tickcast_context_drain(near, -1, null_mut()), 0, "{}", last_error());
        while (*far_user).last() != Some(&(count - 1)) {
            turn();
        }
        assert_eq!((*user).refused, 0, "fewer wait than may");
        tickcast_context_destroy(near);
        tickcast_context_destroy(far);
        numbers.retain(|&number| number != u32::MAX);
        assert!(numbers.iter().copied().eq(0..count), "{numbers:?}");
    }
}

#[test]
fn what_callbacks_sent_and_has_no_room_is_told_and_holds_up_no_other_source() {
    let (_, near, [live, slow]) = slow_and_live(32, 100_000);
    let mut numbering = Numbering { context: near, source: slow, next: 0, until: u32::MAX, refused: 0 };
    let user: *mut Numbering = &raw mut numbering;
    let (mut left, mut place, begun) = (LeftValue::default(), null_mut(), Instant::now());
    let handlers = Handlers { on_message: Some(send_next), ..Handlers::NONE };
    let filling = [7_u8; 60_000];
    // SAFETY: a context, texts, bytes, places, and a `user` that outlives the handlers' use.
    unsafe {
        let send = |source, payload: &[u8]| {
            tickcast_source_send(near, source, payload.as_ptr().cast(), payload.len(), 1, null_mut())
        };
        while send(slow, &filling) == 0 {}
        assert_eq!(tickcast_context_set_handlers(near, &raw const handlers, user.cast()), 0);
        loop {
            assert!(begun.elapsed() < WATCHDOG, "it hangs");
            if (*user).next > 0 {
                break;
            }
            assert_eq!(send(live, b"now"), 0, "{}", last_error());
            assert!(tickcast_context_wait(near, 1_000_000) >= 0, "{}", last_error());
        }
        let wanted = (*user).next;
        assert_eq!(tickcast_context_set_handlers(near, null(), null_mut()), 0);
        // The blocked source keeps the order; nothing else has anything to do with it.
        assert_eq!(send(slow, b"x"), WOULD_BLOCK);
        assert_eq!(
            tickcast_source_send_wait(near, slow, b"x".as_ptr().cast(), 1, 0, 0, null_mut()),
            WOULD_BLOCK
        );
        assert_eq!(tickcast_source_claim(near, slow, 8, &raw mut place), WOULD_BLOCK);
        assert_eq!(tickcast_source_delete(near, slow), WOULD_BLOCK);
        assert_eq!(send(live, b"now"), 0, "{}", last_error());
        assert_eq!(tickcast_source_claim(near, live, 8, &raw mut place), 0, "{}", last_error());
        assert_eq!(tickcast_source_commit(near, null_mut()), 0, "{}", last_error());
        assert_eq!(tickcast_source_flush(near, slow), 0, "{}", last_error());
        assert_eq!(tickcast_context_flush(near), 0, "{}", last_error());
        assert_eq!(tickcast_source_delete(near, live), 0, "{}", last_error());
        assert_eq!(tickcast_context_drain(near, 0, &raw mut left), 1);
        assert!(left.messages > u64::from(wanted), "{left:?}, {wanted} of callbacks");
        assert_eq!(tickcast_context_close(near, 0, &raw mut left), 1, "{}", last_error());
        assert!(left.messages > u64::from(wanted), "{left:?}, {wanted} of callbacks");
        tickcast_context_destroy(near);
    }
}

/// What became of the sends of one callback.
struct Burst {
    context: *mut ContextHandle,
    source: u64,
    taken: u32,
    refused: u32,
    wake_ups: u32,
}

unsafe extern "C" fn send_burst(user: *mut c_void, _: *const MessageValue) {
    // SAFETY: what was given with the handlers; nobody else uses it while callbacks run.
    let burst = unsafe { &mut *user.cast::<Burst>() };
    for _ in 0..if burst.taken == 0 { 5_000 } else { 0 } {
        // SAFETY: a context and no bytes.
        let code = unsafe { tickcast_source_send(burst.context, burst.source, null(), 0, 0, null_mut()) };
        assert!(code == 0 || code == WOULD_BLOCK, "{}", last_error());
        burst.taken += u32::from(code == 0);
        burst.refused += u32::from(code != 0);
    }
}

unsafe extern "C" fn note_wake_up(user: *mut c_void, source: u64, event: c_int, _: *const c_char) {
    // SAFETY: what was given with the handlers; nobody else uses it while callbacks run.
    let burst = unsafe { &mut *user.cast::<Burst>() };
    let is_wake_up = event == tickcast::callbacks::source_events::WAKE_UP && source == burst.source;
    burst.wake_ups += u32::from(is_wake_up && burst.refused > 0);
}

#[test]
fn who_sends_more_than_may_wait_within_a_callback_is_woken_up() {
    let (_, near, [live, _]) = slow_and_live(33, 1_000_000);
    let mut burst = Burst { context: near, source: live, taken: 0, refused: 0, wake_ups: 0 };
    let (user, begun): (*mut Burst, _) = (&raw mut burst, Instant::now());
    let handlers =
        Handlers { on_message: Some(send_burst), on_source_event: Some(note_wake_up), ..Handlers::NONE };
    // SAFETY: a context, bytes, and a `user` that outlives the handlers' use.
    unsafe {
        assert_eq!(tickcast_context_set_handlers(near, &raw const handlers, user.cast()), 0);
        loop {
            assert!(begun.elapsed() < WATCHDOG, "nobody says that there is room");
            if (*user).wake_ups > 0 {
                break;
            }
            if (*user).taken == 0 {
                let sent = tickcast_source_send(near, live, b"now".as_ptr().cast(), 3, 1, null_mut());
                assert_eq!(sent, 0, "{}", last_error());
            }
            assert!(tickcast_context_wait(near, 1_000_000) >= 0, "{}", last_error());
        }
        assert_eq!(((*user).taken, (*user).refused), (2_048, 2_952));
        tickcast_context_destroy(near);
    }
}
