//! The functions of the header, called as C calls them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tickcast::callbacks::{Handlers, MessageValue, flags};
use tickcast::context::*;
use tickcast::error::{ErrorCode, tickcast_last_error};
use tickcast::receiver::*;
use tickcast::request::*;
use tickcast::source::*;
use tickcast::thread::*;

const OK: c_int = 0;
/// Whatever takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

fn last_error() -> String {
    // SAFETY: it is a text until the next error of this thread.
    unsafe { CStr::from_ptr(tickcast_last_error()) }.to_string_lossy().into_owned()
}

/// What keeps this test's traffic apart from others.
fn settings(test: u8) -> Vec<CString> {
    let port = 20_000 + std::process::id() % 10_000;
    [
        format!("resolver.multicast_address=239.255.93.{test}"),
        format!("resolver.multicast_port={port}"),
        format!("lbtrm.multicast_address=239.255.94.{test}"),
        format!("lbtrm.destination_port={port}"),
        "lbtrm.source_port_low=30000".to_owned(),
        "lbtrm.source_port_high=40000".to_owned(),
        "request_tcp_port_low=30000".to_owned(),
        "request_tcp_port_high=40000".to_owned(),
    ]
    .map(|text| CString::new(text).expect("no zeros"))
    .to_vec()
}

fn context(test: u8) -> *mut ContextHandle {
    let settings = settings(test);
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let mut context = null_mut();
    // SAFETY: texts and a place, as the header wants them.
    let code =
        unsafe { tickcast_context_create(null(), pointers.as_ptr(), pointers.len(), &raw mut context) };
    assert_eq!(code, OK, "{}", last_error());
    context
}

fn source(context: *mut ContextHandle, topic: &CStr) -> u64 {
    let mut source = 0;
    // SAFETY: a context, a text and a place.
    let code = unsafe { tickcast_source_create(context, topic.as_ptr(), null(), &raw mut source) };
    assert_eq!(code, OK, "{}", last_error());
    source
}

fn receiver(context: *mut ContextHandle, topic: &CStr) -> u64 {
    let mut receiver = 0;
    // SAFETY: a context, a text and a place.
    let code = unsafe { tickcast_receiver_create(context, topic.as_ptr(), 0, &raw mut receiver) };
    assert_eq!(code, OK, "{}", last_error());
    receiver
}

fn send(context: *mut ContextHandle, source: u64, payload: &[u8]) -> c_int {
    // SAFETY: a context and bytes that are there.
    unsafe { tickcast_source_send(context, source, payload.as_ptr().cast(), payload.len(), 1, null_mut()) }
}

/// What callbacks have seen.
struct Seen {
    context: *mut ContextHandle,
    source: u64,
    messages: Vec<Vec<u8>>,
    codes: Vec<c_int>,
}

unsafe extern "C" fn on_message(user: *mut c_void, message: *const MessageValue) {
    // SAFETY: what was given to `tickcast_context_set_handlers`, and what the library gives to callbacks.
    let (seen, message) = unsafe { (&mut *user.cast::<Seen>(), &*message) };
    // SAFETY: so many bytes are there until this returns.
    let payload = unsafe { std::slice::from_raw_parts(message.data.cast::<u8>(), message.length) };
    seen.messages.push(payload.to_vec());
    if payload == b"first" {
        seen.codes.push(send(seen.context, seen.source, b"second"));
        // SAFETY: a context; it is in use, which the library is to notice.
        seen.codes.push(unsafe { tickcast_context_poll(seen.context) });
        let mut place = null_mut();
        // SAFETY: as above, and a place.
        seen.codes.push(unsafe { tickcast_source_claim(seen.context, seen.source, 8, &raw mut place) });
    }
}

fn handlers() -> Handlers {
    Handlers {
        size: size_of::<Handlers>(),
        on_message: Some(on_message),
        on_source: None,
        on_begin: None,
        on_loss: None,
        on_end: None,
        on_source_event: None,
        on_response: None,
        on_request_end: None,
        on_failover_loss: None,
        on_security: None,
        on_stream_end: None,
        on_receivers: None,
    }
}

