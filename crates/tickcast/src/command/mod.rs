//! The subcommands.

mod configuration;
mod p2ps;
mod source_distributor;

use counters::Registry;
use messaging::ContextCounters;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::SourceDistributor(config) => source_distributor::run(&config),
        Command::P2ps(config) => p2ps::run(&config),
        Command::Config { action } => configuration::run(&action),
    }
}

/// Lets the admin port show what a messaging context counts.
fn register(registry: &Registry, counters: &ContextCounters) {
    registry.register(&[], counters.source.clone());
    registry.register(&[], counters.receiver.clone());
    registry.register(&[], counters.delivery.clone());
    registry.register(&[], counters.resolver.clone());
    registry.register(&[], counters.context.clone());
}
