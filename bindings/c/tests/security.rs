//! Keys that are replaced while a context runs, as C sees it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use tickcast::callbacks::{Handlers, security_events};
use tickcast::context::*;
use tickcast::error::{ErrorCode, tickcast_last_error};
use tickcast::thread::*;

const WATCHDOG: Duration = Duration::from_secs(60);

fn last_error() -> String {
    // SAFETY: it is a text until the next error of this thread.
    unsafe { CStr::from_ptr(tickcast_last_error()) }.to_string_lossy().into_owned()
}

/// What was told, in its order.
type Told = Vec<(c_int, String)>;

unsafe extern "C" fn on_security(user: *mut c_void, event: c_int, text: *const c_char) {
    // SAFETY: what was given to `tickcast_context_set_handlers`, and a text that is there until this returns.
    let (told, text) = unsafe { (&mut *user.cast::<Told>(), CStr::from_ptr(text)) };
    told.push((event, text.to_string_lossy().into_owned()));
}

#[test]
fn changed_keys_are_read_by_the_context_itself_and_on_demand() {
    let folder = testkit::Folder::new();
    let keys = folder.join("c-keys");
    let file = keys.display().to_string();
    let good = "1 000102030405060708090a0b0c0d0e0f";
    fs::write(&keys, good).expect("a writable place");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let settings = [
        format!("lbtrm.authentication_key_file={file}"),
        "security_reload_interval_us=10000".to_owned(),
        "resolver.multicast_address=239.255.93.200".to_owned(),
    ];
    let settings = settings.map(|text| CString::new(text).expect("no zeros"));
    let pointers: Vec<*const c_char> = settings.iter().map(|s| s.as_ptr()).collect();
    let (mut context, mut thread) = (null_mut(), null_mut());
    // SAFETY: texts and places, as the header wants them.
    let codes = unsafe {
        [
            tickcast_context_create(null(), pointers.as_ptr(), pointers.len(), &raw mut context),
            tickcast_thread_start(
                null(),
                pointers.as_ptr(),
                pointers.len(),
                null(),
                null_mut(),
                &raw mut thread,
            ),
        ]
    };
    assert_eq!(codes, [0, 0], "{}", last_error());

    let mut told = Told::new();
    let user: *mut Told = &raw mut told;
    let handlers = Handlers { on_security: Some(on_security), ..unheard() };
    // SAFETY: a context and handlers; `told` outlives them.
    assert_eq!(unsafe { tickcast_context_set_handlers(context, &raw const handlers, user.cast()) }, 0);
    let begun = Instant::now();
    let until = |event| {
        // SAFETY: `told` is there, and only callbacks from within the wait below change it.
        while unsafe { &*user }.last().is_none_or(|(last, text)| *last != event || !text.contains(&file)) {
            assert!(begun.elapsed() < WATCHDOG, "it is not told");
            // SAFETY: a context.
            assert!(unsafe { tickcast_context_wait(context, 1_000_000) } >= 0, "{}", last_error());
        }
    };
    until(security_events::EXPOSED);
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("it is ours");
    fs::write(&keys, "2 no secret").expect("a writable place");
    until(security_events::RELOAD_FAILED);
    // SAFETY: a context and a thread.
    let codes =
        unsafe { [tickcast_context_reload_security(context), tickcast_thread_reload_security(thread)] };
    assert_eq!(codes, [ErrorCode::Io as c_int; 2], "{}", last_error());
    assert!(last_error().contains(&file), "{}", last_error());
    fs::write(&keys, good).expect("a writable place");
    until(security_events::RELOADED);
    // SAFETY: the same; they are not used any more afterwards.
    unsafe {
        assert_eq!(tickcast_context_reload_security(context), 0, "{}", last_error());
        assert_eq!(tickcast_thread_reload_security(thread), 0, "{}", last_error());
        tickcast_context_destroy(context);
        assert_eq!(tickcast_thread_stop(thread), 0, "{}", last_error());
    }
}

fn unheard() -> Handlers {
    Handlers {
        size: size_of::<Handlers>(),
        on_message: None,
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
