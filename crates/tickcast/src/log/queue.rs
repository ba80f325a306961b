//! Lines on their way out: a queue bounded in bytes, and the thread that writes them.
//!
//! Who logs never waits for a disk, a terminal or a pipe: a line that finds no room is counted and dropped, and
//! the log says how many were lost when there is room again.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use counters::table::Log as Counters;

use super::target::Target;

/// The queue, shared by all who log and the thread that writes.
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to write, or nothing more to write.
    changed: Condvar,
    limit_bytes: usize,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines lost and not reported yet.
    lost: u64,
    reopen: Option<(Option<PathBuf>, mpsc::Sender<io::Result<()>>)>,
    /// A line is in the hands of the writer.
    is_writing: bool,
    /// Write what there is, then end.
    is_closed: bool,
    has_ended: bool,
}

/// What the queue itself needs for a line, beside its bytes.
const LINE_OVERHEAD_BYTES: usize = 64;
/// Longer lines are cut: no field that a peer can fill makes one longer in practice.
pub(super) const LINE_MAX_BYTES: usize = 16 << 10;
/// How often the writer looks whether there is something to report.
const TICK: Duration = Duration::from_secs(1);

/// What the writer does beside writing.
pub(super) trait Reporter: Send {
    /// So many lines were lost, and there is room again.
    fn lost(&mut self, lines: u64);
    /// Time passes; `is_last` before the log ends.
    fn tick(&mut self, now: Instant, is_last: bool);
}

enum Work {
    Line(Vec<u8>),
    Reopen(Option<PathBuf>, mpsc::Sender<io::Result<()>>),
    Tick,
    End,
}

impl Queue {
    pub(super) fn new(limit_bytes: usize, counters: Arc<Counters>) -> Queue {
        Queue { state: Mutex::default(), changed: Condvar::new(), limit_bytes, counters }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line, or counts it as lost if there is no room.
    pub(super) fn push(&self, line: &[u8]) {
        let line = one_line(line);
        let size = line.len() + LINE_OVERHEAD_BYTES;
        let mut state = self.lock();
        if state.bytes + size > self.limit_bytes || state.has_ended {
            state.lost += 1;
            return self.counters.lines_lost.inc();
        }
        state.bytes += size;
        state.lines.push_back(line);
        self.changed.notify_all();
    }

    /// Starts the thread that writes.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(super) fn start(
        self: &Arc<Queue>,
        target: Target,
        reporter: impl Reporter + 'static,
    ) -> io::Result<()> {
        let queue = Arc::clone(self);
        thread::Builder::new().name("log".to_owned()).spawn(move || queue.write_all(target, reporter))?;
        Ok(())
    }

    fn write_all(&self, mut target: Target, mut reporter: impl Reporter) {
        let (mut is_well, mut tick_at, mut said_last) = (true, Instant::now() + TICK, false);
        loop {
            match self.take(tick_at) {
                Work::Line(line) => {
                    is_well = target.write(&line).is_ok();
                    self.written(is_well);
                }
                Work::Reopen(path, answer) => {
                    let result = Target::open(path.as_deref()).map(|opened| target = opened);
                    // Who asked may have stopped waiting.
                    let _ = answer.send(result);
                }
                Work::Tick => {
                    tick_at = Instant::now() + TICK;
                    reporter.tick(Instant::now(), false);
                }
                Work::End if said_last => break,
                Work::End => {
                    reporter.tick(Instant::now(), true);
                    said_last = true;
                }
            }
            if is_well && let Some(lines) = self.take_lost() {
                reporter.lost(lines);
            }
        }
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    fn take(&self, tick_at: Instant) -> Work {
        let mut state = self.lock();
        loop {
            if let Some((path, answer)) = state.reopen.take() {
                return Work::Reopen(path, answer);
            }
            let now = Instant::now();
            if now >= tick_at {
                return Work::Tick;
            }
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len() + LINE_OVERHEAD_BYTES;
                state.is_writing = true;
                return Work::Line(line);
            }
            if state.is_closed {
                return Work::End;
            }
            let waited = self.changed.wait_timeout(state, tick_at - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn written(&self, is_well: bool) {
        let mut state = self.lock();
        state.is_writing = false;
        if is_well {
            self.counters.lines_written.inc();
        } else {
            state.lost += 1;
            self.counters.lines_lost.inc();
        }
        self.changed.notify_all();
    }

    /// The lines to be reported as lost, once half of the queue is free again.
    fn take_lost(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.bytes > self.limit_bytes / 2 {
            return None;
        }
        Some(std::mem::take(&mut state.lost)).filter(|lost| *lost > 0)
    }

    /// Opens the file anew, behind the line that is being written; waits for the outcome as long as `limit`.
    ///
    /// # Errors
    /// It cannot be opened, which leaves all as it is; or the log is held up.
    pub(super) fn reopen(&self, path: Option<PathBuf>, limit: Duration) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel();
        self.lock().reopen = Some((path, sender));
        self.changed.notify_all();
        let late = "the log is held up; its file is opened anew when it goes on";
        receiver.recv_timeout(limit).unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, late)))
    }

    /// Waits until all lines are written, as long as `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let waits = |state: &mut State| !state.has_ended && (state.is_writing || !state.lines.is_empty());
        drop(self.changed.wait_timeout_while(self.lock(), limit, waits));
    }

    /// Ends the log: waits until all lines are written, as long as `limit`.
    pub(super) fn close(&self, limit: Duration) {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(state, limit, |state| !state.has_ended));
    }
}

/// One event is one line of bounded length, whatever stands in its fields: a peer cannot make up lines of its own.
fn one_line(line: &[u8]) -> Vec<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut out = Vec::with_capacity(line.len() + 1);
    for &byte in line {
        match byte {
            _ if out.len() >= LINE_MAX_BYTES => break,
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(byte),
        }
    }
    if out.len() >= LINE_MAX_BYTES {
        while out.last().is_some_and(|byte| byte & 0xC0 == 0x80) {
            out.pop();
        }
        out.pop();
        out.extend_from_slice(" ...".as_bytes());
    }
    out.push(b'\n');
    out
}
