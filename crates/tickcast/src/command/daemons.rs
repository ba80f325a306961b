//! `tickcast source-distributor` and `tickcast p2ps`: one role, one process.

use counters::Registry;
use daemon::Status;

use crate::config::ConfigArgs;
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Stop};
use crate::role::{self, Carrier, Surroundings};

pub(super) fn source_distributor(args: &ConfigArgs) -> Result<(), Failure> {
    run(args, |role, ready| role::source_distributor(role, ready))
}

pub(super) fn p2ps(args: &ConfigArgs) -> Result<(), Failure> {
    run(args, |role, ready| role::p2ps(role, ready))
}

type Ready<'r> = &'r mut dyn FnMut(Status) -> Result<(), Failure>;

fn run(
    args: &ConfigArgs,
    role: impl FnOnce(&Surroundings<'_>, Ready<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    host::start_log("info");
    let config = args.load()?.value;
    let dictionary = dictionary::load(&config.dictionary)?;
    let (registry, stop) = (Registry::default(), Stop::default());
    stop.on_signals()?;
    let surroundings = Surroundings {
        config: &config,
        dictionary,
        carrier: Carrier::Multicast,
        registry: &registry,
        stop: &stop,
    };
    role(&surroundings, &mut |status| host::start_admin(&config.admin, &registry, move || status.read()))
}
