//! Files of a test.

use std::fs;
use std::path::PathBuf;

use super::certificate;

/// A directory of one test, removed with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let at = std::env::temp_dir().join(format!("tickcast-{name}-{}", std::process::id()));
        fs::create_dir_all(&at).expect("a writable place");
        Scratch(at)
    }

    /// Written beside and renamed, as tools that replace keys do.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> Option<String> {
        let (target, beside) = (self.0.join(name), self.0.join("beside"));
        fs::write(&beside, bytes).expect("a writable place");
        fs::rename(&beside, &target).expect("a writable place");
        Some(target.to_str().expect("text").to_owned())
    }

    /// The path of a file that was put here, or will be.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        Some(self.0.join(name).to_str().expect("text").to_owned())
    }

    pub(crate) fn copy(&self, name: &str, from: &str) -> Option<String> {
        self.put(name, fs::read(certificate(from).expect("named")).expect("a test certificate"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It lies in a temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
