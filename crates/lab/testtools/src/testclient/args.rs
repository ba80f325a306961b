//! What `tickcast testclient` is told.

use std::path::PathBuf;

use client::HostPort;

use crate::item_list::NamePattern;
use crate::ticks::{StampRate, TICKS_MAX};

/// A consumer of test data.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast testclient --items 100000                       100,000 items of DIRECT_FEED at localhost:14002, for 300 s
  tickcast testclient --host ads1:14002 --service ELEKTRON_DD --item-file 350k.xml --items 50000
  tickcast testclient --items 1000 --connections 4 --common-items 1000
                                                           the same 1,000 items four times, a thread each
  tickcast testclient --items 100 --post-rate 1000 --generic-rate 1000 --msg-file MsgData.xml
  tickcast testclient --items 100 --updates 1000000        ends with the millionth update

The run has two parts, counted apart: startup, from the first request to the last image, and steady state. Latency is
the age of the time stamp (TIM_TRK_1) when an update is decoded; both ends must be on one host. A stream that is closed,
or a connection that is lost, ends the run as failed, unless --keep-going.

Exit status: 0 done; 1 the run has failed: what was wanted did not come, a stream was closed, the connection was lost;
2 wrong usage or a wrong file.")]
pub struct TestClientArgs {
    /// The server: a provider, a point-to-point server, an ADS.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14002")]
    pub host: HostPort,
    /// The service that has the items, by its name.
    #[arg(long, value_name = "NAME", default_value = "DIRECT_FEED", value_parser = crate::command::name)]
    pub service: String,
    /// How many items, over all connections; of a file the first ones.
    #[arg(long, value_name = "N", value_parser = crate::command::item_count)]
    pub items: Option<usize>,
    /// Names of items that are not of a file; {} is the number, from 0.
    #[arg(long, value_name = "PATTERN", default_value = "TEST.{}")]
    pub names: NamePattern,
    /// The items, in the XML of the SDK's tools (350k.xml).
    #[arg(long, value_name = "FILE")]
    pub item_file: Option<PathBuf>,
    /// Connections, each with a thread and its part of the items.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub connections: u32,
    /// So many of the items are the same on all connections.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub common_items: usize,
    /// Item requests a second, on each connection.
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub request_rate: u32,
    /// Ticks a second: requests, posts and generic messages of a tick leave together.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(TICKS_MAX)))]
    pub tick_rate: u32,
    /// Share of the items that are asked for without updates; with 100 the run ends with the last image.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub snapshots: u32,
    /// Asks for so many items in a message, where the server takes batches; 1 for each by itself.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Asks for these fields alone, by number.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',', allow_negative_numbers = true)]
    pub view: Vec<i16>,
    /// Posts a second on each connection, in steady state.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub post_rate: u32,
    /// Posts a second that carry the time of their encoding (TIM_TRK_2), or `all`.
    #[arg(long, value_name = "N|all", default_value = "10")]
    pub post_latency_rate: StampRate,
    /// Asks for an ack of each post.
    #[arg(long)]
    pub post_acks: bool,
    /// Ends when so many posts of each connection have come back as updates, and posts no more than these.
    #[arg(long, value_name = "N", requires = "post_rate")]
    pub posts: Option<u64>,
    /// Generic messages a second on each connection, in steady state.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub generic_rate: u32,
    /// Generic messages a second that carry the time of their encoding (TIM_TRK_3), or `all`.
    #[arg(long, value_name = "N|all", default_value = "10")]
    pub generic_latency_rate: StampRate,
    /// Ends when so many generic messages have come to each connection, and sends no more than these.
    #[arg(long, value_name = "N", requires = "generic_rate")]
    pub generics: Option<u64>,
    /// Ends when so many updates have come over all connections, without posts that came back.
    #[arg(long, value_name = "N")]
    pub updates: Option<u64>,
    /// How long steady state lasts; with --updates, --posts or --generics how long these may take to come.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = crate::command::seconds)]
    pub steady_state_time: f64,
    /// How long the connection and all images may take to come.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = crate::command::seconds)]
    pub startup_time: f64,
    /// Leaves out the first part of steady state, in which caches are filled and the rate settles.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=3_600_000))]
    pub delay_steady_state: u32,
    /// What is decoded of updates: every field by the dictionary (all), the time stamps (stamps), or nothing (none).
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Decode::All, hide_possible_values = true)]
    pub decode: Decode,
    /// Keeps the image of each item, with all updates merged.
    #[arg(long)]
    pub keep_images: bool,
    /// Goes on when a stream is closed or the connection is lost: items are asked for again.
    #[arg(long)]
    pub keep_going: bool,
    /// Time stamps are nanoseconds, in place of microseconds.
    #[arg(long)]
    pub nanoseconds: bool,
    /// Writes every update latency to this file: `send,receive,difference`; of further connections to FILE-2, FILE-3 ...
    #[arg(long, value_name = "FILE")]
    pub latency_file: Option<PathBuf>,
    /// What is posted and sent, in the XML of the SDK's tools (MsgData.xml); built-in messages without it.
    #[arg(long, value_name = "FILE")]
    pub msg_file: Option<PathBuf>,
    /// Directory with RDMFieldDictionary and enumtype.def; the dictionary is downloaded without it.
    #[arg(long, value_name = "DIR")]
    pub dictionary_dir: Option<PathBuf>,
    /// User to log in as; the user of this process without it.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub user: String,
    /// Asks for a compressed connection.
    #[arg(long, value_parser = ["zlib", "lz4"])]
    pub compression: Option<String>,
    /// Encrypted connections, to servers whose certificate is of an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<String>,
    /// Seconds from one line of statistics to the next.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = crate::command::interval)]
    pub stats_interval: f64,
    /// Prints JSON, an object a line, in place of text.
    #[arg(long)]
    pub json: bool,
    /// CPUs that the threads run on, in turn.
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Never sleeps: takes a whole CPU a connection, and reacts sooner.
    #[arg(long)]
    pub spin: bool,
}

/// What is decoded of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Decode {
    /// Every field to its type, and the texts of enumerations.
    All,
    /// The time stamps.
    Stamps,
    /// Nothing behind the header: there are no latencies.
    None,
}
