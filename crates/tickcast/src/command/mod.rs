//! The subcommands.

mod admin;
mod analyse;
mod configuration;
mod counters;
mod daemons;
mod feed;
mod ledger;
mod topic;
mod trace;

pub(crate) use admin::AdminAction;
pub(crate) use analyse::AnalyseArgs;
pub(crate) use counters::CountersArgs;
pub(crate) use feed::FeedArgs;
pub(crate) use ledger::LedgerArgs;
pub(crate) use topic::{PublishArgs, SubscribeArgs};
pub(crate) use trace::TraceArgs;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::{demo, top, watch};

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
        Command::Bench { command } => bench::run(&command).map_err(|error| match error {
            bench::BenchError::Output(error) => Failure::Output(error),
            other => Failure::Run(other.to_string()),
        }),
        Command::Analyse(args) => analyse::run(&args),
        Command::Counters(args) => counters::run(&args),
        Command::Ledger(args) => ledger::run(&args),
        Command::Admin { action } => admin::run(&action),
        Command::Trace(args) => trace::run(&args),
        Command::Config { action } => configuration::run(&action),
    }
}
