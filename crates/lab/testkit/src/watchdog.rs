//! Waits that end: what hangs fails with a message, and not with the time that the whole run may take.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Whatever takes longer hangs.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A test that has not gone on for so long hangs in the library: threads of tests and children give up long before.
const HANGS: Duration = Duration::from_secs(20 * 60);
/// Time in which the process was stopped hardly counts.
const LOOK: Duration = Duration::from_secs(1);

/// How long something is waited for: [`WATCHDOG`]. Time in which the process was stopped hardly counts.
#[derive(Debug)]
pub struct Patience {
    left: Cell<Duration>,
    looked: Cell<Instant>,
}

impl Patience {
    /// It begins now.
    #[must_use]
    pub fn new() -> Patience {
        Patience { left: Cell::new(WATCHDOG), looked: Cell::new(Instant::now()) }
    }

    /// Whether to go on; to be asked often.
    #[must_use]
    pub fn lasts(&self) -> bool {
        let spent = self.looked.replace(Instant::now()).elapsed().min(WATCHDOG / 20);
        self.left.replace(self.left.get().saturating_sub(spent)) > spent
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::new()
    }
}

/// What a thread has come to, which has a bound of its own for all that it waits for.
///
/// # Panics
/// The thread has, or it has not ended in three minutes.
pub fn joined<T>(thread: JoinHandle<T>) -> T {
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
pub fn watch() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hands_over_its_result_or_its_panic() {
        assert_eq!(joined(std::thread::spawn(|| 7)), 7);
        let panics = std::thread::spawn(|| -> u32 { std::panic::resume_unwind(Box::new("planted")) });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| joined(panics)))
            .expect_err("it panicked");
        assert_eq!(caught.downcast_ref(), Some(&"planted"));
    }

    #[test]
    fn patience_counts_a_part_of_a_long_pause_only() {
        let patience = Patience::new();
        assert!(patience.lasts());
        let long_ago = Instant::now().checked_sub(4 * WATCHDOG / 20).expect("the machine has run so long");
        for _ in 0..19 {
            patience.looked.set(long_ago);
            assert!(patience.lasts());
        }
        patience.looked.set(long_ago);
        assert!(!patience.lasts(), "after twenty of them it is over");
    }

    #[test]
    fn a_watch_goes_with_the_thread_that_it_watches() {
        let left = std::thread::spawn(|| {
            watch();
            watch();
            OF_THIS_TEST.with_borrow(|watch| watch.as_ref().map(|watch| Arc::downgrade(&watch.0)))
        });
        let left = joined(left).expect("it was begun");
        let patience = Patience::new();
        while left.strong_count() > 0 {
            assert!(patience.lasts(), "the watching thread has not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