/// Turns until `is_done`; sends `again` now and then, until its receiver is found.
fn drive(seen: &mut Seen, again: &[u8], is_done: impl Fn(&Seen) -> bool) {
    let user: *mut Seen = seen;
    let handlers = handlers();
    let begun = Instant::now();
    // SAFETY: `user` outlives the handlers' use, which ends below.
    unsafe {
        let context = (*user).context;
        assert_eq!(tickcast_context_set_handlers(context, &raw const handlers, user.cast()), OK);
        while !is_done(&*user) {
            assert!(begun.elapsed() < WATCHDOG, "{:?}", (*user).messages);
            if (*user).messages.is_empty() {
                assert_eq!(send(context, (*user).source, again), OK);
            }
            assert!(tickcast_context_wait(context, 10_000_000) >= 0, "{}", last_error());
        }
        assert_eq!(tickcast_context_set_handlers(context, null(), null_mut()), OK);
    }
}

#[test]
fn a_callback_sends_and_the_rest_is_refused() {
    let context = context(1);
    receiver(context, c"c.callback");
    let source = source(context, c"c.callback");
    let mut seen = Seen { context, source, messages: Vec::new(), codes: Vec::new() };
    drive(&mut seen, b"first", |seen| seen.messages.iter().any(|m| m == b"second"));
    let busy = ErrorCode::Busy as c_int;
    assert_eq!(seen.codes[..3], [OK, busy, busy]);
    // SAFETY: it is not used any more.
    unsafe { tickcast_context_destroy(context) };
}

