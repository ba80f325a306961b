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

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// A workload.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What decoding and encoding costs: an update of 74 bytes, every container beside ETA's codec, and JSON.
    Rwf(codec::RwfArgs),
    /// Reliable multicast: messages of 64 bytes from one process to another, the highest rate without loss.
    Lbtrm(lbtrm::LbtrmArgs),
    /// Publisher, source distributor, point-to-point server, consumer: latency at fixed rates beside a chain
    /// of bare sockets.
    EndToEnd(end_to_end::EndToEndArgs),
    /// One point-to-point server and 100 consumers (producer-50-50): updates a second out of one thread.
    FanOut(fan_out::FanOutArgs),
    /// One point-to-point server and 100 WebSocket clients of one watchlist: JSON updates a second out of one
    /// thread, beside nats-server.
    #[command(name = "websocket-fan-out")]
    WebSocketFanOut(fan_out::WebSocketFanOutArgs),
    /// All of them, one after the other.
    All(AllArgs),
    /// One process of a workload.
    #[command(hide = true)]
    Role(role::RoleArgs),
}

/// All workloads, with everything that is compared in them.
#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    options: RunOptions,
    /// The jar of `interop/java`: ETA's codec for Java takes turns with ours on the same messages.
    #[arg(long, value_name = "JAR")]
    eta: Option<PathBuf>,
    /// Measures TLS as well, with the certificate in this directory: ca.pem, server.pem, server.key, for
    /// localhost.
    #[arg(long, value_name = "DIR")]
    tls: Option<fan_out::TlsDirectory>,
    /// The peer of the fan-out over WebSocket; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
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
        BenchCommand::All(args) => all(args),
        BenchCommand::Role(args) => role::run(args),
    }
}

fn all(args: &AllArgs) -> Result<(), BenchError> {
    let options = args.options;
    codec::run(&codec::RwfArgs::new(options, args.eta.clone()))?;
    lbtrm::run(&lbtrm::LbtrmArgs::new(options))?;
    end_to_end::run(&end_to_end::EndToEndArgs::new(options))?;
    fan_out::run(&fan_out::FanOutArgs::new(options, args.tls.clone()))?;
    let (tls, nats_server) = (args.tls.clone(), args.nats_server.clone());
    fan_out::run_websocket(&fan_out::WebSocketFanOutArgs::new(options, tls, nats_server))
}
