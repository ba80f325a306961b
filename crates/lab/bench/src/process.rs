//! The processes of a workload: started from the present executable, spoken to in lines of JSON.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use net::clock;
use serde_json::Value;

pub(crate) use measure::ends::{answer, commands};

use crate::{BenchError, recording};

/// For processes to come up, and for 100,000 images to get through.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// A process that uses less than a twentieth of this time in it has nothing to do.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Bytes of memory of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// A process that does a part of a workload. It ends with this value.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// None once it has been told to end.
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Goes when it has ended.
    _scratch: Option<Scratch>,
}

impl Process {
    /// Starts `tickcast ARGS`.
    pub(crate) fn start(name: &str, args: &[String]) -> Result<Process, BenchError> {
        Process::program(name, std::env::current_exe()?, args)
    }

    /// Starts the daemon `tickcast NAME ARGS` so that it ends with this process, however that ends. It logs warnings,
    /// unless its arguments set another level.
    pub(crate) fn daemon(name: &str, args: &[String]) -> Result<Process, BenchError> {
        let program = std::env::current_exe()?.display().to_string();
        let words = ["bench", "role", "other-program", "--program", &program, "--", name];
        let words = [&words[..], &["--set", "log.level=warn"]].concat();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        Process::start(name, &[&words[..], args].concat())
    }

    /// Starts another program.
    pub(crate) fn program(
        name: &str,
        program: impl AsRef<OsStr>,
        args: &[String],
    ) -> Result<Process, BenchError> {
        recording::record(|run| run.process(name, args));
        let log = recording::log(name);
        let stderr = if log.is_some() { Stdio::piped() } else { Stdio::inherit() };
        let mut child = Command::new(program)
            .args(args)
            .env("TICKCAST_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()?;
        if let (Some(log), Some(stderr)) = (log, child.stderr.take()) {
            recording::keep(stderr, log)?;
        }
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::new("a child without pipes"));
        };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(value) = serde_json::from_str(&line)
                    && sender.send(value).is_err()
                {
                    return;
                }
            }
        });
        Ok(Process { name: name.to_owned(), child, input: Some(input), lines, _scratch: None })
    }

    /// Keeps the files that it works with until it has ended.
    pub(crate) fn with_scratch(mut self, scratch: Scratch) -> Process {
        self._scratch = Some(scratch);
        self
    }

    /// Starts `tickcast bench role ARGS`.
    pub(crate) fn role(name: &str, args: &[String]) -> Result<Process, BenchError> {
        let all: Vec<String> =
            ["bench", "role", name].iter().map(|w| (*w).to_owned()).chain(args.iter().cloned()).collect();
        Process::start(name, &all)
    }

    /// Tells it to do something.
    pub(crate) fn tell(&mut self, value: &impl Display) -> Result<(), BenchError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        writeln!(input, "{value}")?;
        Ok(input.flush()?)
    }

    /// Tells it to end; what it says by then is still to be had.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Lets it end by itself, so that it can remove what it has made; one that does not is killed.
    pub(crate) fn end(mut self, limit: Duration) -> Result<(), BenchError> {
        self.close();
        let deadline = clock::monotonic().after(limit);
        while self.child.try_wait()?.is_none() && clock::monotonic() < deadline {
            clock::sleep_until(clock::monotonic().after(Duration::from_millis(1)));
        }
        Ok(())
    }

    /// The next line that it prints and that has this key.
    pub(crate) fn expect(&mut self, key: &str, limit: Duration) -> Result<Value, BenchError> {
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(value) if value.get(key).is_some() => return Ok(value),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(BenchError::new(format!("{}: no {key:?} within {limit:?}", self.name)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Err(BenchError::new(format!("{} ended without {key:?}: {status}", self.name)));
                }
            }
        }
    }

    /// Waits until it listens on a port of this host.
    pub(crate) fn listens(&mut self, port: u16, limit: Duration) -> Result<(), BenchError> {
        let deadline = clock::monotonic().after(limit);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(BenchError::new(format!(
                    "{} did not start, as it says above: {status}",
                    self.name
                )));
            }
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!(
                    "{}: nothing on port {port} within {limit:?}",
                    self.name
                )));
            }
            clock::sleep_until(clock::monotonic().after(Duration::from_millis(10)));
        }
        Ok(())
    }

    /// Waits until it has nothing to do: what a run has left for later would count for the next one.
    pub(crate) fn rests(&mut self, limit: Duration) -> Result<(), BenchError> {
        let deadline = clock::monotonic().after(limit);
        let mut before = self.cpu_time()?;
        loop {
            std::thread::sleep(LOOK_AGAIN);
            if let Some(status) = self.child.try_wait()? {
                return Err(BenchError::new(format!("{} has ended: {status}", self.name)));
            }
            let busy = self.cpu_time()?;
            if busy - before < LOOK_AGAIN / 20 {
                return Ok(());
            }
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!("{} is still at work after {limit:?}", self.name)));
            }
            before = busy;
        }
    }

    /// Bytes of memory that it has, and the most that it has had since [`Process::forget_peak`].
    pub(crate) fn memory(&self) -> Result<Memory, BenchError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            kib.map(|kib| kib << 10).ok_or_else(|| BenchError::new(format!("no {name} of {}", self.name)))
        };
        Ok(Memory { now: of("VmRSS")?, peak: of("VmHWM")? })
    }

    /// From now on, the peak of its memory is counted anew.
    pub(crate) fn forget_peak(&self) -> Result<(), BenchError> {
        // proc_pid_clear_refs(5): 5 sets the peak to what is resident now.
        Ok(std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?)
    }

    /// Processor time of its threads so far: in the program and in the kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration, BenchError> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        tasks.map(|task| thread_time(&task?.path())).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread's, by its directory in `/proc`; nothing of one that has ended meanwhile.
