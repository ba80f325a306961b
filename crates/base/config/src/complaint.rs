//! Relations between keys: what a section's own check finds.

use crate::path;

/// Values that do not fit together, found by the check of a section.
///
/// Keys are named from the section that complains: `port`, `messaging.window_bytes`, `services.0.name`. The
/// report marks the first of them that something has set, and states the values and origins of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub(crate) keys: Vec<String>,
    pub(crate) message: String,
}

impl Complaint {
    /// A complaint about the values of `keys`; `message` says what must hold, in one line.
    ///
    /// ```
    /// # use tickcast_config as config;
    /// config::Complaint::new(["nak_retry_ms", "nak_initial_ms"], "nak_retry_ms must be at least twice nak_initial_ms");
    /// ```
    pub fn new<K: Into<String>>(keys: impl IntoIterator<Item = K>, message: impl Into<String>) -> Complaint {
        Complaint { keys: keys.into_iter().map(Into::into).collect(), message: message.into() }
    }
}

/// Collects the complaints of all sections of a configuration.
#[doc(hidden)]
#[derive(Debug)]
pub struct Complaints<'f> {
    /// Full names of keys that could not be read: the sections around them hold values that nobody chose.
    pub(crate) faulty: &'f [String],
    /// Path of the section and what it found.
    pub(crate) found: Vec<(String, Complaint)>,
}

impl Complaints<'_> {
    /// Runs the check of the section at `path`, unless something in it could not be read.
    pub fn check(&mut self, path: &str, check: impl FnOnce() -> Result<(), Vec<Complaint>>) {
        if self.faulty.iter().any(|key| path::is_within(key, path)) {
            return;
        }
        let found = check().err().unwrap_or_default();
        self.found.extend(found.into_iter().map(|complaint| (path.to_owned(), complaint)));
    }

    /// The name of `key` in the section at `path`.
    #[must_use]
    pub fn below(path: &str, key: &str) -> String {
        path::below(path, key)
    }
}
