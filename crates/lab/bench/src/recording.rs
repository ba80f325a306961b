//! The run directory of a command, if it has one.
//!
//! A command runs one workload after the other, and each prints a report. What they print goes to one directory, so this
//! is one value of the process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use std::sync::{Mutex, PoisonError};
use std::thread;

use measure::run::RunDirectory;

use crate::BenchError;

/// Bytes that are kept of what a process says on standard error.
const LOG_MAX: u64 = 1 << 20;

static RECORDED: Mutex<Option<RunDirectory>> = Mutex::new(None);

/// The program that runs, as a run directory names it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built of, where that was told to the build.
    pub commit: Option<&'static str>,
}

/// From now on, what the command prints is recorded in this directory.
pub(crate) fn begin(path: &Path, program: Program) -> Result<(), BenchError> {
    let command = std::env::args().collect();
    let run = RunDirectory::create(path, command, program.version, program.commit)?;
    *recorded() = Some(run);
    Ok(())
}

/// Does something with the run directory, if there is one.
pub(crate) fn record(what: impl FnOnce(&mut RunDirectory)) {
    if let Some(run) = recorded().as_mut() {
        what(run);
    }
}

/// The command has ended.
pub(crate) fn end(outcome: &Result<(), BenchError>) -> Result<(), BenchError> {
    let error = outcome.as_ref().err().map(ToString::to_string);
    let run = recorded().take();
    Ok(run.map_or(Ok(()), |run| run.finish(error.as_deref()))?)
}

/// Where a process of this name keeps what it says, if the run is recorded.
pub(crate) fn log(name: &str) -> Option<PathBuf> {
    recorded().as_ref().map(|run| run.log(name))
}

/// Shows what a process says on standard error, and keeps the beginning of it at the end of a file.
pub(crate) fn keep(mut from: ChildStderr, path: PathBuf) -> io::Result<()> {
    let mut log = File::options().create(true).append(true).open(path)?;
    let mut room = LOG_MAX.saturating_sub(log.metadata()?.len());
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let said = &bytes[..count];
            // Without a standard error nobody reads it; a full disk costs the log alone.
            let _ = io::stderr().write_all(said);
            let kept = said.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let _ = log.write_all(&said[..kept]);
            room -= kept as u64;
        }
    });
    Ok(())
}

fn recorded() -> std::sync::MutexGuard<'static, Option<RunDirectory>> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}