fn thread_time(task: &Path) -> Result<Duration, BenchError> {
    let Ok(text) = std::fs::read_to_string(task.join("schedstat")) else { return Ok(Duration::ZERO) };
    let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    first.map(Duration::from_nanos).ok_or_else(|| BenchError::new("schedstat without a number"))
}

/// A directory for the files of a process. It goes with this value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch, BenchError> {
        let (id, now) = (std::process::id(), clock::monotonic().0);
        let directory = std::env::temp_dir().join(format!("tickcast-bench-{id}-{now}"));
        std::fs::create_dir(&directory)?;
        Ok(Scratch(directory))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String, BenchError> {
        let path = self.0.join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it is in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody uses now.
pub(crate) fn free_port() -> Result<u16, BenchError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_files_are_there_as_long_as_the_directory_is_wanted() {
        let scratch = Scratch::new().expect("a directory for temporary files");
        let file = scratch.write("name", "text").expect("written");
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "text");
        drop(scratch);
        assert!(!Path::new(&file).exists());
    }

    #[test]
    fn a_process_has_memory_and_rests_when_it_only_reads() {
        let mut reads = Process::program("cat", "cat", &[]).expect("it is everywhere");
        let memory = reads.memory().expect("it runs");
        assert!(memory.now > 0 && memory.peak >= memory.now, "{memory:?}");
        reads.forget_peak().expect("it is ours");
        reads.rests(Duration::from_secs(30)).expect("nothing is written to it");
        reads.close();
        let ended = loop {
            // It may rest once more before it ends.
            if let Err(error) = reads.rests(Duration::from_secs(30)) {
                break error.to_string();
            }
        };
        assert_eq!(ended, "cat has ended: exit status: 0");
    }

    #[test]
    fn the_time_of_a_process_is_that_of_all_its_threads() {
        let busy = || (0..20_000_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        let own = format!("/proc/self/task/{}", std::process::id());
        let before = thread_time(Path::new(&own)).expect("of the first thread");
        let spent = thread::spawn(move || {
            busy();
            thread_time(Path::new("/proc/thread-self")).expect("of this thread")
        });
        let spent = spent.join().expect("nothing in it panics");
        assert!(spent > Duration::ZERO && before < before + spent);
        assert_eq!(thread_time(Path::new("/proc/self/task/none")).expect("it has ended"), Duration::ZERO);
    }
}
