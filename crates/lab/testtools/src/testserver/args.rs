//! What `tickcast testserver` is told.

use std::path::PathBuf;

use client::HostPort;

use crate::ticks::{StampRate, TICKS_MAX};

/// A provider of test data.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast testserver                                    any item of the service DIRECT_FEED at port 14002,
                                                         100,000 updates a second to each connection
  tickcast testserver --update-rate 500000 --latency-rate all
  tickcast testserver --connect localhost:14003 --items 100000 --update-rate 500000
                                                         publishes 100,000 items at a distribution server
  tickcast testserver --msg-file MsgData.xml --dictionary-dir .
                                                         messages and dictionary of the SDK's tools

The rate is that of each connection: its open items get their updates in turn. Time stamps (TIM_TRK_1) are those of the
monotonic clock, for a consumer on the same host. It runs until --run-time, or until it is told to stop.

Exit status: 0 done; 1 it could not run, or the server it publishes to was not reached; 2 wrong usage or a wrong file.")]
pub struct TestServerArgs {
    /// Port on which consumers connect; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 14002, conflicts_with = "connect")]
    pub port: u16,
    /// Publishes the items to this distribution server instead (port 14003 there), as a non-interactive provider.
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Option<HostPort>,
    /// Name of the service.
    #[arg(long, value_name = "NAME", default_value = "DIRECT_FEED", value_parser = crate::command::name)]
    pub service: String,
    /// Number of the service.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub service_id: u16,
    /// Updates a second to each connection.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub update_rate: u32,
    /// Ticks a second: the updates of a tick leave together.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(TICKS_MAX)))]
    pub tick_rate: u32,
    /// Updates a second that carry the time of their encoding (TIM_TRK_1), at most one a tick; or `all`.
    #[arg(long, value_name = "N|all", default_value = "10")]
    pub latency_rate: StampRate,
    /// Time stamps in nanoseconds in place of microseconds; the consumer must be told so too.
    #[arg(long)]
    pub nanoseconds: bool,
    /// Ends the updates of each connection after so many.
    #[arg(long, value_name = "N")]
    pub updates: Option<u64>,
    /// Images that leave together, in what is left of a tick.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub image_burst: u32,
    /// Most streams that one connection may have open.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub open_limit: u32,
    /// Most bytes that wait for a connection; the updates of a tick that would wait beyond it are dropped and counted.
    #[arg(long, value_name = "BYTES", default_value_t = 30_720_000, value_parser = clap::value_parser!(u32).range(65_536..=1_073_741_824))]
    pub output_bytes: u32,
    /// Longest message that goes unfragmented, and so how much is packed into one frame.
    #[arg(long, value_name = "BYTES", default_value_t = 6_144, value_parser = clap::value_parser!(u16).range(64..=65_532))]
    pub max_fragment_size: u16,
    /// Does not answer generic messages. It sends each one back without this.
    #[arg(long)]
    pub no_generic_answers: bool,
    /// Refuses posts. It sends each one back as an update without this.
    #[arg(long)]
    pub no_posts: bool,
    /// Images, updates, posts and generic messages, in the XML of the SDK's tools (MsgData.xml); built-in ones without it.
    #[arg(long, value_name = "FILE")]
    pub msg_file: Option<PathBuf>,
    /// Directory with RDMFieldDictionary and enumtype.def; a small built-in dictionary without it.
    #[arg(long, value_name = "DIR")]
    pub dictionary_dir: Option<PathBuf>,
    /// With --connect: the items, in the XML of the SDK's tools; --items then is how many of them.
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub item_file: Option<PathBuf>,
    /// With --connect: how many items.
    #[arg(long, value_name = "N", requires = "connect", value_parser = crate::command::item_count)]
    pub items: Option<usize>,
    /// With --connect: the names of items that are not of a file; {} is the number, from 0.
    #[arg(long, value_name = "PATTERN", default_value = "TEST.{}")]
    pub names: crate::item_list::NamePattern,
    /// User to log in as, with --connect; the user of this process without it.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub user: String,
    /// Ends after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = crate::command::seconds)]
    pub run_time: Option<f64>,
    /// Seconds from one line of statistics to the next.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = crate::command::interval)]
    pub stats_interval: f64,
    /// Prints JSON, an object a line, in place of text.
    #[arg(long)]
    pub json: bool,
    /// CPU that the thread runs on.
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<usize>,
    /// Never sleeps: takes a whole CPU, and reacts sooner.
    #[arg(long)]
    pub spin: bool,
}