#[test]
fn a_claim_is_sent_when_it_is_committed_and_leaves_nothing_when_it_is_aborted() {
    let context = context(2);
    receiver(context, c"c.claim");
    let source = source(context, c"c.claim");
    // SAFETY: a context and places; payloads are written while they are claimed.
    unsafe {
        let (mut room, mut max) = (null_mut::<c_void>(), 0);
        assert_eq!(tickcast_source_claim_max(context, source, &raw mut max), OK);
        let too_long = tickcast_source_claim(context, source, max + 1, &raw mut room);
        assert_eq!((too_long, room.is_null()), (ErrorCode::TooLong as c_int, true), "{}", last_error());
        assert_eq!(tickcast_source_claim(context, source, 7, &raw mut room), OK);
        assert_eq!(send(context, source, b"no"), ErrorCode::Busy as c_int);
        room.cast::<[u8; 7]>().write(*b"aborted");
        assert_eq!(tickcast_source_abort(context), OK);
        assert_eq!(tickcast_source_abort(context), ErrorCode::Argument as c_int);
    }
    let mut seen = Seen { context, source, messages: Vec::new(), codes: Vec::new() };
    drive(&mut seen, b"found", |seen| !seen.messages.is_empty());
    // SAFETY: as above.
    unsafe {
        let mut room = null_mut::<c_void>();
        assert_eq!(tickcast_source_claim(context, source, 9, &raw mut room), OK);
        room.cast::<[u8; 9]>().write(*b"committed");
        let mut sqn = 0;
        assert_eq!(tickcast_source_commit(context, &raw mut sqn), OK);
        assert!(sqn > 0);
    }
    drive(&mut seen, b"found", |seen| seen.messages.iter().any(|m| m == b"committed"));
    assert!(seen.messages.iter().all(|m| m != b"aborted"));
    // SAFETY: an open claim goes with the context, which is not used any more.
    unsafe {
        let mut room = null_mut::<c_void>();
        assert_eq!(tickcast_source_claim(context, source, 9, &raw mut room), OK);
        tickcast_context_destroy(context);
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_name() {
    let argument = ErrorCode::Argument as c_int;
    let context = context(3);
    let topic = c"c.refused";
    let source = source(context, topic);
    let mut place = 0;
    // SAFETY: NULL is allowed everywhere, and refused.
    unsafe {
        assert_eq!(tickcast_context_poll(null_mut()), argument);
        assert_eq!(last_error(), "`context` is NULL");
        assert_eq!(tickcast_source_create(context, null(), null(), &raw mut place), argument);
        assert_eq!(last_error(), "`topic` is NULL");
        assert_eq!(tickcast_source_create(context, topic.as_ptr(), c"pigeon".as_ptr(), &raw mut place), -2);
        assert!(last_error().contains("pigeon") && last_error().contains("lbtrm"), "{}", last_error());
        assert_eq!(tickcast_source_create(context, c"\xff".as_ptr(), null(), &raw mut place), argument);
        assert_eq!(last_error(), "`topic` is not UTF-8");
        assert_eq!(tickcast_source_send(context, source, null(), 1, 0, null_mut()), argument);
        assert_eq!(tickcast_source_send(context, source, null(), 0, 0, null_mut()), OK);
        assert_eq!(tickcast_respond(context, null(), null(), 0), argument);
        assert_eq!(tickcast_source_commit(context, null_mut()), argument);
        assert_eq!(tickcast_source_delete(context, source), OK);
        assert_eq!(send(context, source, b"gone"), ErrorCode::Ended as c_int);
        tickcast_context_destroy(context);
        tickcast_context_destroy(null_mut());
    }
}

#[test]
fn a_pattern_receives_the_topics_in_which_it_is_found() {
    let (context, mut receiver) = (context(6), 0);
    // SAFETY: a context, texts and a place.
    unsafe {
        let code = tickcast_receiver_create_pattern(context, c"c.(".as_ptr(), 0, &raw mut receiver);
        assert_eq!(code, ErrorCode::Argument as c_int);
        assert!(last_error().contains("c.("), "{}", last_error());
        let pattern = c"^c\\.pattern\\.[ab]$".as_ptr();
        let code = tickcast_receiver_create_pattern(context, pattern, 0, &raw mut receiver);
        assert_eq!(code, OK, "{}", last_error());
    }
    let (found, other) = (source(context, c"c.pattern.b"), source(context, c"c.pattern.c"));
    let mut seen = Seen { context, source: found, messages: Vec::new(), codes: Vec::new() };
    drive(&mut seen, b"b", |seen| !seen.messages.is_empty());
    assert_eq!((send(context, other, b"c"), send(context, found, b"last")), (OK, OK));
    drive(&mut seen, b"b", |seen| seen.messages.iter().any(|m| m == b"last"));
    assert!(seen.messages.iter().all(|m| m != b"c"), "{:?}", seen.messages);
    // SAFETY: it is not used any more.
    unsafe { tickcast_context_destroy(context) };
}

#[test]
fn a_wrong_setting_is_told_with_the_nearest_name() {
    let setting = c"tll=4".as_ptr();
    let mut context = null_mut();
    // SAFETY: one text and a place.
    let code = unsafe { tickcast_context_create(null(), &raw const setting, 1, &raw mut context) };
    assert_eq!((code, context.is_null()), (ErrorCode::Config as c_int, true));
    assert!(last_error().contains("ttl"), "{}", last_error());
    let missing = c"/nonexistent.toml".as_ptr();
    // SAFETY: as above.
    let code = unsafe { tickcast_context_create(missing, null(), 0, &raw mut context) };
    assert_eq!(code, ErrorCode::Config as c_int);
    assert!(last_error().contains("/nonexistent.toml"), "{}", last_error());
}

#[test]
fn another_event_loop_learns_what_to_wait_for() {
    let context = context(4);
    receiver(context, c"c.loop");
    // SAFETY: a context.
    unsafe {
        assert!(tickcast_context_descriptor(context) >= 0);
        assert!(tickcast_context_until_wakeup_ns(context) >= 0);
        assert_eq!(tickcast_context_until_wakeup_ns(null_mut()), i64::from(ErrorCode::Argument as c_int));
        assert_eq!(tickcast_context_stop(context), OK);
        assert_eq!(tickcast_context_run(context), OK);
        tickcast_context_destroy(context);
    }
}

/// What a thread's callbacks have seen.
struct SeenThere {
    thread: AtomicPtr<ThreadHandle>,
    messages: AtomicUsize,
    refused: AtomicUsize,
}

unsafe extern "C" fn on_message_there(user: *mut c_void, _: *const MessageValue) {
    // SAFETY: what was given to `tickcast_thread_start`; it is only ever shared.
    let seen = unsafe { &*user.cast::<SeenThere>() };
    let mut receiver = 0;
    let thread = seen.thread.load(Ordering::Acquire);
    // SAFETY: a thread that is running, a text and a place.
    let code = unsafe { tickcast_thread_receive(thread, c"c.other".as_ptr(), 0, &raw mut receiver) };
    seen.refused.fetch_add(usize::from(code == ErrorCode::Busy as c_int), Ordering::AcqRel);
    seen.messages.fetch_add(1, Ordering::AcqRel);
}

#[test]
fn a_thread_of_the_library_sends_and_calls_back() {
    let settings = settings(5);
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let seen = SeenThere {
        thread: AtomicPtr::new(null_mut()),
        messages: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
    };
    let handlers = Handlers { on_message: Some(on_message_there), ..handlers() };
    let (mut thread, mut sender, mut receiver) = (null_mut(), null_mut(), 0);
    let user = (&raw const seen).cast_mut().cast::<c_void>();
    let begun = Instant::now();
    // SAFETY: texts, places, and callbacks whose `user` outlives the thread; one thread uses the sender.
    unsafe {
        let (texts, count) = (pointers.as_ptr(), pointers.len());
        let code = tickcast_thread_start(null(), texts, count, &raw const handlers, user, &raw mut thread);
        assert_eq!(code, OK, "{}", last_error());
        seen.thread.store(thread, Ordering::Release);
        let wrong = tickcast_thread_receive_pattern(thread, c"c.(".as_ptr(), 0, &raw mut receiver);
        assert_eq!(wrong, ErrorCode::Argument as c_int);
        assert_eq!(tickcast_thread_receive(thread, c"c.silent".as_ptr(), 0, &raw mut receiver), OK);
        assert_eq!(tickcast_thread_forget(thread, receiver), OK);
        let pattern = c"^c\\.t.*d$".as_ptr();
        assert_eq!(tickcast_thread_receive_pattern(thread, pattern, 0, &raw mut receiver), OK);
        assert_eq!(tickcast_sender_create(thread, c"c.thread".as_ptr(), null(), &raw mut sender), OK);
        while seen.messages.load(Ordering::Acquire) < 3 {
            assert!(begun.elapsed() < WATCHDOG);
            let code = tickcast_sender_send(sender, b"there".as_ptr().cast(), 5, 1);
            assert_eq!(code, OK, "{}", last_error());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(tickcast_thread_forget(thread, receiver), OK);
        assert_eq!(tickcast_thread_stop(thread), OK);
        // What nobody takes any more stays in the queue until that is full.
        let (payload, mut code) = ([0_u8; 1000], OK);
        while code == OK {
            code = tickcast_sender_send(sender, payload.as_ptr().cast(), payload.len(), 1);
        }
        assert_eq!(code, ErrorCode::Ended as c_int, "{}", last_error());
        tickcast_sender_destroy(sender);
    }
    let (messages, refused) = (seen.messages.into_inner(), seen.refused.into_inner());
    assert_eq!(messages, refused);
}

/// What the callbacks of hot failover have seen, on whatever thread they ran.
#[derive(Default)]
struct Merged {
    sources: AtomicUsize,
    heard: Mutex<Vec<(u64, Told)>>,
}

/// What a receiver was told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Message(u64, Vec<u8>),
    Lost(String, u64, u64),
}

impl Merged {
    fn is_told(&self, receiver: u64, what: &Told) -> bool {
        self.heard
            .lock()
            .expect("no test panics there")
            .iter()
            .any(|(to, told)| *to == receiver && told == what)
    }

    fn told(&self, receiver: u64) -> Vec<Told> {
        let heard = self.heard.lock().expect("no test panics there");
        heard.iter().filter(|(to, _)| *to == receiver).map(|(_, told)| told.clone()).collect()
    }

    fn handlers() -> Handlers {
        Handlers {
            on_message: Some(on_numbered),
            on_source: Some(on_merged_source),
            on_failover_loss: Some(on_failover_loss),
            ..handlers()
        }
    }
}

unsafe extern "C" fn on_numbered(user: *mut c_void, message: *const MessageValue) {
    // SAFETY: what was given with the handlers, and what the library gives to callbacks.
    let (merged, message) = unsafe { (&*user.cast::<Merged>(), &*message) };
    // SAFETY: so many bytes are there until this returns.
    let payload = unsafe { std::slice::from_raw_parts(message.data.cast::<u8>(), message.length) };
    assert_eq!(message.flags & flags::HAS_NUMBER, flags::HAS_NUMBER);
    let told = Told::Message(message.number, payload.to_vec());
    merged.heard.lock().expect("no test panics there").push((message.receiver, told));
}

unsafe extern "C" fn on_merged_source(user: *mut c_void, _: u64, _: u32, _: *const c_char, _: *const c_char) {
    // SAFETY: what was given with the handlers.
    unsafe { &*user.cast::<Merged>() }.sources.fetch_add(1, Ordering::AcqRel);
}

unsafe extern "C" fn on_failover_loss(
    user: *mut c_void,
    receiver: u64,
    topic: *const c_char,
    first: u64,
    count: u64,
) {
    // SAFETY: what was given with the handlers, and a text until this returns.
    let (merged, topic) = unsafe { (&*user.cast::<Merged>(), CStr::from_ptr(topic)) };
    let told = Told::Lost(topic.to_string_lossy().into_owned(), first, count);
    merged.heard.lock().expect("no test panics there").push((receiver, told));
}

fn send_numbered(context: *mut ContextHandle, source: u64, number: u64) {
    let payload = number.to_be_bytes();
    let data = payload.as_ptr().cast();
    // SAFETY: a context and bytes that are there.
    let code = unsafe { tickcast_source_send_hot_failover(context, source, number, data, 8, 1, null_mut()) };
    assert_eq!(code, OK, "{}", last_error());
}

#[test]
fn hot_failover_delivers_first_copies_and_tells_what_no_source_has() {
    let (one, two, hearing) = (context(7), context(7), context(7));
    let topic = c"c.failover";
    let sources = [source(one, topic), source(two, topic)];
    let (plain, mut merging) = (receiver(hearing, topic), 0);
    let merged = Merged::default();
    let (user, handlers) = ((&raw const merged).cast_mut().cast(), Merged::handlers());
    // SAFETY: a context, a text, a place, and callbacks whose `user` outlives their use, which ends below.
    unsafe {
        let flags = HOT_FAILOVER;
        assert_eq!(tickcast_receiver_create(hearing, topic.as_ptr(), flags, &raw mut merging), OK);
        assert_eq!(tickcast_context_set_handlers(hearing, &raw const handlers, user), OK);
    }
    let drive = |is_done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_done() {
            assert!(begun.elapsed() < WATCHDOG, "{:?}", merged.heard);
            for context in [one, two, hearing] {
                // SAFETY: a context.
                assert!(unsafe { tickcast_context_wait(context, 1_000_000) } >= 0, "{}", last_error());
            }
        }
    };
    let message = |number: u64| Told::Message(number, number.to_be_bytes().to_vec());
    // Each receiver is told of each source.
    drive(&|| merged.sources.load(Ordering::Acquire) == 4);
    for number in 1..=20 {
        send_numbered(one, sources[0], number);
        send_numbered(two, sources[1], number);
    }
    drive(&|| merged.told(plain).len() == 40 && merged.is_told(merging, &message(20)));
    assert_eq!(merged.told(merging), (1..=20).map(message).collect::<Vec<_>>());
    // Nobody knows what a source that has just begun had before: the others may still bring it.
    let late = source(one, topic);
    drive(&|| merged.sources.load(Ordering::Acquire) == 6);
    send_numbered(one, late, 31);
    drive(&|| merged.is_told(plain, &message(31)));
    assert_eq!(merged.told(merging).len(), 20);
    // SAFETY: a context; no callback of this test uses it.
    assert_eq!(unsafe { tickcast_receiver_restart_hot_failover(hearing, merging) }, OK);
    let lost = Told::Lost("c.failover".to_owned(), 21, 10);
    assert_eq!(merged.told(merging)[20..], [lost, message(31)]);
    send_numbered(two, sources[1], 5);
    drive(&|| merged.told(merging).last() == Some(&message(5)));
    for context in [one, two, hearing] {
        // SAFETY: it is not used any more.
        unsafe { tickcast_context_destroy(context) };
    }
}

#[test]
fn hot_failover_goes_through_a_thread_of_the_library() {
    let settings = settings(8);
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let merged = Merged::default();
    let (user, handlers) = ((&raw const merged).cast_mut().cast(), Merged::handlers());
    let (mut thread, mut sender, mut merging) = (null_mut(), null_mut(), 0);
    let until = |is_done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_done() {
            assert!(begun.elapsed() < WATCHDOG, "{:?}", merged.heard);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let message = |number: u64| Told::Message(number, b"there".to_vec());
    // SAFETY: texts, places, and callbacks whose `user` outlives the thread; one thread uses the sender.
    unsafe {
        let (texts, count) = (pointers.as_ptr(), pointers.len());
        let code = tickcast_thread_start(null(), texts, count, &raw const handlers, user, &raw mut thread);
        assert_eq!(code, OK, "{}", last_error());
        let topic = c"c.failover".as_ptr();
        assert_eq!(tickcast_thread_receive(thread, topic, HOT_FAILOVER, &raw mut merging), OK);
        assert_eq!(tickcast_sender_create(thread, topic, null(), &raw mut sender), OK);
        until(&|| merged.sources.load(Ordering::Acquire) == 1);
        let send = |number: u64| {
            let data = b"there".as_ptr().cast();
            assert_eq!(tickcast_sender_send_hot_failover(sender, number, data, 5, 1), OK, "{}", last_error());
        };
        send(1 << 40);
        send((1 << 40) + 1);
        until(&|| merged.told(merging) == [message(1 << 40), message((1 << 40) + 1)]);
        assert_eq!(tickcast_thread_restart_hot_failover(thread, merging), OK);
        send(7);
        until(&|| merged.is_told(merging, &message(7)));
        assert_eq!(tickcast_thread_stop(thread), OK);
        tickcast_sender_destroy(sender);
    }
}

/// What is sent from a callback to a source that takes nothing for now, and how the receiver's stream has
/// ended.
struct Blocked {
    context: *mut ContextHandle,
    source: u64,
    messages: usize,
    deferred: usize,
    ends: Vec<c_int>,
}

unsafe extern "C" fn send_to_blocked(user: *mut c_void, _: *const MessageValue) {
    // SAFETY: what was given to `tickcast_context_set_handlers`.
    let blocked = unsafe { &mut *user.cast::<Blocked>() };
    blocked.messages += 1;
    if !blocked.context.is_null() {
        blocked.deferred += usize::from(send(blocked.context, blocked.source, b"later") == OK);
    }
}

unsafe extern "C" fn on_end(user: *mut c_void, _: u64, _: u32, reason: c_int) {
    // SAFETY: what was given to `tickcast_context_set_handlers`.
    unsafe { &mut *user.cast::<Blocked>() }.ends.push(reason);
}

#[test]
fn sources_end_in_order_though_a_send_of_a_callback_waits_still() {
    let (mut more, ports) = (settings(8), ["tcp.port_low=30000", "tcp.port_high=40000"]);
    let slow = [
        "lbtrm.data_rate_limit_bits_per_second=100000",
        "lbtrm.retransmit_rate_limit_bits_per_second=0",
        "linger_us=0",
    ];
    more.extend(ports.iter().chain(&slow).map(|text| CString::new(*text).expect("no zeros")));
    let pointers: Vec<*const c_char> = more.iter().map(|s| s.as_ptr()).collect();
    let (mut near, mut live, mut slow) = (null_mut(), 0, 0);
    let far = context(8);
    let handlers = Handlers { on_message: Some(send_to_blocked), on_end: Some(on_end), ..handlers() };
    let begun = Instant::now();
    // SAFETY: texts, places, contexts, and `user`s that outlive the handlers' use.
    unsafe {
        let code = tickcast_context_create(null(), pointers.as_ptr(), pointers.len(), &raw mut near);
        assert_eq!(code, OK, "{}", last_error());
        let (topic, tcp) = (c"c.live".as_ptr(), c"tcp".as_ptr());
        assert_eq!(tickcast_source_create(near, topic, tcp, &raw mut live), OK, "{}", last_error());
        let topic = c"c.slow".as_ptr();
        assert_eq!(tickcast_source_create(near, topic, null(), &raw mut slow), OK, "{}", last_error());
        receiver(near, c"c.live");
        receiver(far, c"c.live");
        while send(near, slow, &[0; 60_000]) != ErrorCode::WouldBlock as c_int {}
        let mut there =
            Blocked { context: null_mut(), source: 0, messages: 0, deferred: 0, ends: Vec::new() };
        let mut here = Blocked { context: near, source: slow, messages: 0, deferred: 0, ends: Vec::new() };
        let (user, user_there) = (&raw mut here, &raw mut there);
        assert_eq!(tickcast_context_set_handlers(far, &raw const handlers, user_there.cast()), OK);
        loop {
            assert!(begun.elapsed() < WATCHDOG);
            if (*user).deferred > 0 {
                break;
            }
            if (*user_there).messages > 0 && (*user).messages == 0 {
                // The other side has met the source.
                assert_eq!(tickcast_context_set_handlers(near, &raw const handlers, user.cast()), OK);
            }
            assert_eq!(send(near, live, b"now"), OK, "{}", last_error());
            assert!(tickcast_context_wait(near, 1_000_000) >= 0, "{}", last_error());
            assert!(tickcast_context_wait(far, 1_000_000) >= 0, "{}", last_error());
        }
        tickcast_context_destroy(near);
        assert!(last_error().contains("have not left"), "{}", last_error());
        while (*user_there).ends.is_empty() {
            assert!(begun.elapsed() < WATCHDOG);
            assert!(tickcast_context_wait(far, 1_000_000) >= 0, "{}", last_error());
        }
        assert_eq!((*user_there).ends, [1], "the source has said so");
        tickcast_context_destroy(far);
    }
}

/// Kinds and topics that statistics tell of.
extern "C" fn on_statistic(user: *mut c_void, statistic: *const tickcast::statistics::StatisticValue) {
    // SAFETY: what the call was given, and what it promises to be valid.
    let (told, one) = unsafe { (&mut *user.cast::<Vec<String>>(), &*statistic) };
    // SAFETY: as above.
    let text = |text: *const c_char| match text.is_null() {
        true => "-".to_owned(),
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    // SAFETY: as above: so many names and values.
    let numbers = unsafe {
        let names = std::slice::from_raw_parts(one.names, one.count);
        names.iter().zip(std::slice::from_raw_parts(one.values, one.count))
    };
    assert!(text(one.transport).starts_with("LBTRM:"), "{}", text(one.transport));
    let next = numbers.filter(|(name, _)| text(**name) == "next").map(|(_, value)| value.to_string());
    told.push(format!("{} {} {}", text(one.kind), text(one.topic), next.collect::<String>()));
}

#[test]
fn statistics_name_sources_and_sessions_of_contexts_and_threads() {
    let context = context(40);
    let source = source(context, c"c.statistics");
    assert_eq!(send(context, source, b"one"), OK, "{}", last_error());
    let mut told = Vec::<String>::new();
    let user = (&raw mut told).cast();
    // SAFETY: a context, a callback and what it is given.
    let code =
        unsafe { tickcast::statistics::tickcast_context_statistics(context, Some(on_statistic), user) };
    let all = ["session - ".to_owned(), "source c.statistics 1".to_owned()];
    assert_eq!((code, &told[..]), (OK, &all[..]));
    told.clear();
    let (mut at, mut pages) = (0, Vec::new());
    while pages.is_empty() || at != 0 {
        // SAFETY: a context, a position, a callback and what it is given.
        let code = unsafe {
            let user = (&raw mut told).cast();
            let each = Some(on_statistic as extern "C" fn(_, _));
            tickcast::statistics::tickcast_context_statistics_from(context, &raw mut at, 1, each, user)
        };
        pages.push((code, told.len()));
        assert!(pages.len() < 10, "{pages:?}");
    }
    assert_eq!((&told[..], pages[0], pages.last().map(|page| page.0)), (&all[..], (1, 1), Some(0)));
    // SAFETY: a context, no position, a callback.
    let code = unsafe {
        let (each, user) = (Some(on_statistic as extern "C" fn(_, _)), (&raw mut told).cast());
        tickcast::statistics::tickcast_context_statistics_from(context, null_mut(), 1, each, user)
    };
    assert_eq!(code, ErrorCode::Argument as c_int);
    // SAFETY: a context, and no callback.
    let code = unsafe { tickcast::statistics::tickcast_context_statistics(context, None, user) };
    assert_eq!(code, ErrorCode::Argument as c_int);
    // SAFETY: it is not used any more.
    unsafe { tickcast_context_destroy(context) };
    let settings = settings(41);
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let (mut thread, mut sender) = (null_mut(), null_mut());
    told.clear();
    // SAFETY: texts, places for the answers, and a callback with what it is given.
    unsafe {
        let code = tickcast_thread_start(
            null(),
            pointers.as_ptr(),
            pointers.len(),
            null(),
            null_mut(),
            &raw mut thread,
        );
        assert_eq!(code, OK, "{}", last_error());
        let code = tickcast_sender_create(thread, c"c.thread".as_ptr(), null(), &raw mut sender);
        assert_eq!(code, OK, "{}", last_error());
        let user = (&raw mut told).cast();
        let code = tickcast::statistics::tickcast_thread_statistics(thread, Some(on_statistic), user);
        let all = ["session - ".to_owned(), "source c.thread 0".to_owned()];
        assert_eq!((code, &told[..]), (OK, &all[..]));
        told.clear();
        let (mut at, each) = (0, Some(on_statistic as extern "C" fn(_, _)));
        let user = (&raw mut told).cast();
        let code = tickcast::statistics::tickcast_thread_statistics_from(
            thread,
            &raw mut at,
            usize::MAX,
            each,
            user,
        );
        assert_eq!((code, at, &told[..]), (OK, 0, &all[..]));
        tickcast_sender_destroy(sender);
        assert_eq!(tickcast_thread_stop(thread), OK);
    }
}

unsafe extern "C" fn on_receivers(user: *mut c_void, _: u64, count: u32) {
    // SAFETY: what was given with the handlers.
    unsafe { &*user.cast::<AtomicUsize>() }.store(count as usize, Ordering::Release);
}

#[test]
fn sources_and_senders_wait_for_their_receivers() {
    let settings = settings(13);
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let start = || {
        let mut thread = null_mut();
        let (texts, count) = (pointers.as_ptr(), pointers.len());
        // SAFETY: texts and a place; nobody is called back.
        let code =
            unsafe { tickcast_thread_start(null(), texts, count, null(), null_mut(), &raw mut thread) };
        assert_eq!(code, OK, "{}", last_error());
        thread
    };
    let (topic, context, hearing) = (c"c.receivers", context(13), start());
    let (source, told, mut found) = (source(context, topic), AtomicUsize::new(0), 7);
    let handlers = Handlers { on_receivers: Some(on_receivers), ..Handlers::NONE };
    let user = (&raw const told).cast_mut().cast();
    let second = 1_000_000_000;
    // SAFETY: contexts, threads, senders, texts and places, each until it is destroyed below; `told` outlives them.
    unsafe {
        assert_eq!(tickcast_context_set_handlers(context, &raw const handlers, user), OK);
        let mut wait = |ns| tickcast_source_wait_for_receivers(context, source, 1, ns, &raw mut found);
        assert_eq!((wait(0), wait(second / 100)), (1, 1), "{}", last_error());
        assert_eq!(found, 0);
        let mut receiver = 0;
        assert_eq!(tickcast_thread_receive(hearing, topic.as_ptr(), 0, &raw mut receiver), OK);
        let mut wait = |ns| tickcast_source_wait_for_receivers(context, source, 1, ns, &raw mut found);
        assert_eq!(wait(60 * second), 0, "{}", last_error());
        assert_eq!((found, told.load(Ordering::Acquire)), (1, 1));
        assert_eq!(tickcast_source_wait_for_receivers(context, source, 1, -1, null_mut()), 0);

        assert_eq!(tickcast_source_receivers(context, source, &raw mut found), OK);
        assert_eq!(found, 0, "it does not ask any more");
        assert_eq!(tickcast_source_watch_receivers(context, source, 1), OK);
        let begun = Instant::now();
        while found == 0 {
            assert!(begun.elapsed() < WATCHDOG);
            assert!(tickcast_context_wait(context, 1_000_000) >= 0, "{}", last_error());
            assert_eq!(tickcast_source_receivers(context, source, &raw mut found), OK);
        }
        assert_eq!(tickcast_source_watch_receivers(context, source, 0), OK);
        assert_eq!(tickcast_source_watch_receivers(context, source + 1, 1), ErrorCode::Io as c_int);

        let (sending, mut sender) = (start(), null_mut());
        assert_eq!(tickcast_sender_create(sending, topic.as_ptr(), null(), &raw mut sender), OK);
        found = 0;
        let there = tickcast_thread_wait_for_receivers(sending, sender, 1, 60 * second, &raw mut found);
        assert_eq!((there, found), (0, 1), "{}", last_error());
        tickcast_sender_destroy(sender);
        tickcast_thread_stop(sending);
        tickcast_thread_stop(hearing);
        tickcast_context_destroy(context);
    }
}
