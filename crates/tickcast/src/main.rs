//! Tickcast: market data from where it is made to everyone who needs it, fast, predictably and without silent
//! loss.

mod cli;
mod command;
mod config;
mod demo;
mod dictionary;
mod failure;
mod host;
mod role;
mod watch;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
