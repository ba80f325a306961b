//! Workloads: what the way through the system costs, beside the bare sockets below it.
//!
//! Each workload runs in processes of its own that are started from the present executable, in the layout
//! that it names. Figures are medians over several runs, with the lowest and the highest beside them; latency
//! counts from the time a message was meant to be sent. What is compared runs within one run of the command:
//! in turns where both can wait for their turn without a CPU, one after the other where they spin.

mod chain;
mod codec;
mod end_to_end;
mod error;
mod fan_out;
mod lbtrm;
mod lbtrm_ends;
mod process;
mod report;
mod role;
mod update;

pub use error::BenchError;

use clap::{Args, Subcommand};

/// A workload.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What decoding and encoding costs: an update of 74 bytes, and every container, beside ETA's codec.
    Rwf(codec::RwfArgs),
    /// Reliable multicast: messages of 64 bytes from one process to another, the highest rate without loss.
    Lbtrm(lbtrm::LbtrmArgs),
    /// Publisher, source distributor, point-to-point server, consumer: latency at fixed rates beside a chain
    /// of bare sockets.
    EndToEnd(end_to_end::EndToEndArgs),
    /// One point-to-point server and 100 consumers (producer-50-50): updates a second out of one thread.
    FanOut(fan_out::FanOutArgs),
    /// One point-to-point server and 100 WebSocket clients of one watchlist: JSON updates a second out of one
    /// thread.
    #[command(name = "websocket-fan-out")]
    WebSocketFanOut(fan_out::WebSocketFanOutArgs),
    /// All of them, one after the other.
    All(RunOptions),
    /// One process of a workload.
    #[command(hide = true)]
    Role(role::RoleArgs),
}

/// How long and how often.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunOptions {
    /// Runs of which the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Prints one JSON object a line in place of tables.
    #[arg(long)]
    json: bool,
}

/// Runs a workload and prints what it comes to.
///
/// # Errors
/// A process of it could not be started, has failed, or has not answered.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Rwf(args) => codec::run(args),
        BenchCommand::Lbtrm(args) => lbtrm::run(args),
        BenchCommand::EndToEnd(args) => end_to_end::run(args),
        BenchCommand::FanOut(args) => fan_out::run(args),
        BenchCommand::WebSocketFanOut(args) => fan_out::run_websocket(args),
        BenchCommand::All(options) => {
            codec::run(&codec::RwfArgs::new(*options))?;
            lbtrm::run(&lbtrm::LbtrmArgs::new(*options))?;
            end_to_end::run(&end_to_end::EndToEndArgs::new(*options))?;
            fan_out::run(&fan_out::FanOutArgs::new(*options))?;
            fan_out::run_websocket(&fan_out::WebSocketFanOutArgs::new(*options))
        }
        BenchCommand::Role(args) => role::run(args),
    }
}
