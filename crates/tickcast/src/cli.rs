use clap::{Parser, Subcommand};
use testtools::testclient::TestClientArgs;
use testtools::testserver::TestServerArgs;

use crate::command::{
    AdminAction, AnalyseArgs, CountersArgs, FeedArgs, LedgerArgs, PublishArgs, SubscribeArgs, TraceArgs,
    TuneAction,
};
use crate::config::{ConfigArgs, FileArgs};
use crate::demo::DemoArgs;
use crate::top::TopArgs;
use crate::watch::WatchArgs;

/// Market data from where it is made to everyone who needs it: fast, predictably and without silent loss.
#[derive(Debug, Parser)]
#[command(name = "tickcast", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the whole system in one process: a recorded market goes all the way to port 14002.
    Demo(DemoArgs),
    /// Watches items: quotes live in the terminal, or every event as a line of JSON.
    Watch(WatchArgs),
    /// Plays a recorded market into a source distributor (port 14003).
    Feed(FeedArgs),
    /// Runs a source distributor: providers connect to it (port 14003), the backbone starts at it.
    SourceDistributor(ConfigArgs),
    /// Runs a point-to-point server: consumers connect to it (port 14002), it listens to the backbone.
    P2ps(ConfigArgs),
    /// Runs a unicast resolver (port 15380): topic resolution where there is no multicast.
    Resolver(ConfigArgs),
    /// Publishes a topic: a text, lines of standard input, or test messages.
    Pub(PublishArgs),
    /// Subscribes to a topic, all that begin alike, or all that a pattern fits: prints messages, or statistics each second.
    Sub(SubscribeArgs),
    /// Measures the system beside the bare sockets below it.
    Bench(bench::BenchArgs),
    /// Makes a page of recorded runs of `bench`: tables, charts, verdicts, published figures beside.
    Report(report::ReportArgs),
    /// A consumer of test data for any RSSL server: counts, times, judges; the summary of the SDK's ConsPerf.
    Testclient(TestClientArgs),
    /// A provider of test data for any RSSL consumer or distribution server, at a rate: what ProvPerf and NIProvPerf do.
    Testserver(TestServerArgs),
    /// Follows messages from one point to another by files of observations: loss, order, latency of every one.
    Analyse(AnalyseArgs),
    /// Shows what the processes of this host count, as tables, JSON or rates.
    Counters(CountersArgs),
    /// Shows running daemons by their admin ports, live: threads, services, clients by backlog, busiest items.
    Top(TopArgs),
    /// Asks running source distributors and P2PSs what became of each update, and whether that adds up.
    Ledger(LedgerArgs),
    /// Follows one item from hop to hop, live: how long each of its updates took, by hop stamps.
    Trace(TraceArgs),
    /// Does something with a running daemon by its admin port.
    Admin {
        #[command(subcommand)]
        action: AdminAction,
    },
    /// Looks at what of the machine's settings costs latency, and changes it and back.
    Tune {
        #[command(subcommand)]
        action: TuneAction,
    },
    /// Checks and explains configurations.
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Checks a file: every fault with its place, what was expected, and the nearest known name; then whether this host
    /// has the interfaces and files that it names.
    #[command(
        after_help = "Exit status: 0 no fault; 1 this host lacks what the file names; 2 the file is wrong."
    )]
    Check(FileArgs),
    /// Shows the effective configuration as TOML, each value with where it came from.
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints the reference of all keys as Markdown.
    Reference,
}
