//! The counters of contexts that no one else shows, in the file of this process for `tickcast counters`.
//!
//! One file and one thread for all contexts of a process, from its first context to its last: `net` copies
//! the values there, and the threads that count know nothing of it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use counters::{CounterSet, Registration, Registry, Roll};
use net::counters_file::{CountersFile, CountersFileOptions};
use net::fork::{self, Home};

use crate::MessagingConfig;

/// The files of this process, one for each directory.
static FILES: Mutex<Vec<Weak<Published>>> = Mutex::new(Vec::new());

/// One file, and what is shown in it.
struct Published {
    registry: Registry,
    directory: String,
    /// A child of a fork does not publish in its parent's name.
    home: Home,
    /// Contexts shown so far.
    contexts: Mutex<u64>,
    _file: CountersFile,
}

/// The sets of one context, shown as long as this lives.
pub(crate) struct Shown {
    pub(crate) registry: Registry,
    /// What names the context there.
    pub(crate) labels: Labels,
    // Dropped first: a set leaves before the file does.
    _sets: Vec<Lent>,
    _published: Arc<Published>,
}

/// Label names and values.
pub(crate) type Labels = Vec<(String, String)>;

/// A set, or a roll, that is shown as long as this lives.
pub(crate) struct Lent {
    registration: Option<Registration>,
    home: Home,
}

impl Lent {
    pub(crate) fn new(registry: &Registry, labels: &[(&str, &str)], set: Arc<dyn CounterSet>) -> Lent {
        Lent { registration: Some(registry.lend(labels, set)), home: Home::here() }
    }

    pub(crate) fn roll(registry: &Registry, labels: &[(&str, &str)], roll: Roll) -> Lent {
        Lent { registration: Some(registry.lend_roll(labels, roll)), home: Home::here() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.home.is_here() {
            // In a child of a fork the registry may be locked by a thread that is not there.
            std::mem::forget(self.registration.take());
        }
    }
}

/// Shows the sets of a context, told apart by its number within the process. None if the configuration wants
/// no file.
///
/// # Errors
/// The file cannot be made; the error names it.
pub(crate) fn show(config: &MessagingConfig, sets: &[Arc<dyn CounterSet>]) -> io::Result<Option<Shown>> {
    if config.counters_directory.is_empty() {
        return Ok(None);
    }
    let published = file(config)?;
    let number = {
        let mut contexts = published.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        *contexts += 1;
        contexts.to_string()
    };
    let registry = published.registry.clone();
    let lend = |set: &Arc<dyn CounterSet>| Lent::new(&registry, &[("context", &number)], set.clone());
    let sets = sets.iter().map(lend).collect();
    let labels = vec![("context".to_owned(), number.clone())];
    Ok(Some(Shown { _sets: sets, registry: registry.clone(), labels, _published: published }))
}

fn file(config: &MessagingConfig) -> io::Result<Arc<Published>> {
    // Who forks meanwhile waits: the child would find the list locked for ever.
    let _held = fork::hold();
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.retain(|file| file.strong_count() > 0);
    let directory = &config.counters_directory;
    let here = |file: &Arc<Published>| file.directory == *directory && file.home.is_certain();
    if let Some(file) = files.iter().filter_map(Weak::upgrade).find(here) {
        return Ok(file);
    }
    let registry = Registry::default();
    let options = CountersFileOptions {
        directory: directory.into(),
        interval: Duration::from_millis(config.counters_interval_ms.into()),
        program: program(),
    };
    let made = Arc::new(Published {
        _file: CountersFile::publish(registry.clone(), &options)?,
        registry,
        directory: directory.clone(),
        home: Home::here(),
        contexts: Mutex::new(0),
    });
    files.push(Arc::downgrade(&made));
    Ok(made)
}

/// What the process was started as, without its directory.
fn program() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&first).file_name().unwrap_or(OsStr::new("unknown"));
    name.to_string_lossy().into_owned()
}
