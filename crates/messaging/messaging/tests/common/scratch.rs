//! Files of a test.

use std::fs;

use testkit::Folder;

use super::certificate;

/// A folder of one test, and its files as settings name them.
pub(crate) struct Scratch(Folder);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(Folder::new())
    }

    /// Written beside and renamed, as tools that replace keys do.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> Option<String> {
        self.0.put(name, bytes);
        self.file(name)
    }

    /// The path of a file that was put here, or will be.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        Some(self.0.text(name))
    }

    pub(crate) fn copy(&self, name: &str, from: &str) -> Option<String> {
        self.put(name, fs::read(certificate(from).expect("named")).expect("a test certificate"))
    }
}
