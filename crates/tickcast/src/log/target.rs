//! Where lines are written.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use net::small_file;

/// Standard error, or a file.
pub(super) struct Target(File);

/// A descriptor that somebody else made non-blocking is tried again after so long.
const RETRY: Duration = Duration::from_millis(10);

impl Target {
    /// Opens a file to append to, or standard error without one.
    ///
    /// # Errors
    /// The file cannot be opened, or is a named pipe, at which opening waits for a reader.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Target> {
        let Some(path) = path else {
            // A descriptor of its own: the lock of the standard library's is not held while a write waits.
            let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            return Ok(Target(file));
        };
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot log to {}: {e}", path.display()));
        Ok(Target(small_file::open_to_append(path).map_err(named)?))
    }

    /// Writes a line as a whole, however long that takes.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&mut self, mut line: &[u8]) -> io::Result<()> {
        while !line.is_empty() {
            match self.0.write(line) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => line = &line[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
