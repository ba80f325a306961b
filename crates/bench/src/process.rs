//! The processes of a workload: started from the present executable, spoken to in lines of JSON.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use net::clock;
use serde_json::Value;

use crate::BenchError;

/// A process that does a part of a workload. It ends with this value.
pub(crate) struct Process {
    name: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
}

impl Process {
    /// Starts `tickcast ARGS`.
    pub(crate) fn start(name: &str, args: &[String]) -> Result<Process, BenchError> {
        Process::program(name, std::env::current_exe()?, args)
    }

    /// Starts another program.
    pub(crate) fn program(
        name: &str,
        program: impl AsRef<OsStr>,
        args: &[String],
    ) -> Result<Process, BenchError> {
        let mut child = Command::new(program)
            .args(args)
            .env("TICKCAST_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
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
        Ok(Process { name: name.to_owned(), child, input, lines })
    }

    /// Starts `tickcast bench role ARGS`.
    pub(crate) fn role(name: &str, args: &[String]) -> Result<Process, BenchError> {
        let all: Vec<String> =
            ["bench", "role", name].iter().map(|w| (*w).to_owned()).chain(args.iter().cloned()).collect();
        Process::start(name, &all)
    }

    /// Tells it to do something.
    pub(crate) fn tell(&mut self, value: &impl Display) -> Result<(), BenchError> {
        writeln!(self.input, "{value}")?;
        Ok(self.input.flush()?)
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

    /// Processor time of its first thread so far: in the program and in the kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration, BenchError> {
        let id = self.child.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat"))?;
        let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
        first.map(Duration::from_nanos).ok_or_else(|| BenchError::new("schedstat without a number"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The commands that a role gets, one JSON object a line; the end of them is the end of the role.
pub(crate) fn commands() -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(value) = serde_json::from_str(&line)
                && sender.send(value).is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// Answers the process that started this one.
pub(crate) fn answer(value: &Value) {
    println!("{value}");
}
