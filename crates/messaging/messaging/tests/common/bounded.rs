//! Waits that end: what hangs fails with a message, and not with the time that the whole run may take.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A test that has not gone on for so long hangs in the library: threads of tests and children give up long before.
const HANGS: Duration = Duration::from_secs(20 * 60);
/// Time in which the process was stopped hardly counts.
const LOOK: Duration = Duration::from_secs(1);

/// What a thread has come to, which has a bound of its own for all that it waits for.
pub(crate) fn joined<T>(thread: JoinHandle<T>) -> T {
    let mut looks = 0;
    while !thread.is_finished() {
        assert!(looks < 180_000, "thread {:?} of the test hangs", thread.thread().name());
        std::thread::sleep(Duration::from_millis(1));
        looks += 1;
    }
    match thread.join() {
        Ok(result) => result,
        Err(panicked) => std::panic::resume_unwind(panicked),
    }
}

thread_local! {
    static OF_THIS_TEST: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Watches the test of this thread until the thread ends, from now on: it may be in the library, which joins a thread
/// of its own or waits for its answer. A test that hangs ends the process, with its name.
pub(crate) fn watch() {
    OF_THIS_TEST.with_borrow_mut(|watch| watch.get_or_insert_with(Watch::begin).go_on());
}

/// Ends the watching thread when it is dropped.
struct Watch(Arc<Mutex<Duration>>);

impl Watch {
    fn begin() -> Watch {
        let left = Arc::new(Mutex::new(HANGS));
        let (there, name) = (left.clone(), std::thread::current().name().unwrap_or("a test").to_owned());
        let look = move || {
            while Arc::strong_count(&there) > 1 {
                let begun = Instant::now();
                std::thread::sleep(LOOK);
                let mut left = there.lock().unwrap_or_else(PoisonError::into_inner);
                *left = left.saturating_sub(begun.elapsed().min(2 * LOOK));
                if left.is_zero() {
                    // Past what keeps the output of tests until they end.
                    let _ = writeln!(std::io::stderr(), "{name} has hung for {HANGS:?}");
                    std::process::abort();
                }
            }
        };
        std::thread::Builder::new().name("watch".to_owned()).spawn(look).expect("threads are left");
        Watch(left)
    }

    fn go_on(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = HANGS;
    }
}
