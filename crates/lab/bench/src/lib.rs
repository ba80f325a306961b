//! Workloads: what the way through the system costs, beside the bare sockets below it.
//!
//! ```
//! use clap::Parser;
//! use tickcast_bench::{BenchArgs, Program};
//!
//! /// A program with the command `bench`, as `tickcast` is one.
//! #[derive(Parser)]
//! enum Command {
//!     Bench(BenchArgs),
//! }
//!
//! fn run(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
//!     let Command::Bench(args) = Command::try_parse_from(words)?;
//!     let program = Program { version: "1.0.0", commit: None };
//!     tickcast_bench::run(&args, program)?;            // prints a table, or JSON lines
//!     Ok(())
//! }
//!
//! // Both ends of a pingpong spin, so they need two CPUs.
//! let refused = run(&["tickcast", "bench", "pingpong", "--runs", "3", "--cpus", "1", "1"]);
//! let refused = refused.expect_err("one CPU for two ends").to_string();
//! assert!(refused.contains("two that differ"), "{refused}");
//! ```
//!
//! Each workload runs in processes of its own that are started from the present executable, in the layout
//! that it names. Figures are medians over several runs, with the lowest and the highest beside them; latency
//! counts from the time a message was meant to be sent. What is compared runs within one run of the command:
//! in turns where both can wait for their turn without a CPU, one after the other where they spin.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod all;
mod bound;
mod chain;
mod codec;
mod congestion;
mod contest;
mod cost;
mod decode;
mod dictionary;
mod end_to_end;
mod error;
mod every;
mod fan_out;
mod images;
mod jitter;
mod layout;
mod lbtrm;
mod lbtrm_ends;
mod load;
mod matrix;
mod nats_server;
mod no_fan_out;
mod observed;
mod observing;
mod options;
mod own;
mod pair;
mod pingpong;
mod probe;
mod process;
mod raw;
mod recording;
mod report;
mod role;
mod search;
mod steps;
mod storm;
mod stream;
mod sustained;
mod template;
mod update;

pub use error::BenchError;
pub use options::RunOptions;
pub use recording::Program;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use load::Shape;

/// What is measured, and where it is recorded.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Records the run in this directory, for `tickcast report`: figures, histograms, machine, command, logs. It must not be
    /// there, or be empty. `all` and `messaging-matrix` have a directory in it for each step; those that are whole are not
    /// measured again.
    #[arg(long, global = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Ends when the process ends that has started it.
    #[arg(long, global = true, hide = true)]
    ends_with_parent: bool,
    #[command(subcommand)]
    workload: BenchCommand,
}

