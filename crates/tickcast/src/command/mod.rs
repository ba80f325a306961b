//! The subcommands.

mod admin;
mod analyse;
mod configuration;
mod counters;
mod daemons;
mod feed;
mod ledger;
mod testtools;
mod topic;
mod trace;
mod tune;

pub(crate) use admin::AdminAction;
pub(crate) use analyse::AnalyseArgs;
pub(crate) use counters::CountersArgs;
pub(crate) use feed::FeedArgs;
pub(crate) use ledger::LedgerArgs;
pub(crate) use topic::{PublishArgs, SubscribeArgs};
pub(crate) use trace::TraceArgs;
pub(crate) use tune::TuneAction;

use std::io::Write;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::{demo, top, watch};

/// What run directories say of this program; the build may be told its commit (the Makefile does).
const PROGRAM: bench::Program =
    bench::Program { version: env!("CARGO_PKG_VERSION"), commit: option_env!("BUILD_COMMIT") };

pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Feed(args) => feed::run(&args),
        Command::SourceDistributor(config) => daemons::source_distributor(&config),
        Command::P2ps(config) => daemons::p2ps(&config),
        Command::Resolver(config) => daemons::resolver(&config),
        Command::Pub(args) => topic::publish(&args),
        Command::Sub(args) => topic::subscribe(&args),
        Command::Bench(args) => bench::run(&args, PROGRAM).map_err(|error| match error {
            bench::BenchError::Output(error) => Failure::Output(error),
            other => Failure::Run(other.to_string()),
        }),
        Command::Report(args) => {
            let written = report::run(&args).map_err(|error| Failure::Run(error.to_string()))?;
            written
                .iter()
                .take(2)
                .try_for_each(|path| writeln!(std::io::stdout(), "{}", path.display()))
                .map_err(Failure::Output)
        }
        Command::Testclient(args) => testtools::client(&args),
        Command::Testserver(args) => testtools::server(&args),
        Command::Analyse(args) => analyse::run(&args),
        Command::Counters(args) => counters::run(&args),
        Command::Ledger(args) => ledger::run(&args),
        Command::Admin { action } => admin::run(&action),
        Command::Trace(args) => trace::run(&args),
        Command::Tune { action } => tune::run(&action),
        Command::Config { action } => configuration::run(&action),
    }
}
