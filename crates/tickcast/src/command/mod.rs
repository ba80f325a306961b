//! The subcommands.

mod configuration;
mod daemons;
mod feed;

pub(crate) use feed::FeedArgs;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::{demo, watch};

pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Feed(args) => feed::run(&args),
        Command::SourceDistributor(config) => daemons::source_distributor(&config),
        Command::P2ps(config) => daemons::p2ps(&config),
        Command::Bench { command } => bench::run(&command).map_err(|e| Failure::Run(e.to_string())),
        Command::Config { action } => configuration::run(&action),
    }
}