/// A workload.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What decoding and encoding costs: an update of 74 bytes, every container beside ETA's codec, and JSON.
    Rwf(codec::RwfArgs),
    /// A message to and fro by shared memory, UDP, multicast and TCP: half of its round trip, beside the bare
    /// path and the peers.
    Pingpong(pingpong::PingpongArgs),
    /// Messages one way as fast as they go without loss, beside the bare path and the peers.
    Stream(stream::StreamArgs),
    /// Latency under load: one source, one receiver, every message timed from when it was meant to be sent.
    #[command(name = "messaging-1-1")]
    OneToOne(load::LoadArgs),
    /// The same with three sources and three receivers, each pair on a multicast group of its own.
    #[command(name = "messaging-3-3")]
    ThreeToThree(load::LoadArgs),
    /// Both with all sizes, datagrams and rates of a published matrix, unattended: the time that is left is shown, and with
    /// `--out DIR` an interrupted run goes on.
    MessagingMatrix(matrix::MatrixArgs),
    /// What the library itself takes for a message, in instructions (by valgrind), beside what it took
    /// before.
    Cost(cost::CostArgs),
    /// What this machine does to a thread that only spins, and where its CPUs lie.
    Jitter(jitter::JitterArgs),
    /// What taking down each message costs: a call by each clock, and streams with an observer at each end and without.
    Observer(observed::ObserverArgs),
    /// Reliable multicast: messages of 64 bytes from one process to another, the highest rate without loss.
    Lbtrm(lbtrm::LbtrmArgs),
    /// Sources that share a narrow link, with congestion control and at a fixed rate, beside a raw sender (needs
    /// root, ip, tc).
    Congestion(congestion::CongestionArgs),
    /// Publisher, source distributor, point-to-point server, consumer: latency at fixed rates beside a chain
    /// of bare sockets.
    EndToEnd(end_to_end::EndToEndArgs),
    /// A consumer asks for 100,000 images at once: how long it waits, directly from a provider and through the servers,
    /// and what that does to the updates of another consumer.
    Images(images::ImagesArgs),
    /// Ten thousand consumers that come at once, stand still, read again and leave at once: how long each part takes,
    /// the server's memory, and how long its threads do nothing else.
    Storm(storm::StormArgs),
    /// The highest rate of updates for 100,000 items, each watched once: through the source distributor alone, with a
    /// point-to-point server, and with a point of presence behind it; with caches and without.
    NoFanOut(no_fan_out::NoFanOutArgs),
    /// One point-to-point server and 100 consumers (producer-50-50): updates a second out of one thread.
    FanOut(fan_out::FanOutArgs),
    /// One point-to-point server and 100 WebSocket clients of one watchlist: JSON updates a second out of one
    /// thread, beside nats-server.
    #[command(name = "websocket-fan-out")]
    WebSocketFanOut(fan_out::WebSocketFanOutArgs),
    /// All of them, one after the other.
    All(all::AllArgs),
    /// One process of a workload.
    #[command(hide = true)]
    Role(role::RoleArgs),
}

/// Runs a workload, prints what it comes to, and records it where that is asked for.
///
/// # Errors
/// A process of it could not be started, has failed, or has not answered; or the run could not be recorded.
pub fn run(args: &BenchArgs, program: Program) -> Result<(), BenchError> {
    if args.ends_with_parent {
        net::affinity::end_with_parent()?;
    }
    let out = args.out.as_deref();
    // Workloads of several steps have a run for each of them.
    let has_steps = matches!(args.workload, BenchCommand::All(_) | BenchCommand::MessagingMatrix(_));
    if let Some(directory) = out.filter(|_| !has_steps) {
        recording::begin(directory, program)?;
    }
    let outcome = run_workload(&args.workload, out);
    let recorded = recording::end(&outcome);
    outcome.and(recorded)
}

fn run_workload(command: &BenchCommand, out: Option<&Path>) -> Result<(), BenchError> {
    match command {
        BenchCommand::Rwf(args) => codec::run(args),
        BenchCommand::Pingpong(args) => pingpong::run(args),
        BenchCommand::Stream(args) => stream::run(args),
        BenchCommand::OneToOne(args) => load::run(args, Shape::OneToOne),
        BenchCommand::ThreeToThree(args) => load::run(args, Shape::ThreeToThree),
        BenchCommand::MessagingMatrix(args) => matrix::run(args, out),
        BenchCommand::Cost(args) => cost::run(args),
        BenchCommand::Jitter(args) => jitter::run(args),
        BenchCommand::Observer(args) => observed::run(args),
        BenchCommand::Lbtrm(args) => lbtrm::run(args),
        BenchCommand::Congestion(args) => congestion::run(args),
        BenchCommand::EndToEnd(args) => end_to_end::run(args),
        BenchCommand::Images(args) => images::run(args),
        BenchCommand::Storm(args) => storm::run(args),
        BenchCommand::NoFanOut(args) => no_fan_out::run(args),
        BenchCommand::FanOut(args) => fan_out::run(args),
        BenchCommand::WebSocketFanOut(args) => fan_out::run_websocket(args),
        BenchCommand::All(args) => all::run(args, out),
        BenchCommand::Role(args) => role::run(args),
    }
}
