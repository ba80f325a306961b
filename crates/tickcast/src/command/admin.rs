//! `tickcast admin`: what an operator does with a running daemon.

use std::io::{self, Write};
use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;

use crate::admin::OVER_MAX_S;
use crate::admin_client::{self, NoAnswer};
use crate::failure::Failure;
use crate::health;
use crate::terminal::shown;

#[derive(Debug, Subcommand)]
pub(crate) enum AdminAction {
    /// Moves the clients of a P2PS on to other servers, in slices, before maintenance.
    #[command(after_help = "\
Examples:
  tickcast admin drain p2ps1:14082 --wait                 drains it, and returns when no client is left
  tickcast admin drain p2ps1:14082 --over 120 --end       over two minutes; then the daemon ends
  tickcast admin drain p2ps1:14082 --over 0               moves on at once those that are left
  tickcast admin undrain p2ps1:14082                      takes it back: clients are taken again

The server refuses new connections at once, and /ready answers 503. Its clients are told that the server is drained and
their connections are ended, one by one, spread over the time. Those that are still there get all their data until then.
SDKs connect to the next server of their list by themselves. Drained, the server stays up, so that you can end it or
take the drain back. docs/guides/rolling-restart.md has the whole way.

A server is drained only where the daemon allows it (admin.disconnects). Its log names who asked.

Exit status: 0 done; 1 it cannot be done, or the drain was taken back while --wait waited; 2 wrong usage.")]
    Drain(DrainArgs),
    /// Takes a drain back: the P2PS takes clients again. Those that it has moved on do not come back by themselves.
    Undrain {
        /// Admin port of the P2PS.
        #[arg(value_name = "HOST:PORT", value_parser = admin_client::address)]
        address: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Admin port of the P2PS.
    #[arg(value_name = "HOST:PORT", value_parser = admin_client::address)]
    address: String,
    /// The time over which clients are moved on; without it p2ps.drain_ms of the daemon, or 30 s if that is 0. A drain
    /// that goes on gets it for those that are left.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=OVER_MAX_S))]
    over: Option<u64>,
    /// The daemon ends when no client is left.
    #[arg(long)]
    end: bool,
    /// Returns when no client is left, with --end when the daemon has ended, and says how far it is.
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(action: &AdminAction) -> Result<(), Failure> {
    match action {
        AdminAction::Drain(args) => drain(args),
        AdminAction::Undrain { address } => {
            post(address, "/undrain")?;
            say(&format!("{address}: clients are taken again"))
        }
    }
}

/// How often `--wait` looks how far a drain is, and says so.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A daemon that is busy for so many looks has no answer.
const BUSY_MAX: u32 = 30;

fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let over = args.over.map(|seconds| format!("&over_ms={}", seconds * 1_000)).unwrap_or_default();
    let mut drain = post(&args.address, &format!("/drain?end={}{over}", args.end))?;
    let failed = |why: &str| Err(Failure::Run(format!("{}: {why}", args.address)));
    let (mut said, mut busy) = (String::new(), 0);
    loop {
        let line = progress(&args.address, &drain);
        if line != said {
            say(&line)?;
        }
        said = line;
        if !args.wait || (drain["state"] == "drained" && !args.end) {
            return Ok(());
        }
        if drain["state"] == "serving" {
            return failed("the drain was taken back");
        }
        std::thread::sleep(LOOK_AGAIN);
        match look(&args.address) {
            Look::Drain(now) => (drain, busy) = (now, 0),
            Look::Gone if args.end => return say(&format!("{}: it has ended", args.address)),
            Look::Gone => return failed("it has ended, or cannot be reached"),
            Look::Busy if busy == BUSY_MAX => {
                return failed("it does not say how far it is; look at its log");
            }
            Look::Busy => busy += 1,
        }
    }
}

/// What a daemon says of its drain.
enum Look {
    Drain(Value),
    /// It has no time to answer.
    Busy,
    /// Nobody is there.
    Gone,
}

fn look(address: &str) -> Look {
    let answer = match admin_client::ask(address, "GET", "/status?limit=1") {
        Ok(answer) => answer,
        Err(NoAnswer::Late) => return Look::Busy,
        Err(NoAnswer::Io(error)) if is_late(&error) => return Look::Busy,
        Err(_) => return Look::Gone,
    };
    let status = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    health::drain_of(&status).cloned().map_or(Look::Busy, Look::Drain)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Orders something; the answer describes what has come of it.
fn post(address: &str, path: &str) -> Result<Value, Failure> {
    let failed = |why: &dyn std::fmt::Display| Failure::Run(format!("http://{address}{path}: {why}"));
    let answer = admin_client::ask(address, "POST", path).map_err(|error| failed(&error))?;
    let said =
        || String::from_utf8_lossy(&answer.body).trim().chars().take(300).map(shown).collect::<String>();
    match answer.status {
        200 => serde_json::from_slice(&answer.body).map_err(|error| failed(&error)),
        404 if answer.body.is_empty() => {
            Err(failed(&"it has no such path: an older daemon, or none of Tickcast"))
        }
        _ => Err(failed(&said())),
    }
}

/// How far a drain is.
fn progress(address: &str, drain: &Value) -> String {
    let count = |key: &str| drain[key].as_u64().unwrap_or(0);
    let (left, moved) = (count("connections_left"), count("moved"));
    match drain["state"].as_str() {
        Some("drained") => format!("{address}: drained, {moved} connections were moved on"),
        Some("draining") => {
            let seconds = count("ends_in_ms").div_ceil(1_000);
            format!("{address}: draining, {moved} connections moved on, {left} left, {seconds} s to go")
        }
        _ => format!("{address}: it is not drained"),
    }
}

fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_a_line() {
        let drain = |state: &str| {
            progress("a:1", &json!({"state": state, "connections_left": 3, "moved": 7, "ends_in_ms": 1_001}))
        };
        assert_eq!(drain("draining"), "a:1: draining, 7 connections moved on, 3 left, 2 s to go");
        assert_eq!(drain("drained"), "a:1: drained, 7 connections were moved on");
        assert_eq!(drain("serving"), "a:1: it is not drained");
        assert_eq!(progress("a:1", &Value::Null), "a:1: it is not drained");
    }
}
