//! Workloads: what the way through the system costs, beside the bare sockets below it.
//!
//! ```
//! use clap::Parser;
//! use tickcast_bench::BenchCommand;
//!
//! /// A program with the command `bench`, as `tickcast` is one.
//! #[derive(Parser)]
//! enum Program {
//!     Bench {
//!         #[command(subcommand)]
//!         workload: BenchCommand,
//!     },
//! }
//!
//! fn run(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
//!     let Program::Bench { workload } = Program::try_parse_from(words)?;
//!     tickcast_bench::run(&workload)?;                 // prints a table, or JSON lines
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
mod lbtrm;
mod lbtrm_ends;
mod load;
mod nats_server;
mod no_fan_out;
mod options;
mod own;
mod pair;
mod pingpong;
mod probe;
mod process;
mod raw;
mod report;
mod role;
mod search;
mod storm;
mod stream;
mod sustained;
mod template;
mod update;

pub use error::BenchError;
pub use options::RunOptions;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use load::Shape;

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
    /// What the library itself takes for a message, in instructions (by valgrind), beside what it took
    /// before.
    Cost(cost::CostArgs),
    /// What this machine does to a thread that only spins, and where its CPUs lie.
    Jitter(jitter::JitterArgs),
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
    /// All sizes, datagrams and rates between two ends; else messages of 64 bytes, in 1472, at one rate.
    #[arg(long)]
    full: bool,
}

/// Runs a workload and prints what it comes to.
///
/// # Errors
/// A process of it could not be started, has failed, or has not answered.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Rwf(args) => codec::run(args),
        BenchCommand::Pingpong(args) => pingpong::run(args),
        BenchCommand::Stream(args) => stream::run(args),
        BenchCommand::OneToOne(args) => load::run(args, Shape::OneToOne),
        BenchCommand::ThreeToThree(args) => load::run(args, Shape::ThreeToThree),
        BenchCommand::Cost(args) => cost::run(args),
        BenchCommand::Jitter(args) => jitter::run(args),
        BenchCommand::Lbtrm(args) => lbtrm::run(args),
        BenchCommand::Congestion(args) => congestion::run(args),
        BenchCommand::EndToEnd(args) => end_to_end::run(args),
        BenchCommand::Images(args) => images::run(args),
        BenchCommand::Storm(args) => storm::run(args),
        BenchCommand::NoFanOut(args) => no_fan_out::run(args),
        BenchCommand::FanOut(args) => fan_out::run(args),
        BenchCommand::WebSocketFanOut(args) => fan_out::run_websocket(args),
        BenchCommand::All(args) => all(args),
        BenchCommand::Role(args) => role::run(args),
    }
}

fn all(args: &AllArgs) -> Result<(), BenchError> {
    let options = args.options;
    codec::run(&codec::RwfArgs::new(options, args.eta.clone()))?;
    let sizes: &[u32] = if args.full { &[64, 256, 1024] } else { &[64] };
    pingpong::run(&pingpong::PingpongArgs::new(options, sizes))?;
    let datagrams: &[u32] = if args.full { &[1472, 8972] } else { &[1472] };
    stream::run(&stream::StreamArgs::new(options, sizes, datagrams))?;
    let rates: &[u64] = if args.full { &load::RATES } else { &[125_000] };
    for shape in [Shape::OneToOne, Shape::ThreeToThree] {
        load::run(&load::LoadArgs::new(options, sizes, rates), shape)?;
    }
    if args.full {
        lbtrm::run(&lbtrm::LbtrmArgs::new(options))?;
    }
    end_to_end::run(&end_to_end::EndToEndArgs::new(options))?;
    no_fan_out::run(&no_fan_out::NoFanOutArgs::new(options))?;
    fan_out::run(&fan_out::FanOutArgs::new(options, args.tls.clone()))?;
    let (tls, nats_server) = (args.tls.clone(), args.nats_server.clone());
    fan_out::run_websocket(&fan_out::WebSocketFanOutArgs::new(options, tls, nats_server))
}
