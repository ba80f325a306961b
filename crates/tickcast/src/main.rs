//! Tickcast: market data from where it is made to everyone who needs it, fast, predictably and without silent
//! loss.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// A line for people, on standard error; `eprintln!` panics where that is full or closed.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // Without a standard error nobody reads it.
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod admin;
mod admin_client;
mod cli;
mod command;
mod config;
mod demo;
mod dictionary;
mod failure;
mod health;
mod host;
mod log;
mod notify;
mod priority;
mod role;
mod terminal;
mod top;
mod watch;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;

/// Rules of the system may be left out in tests, and nowhere else.
const _: () = assert!(!units::CAN_BE_PLANTED, "the program is not built with the feature planted-bugs");

fn main() -> ExitCode {
    match command::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who read the output wants no more of it: there is nothing left to do.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            say!("{failure}");
            failure.exit_code()
        }
    }
}
