//! `tickcast source-distributor`, `tickcast p2ps` and `tickcast resolver`: one role, one process.

use counters::Registry;
use daemon::Status;

use crate::config::ConfigArgs;
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Stop};
use crate::role::{self, Carrier, Surroundings};

pub(super) fn source_distributor(args: &ConfigArgs) -> Result<(), Failure> {
    run("source-distributor", args, |role, ready| role::source_distributor(role, ready))
}

pub(super) fn p2ps(args: &ConfigArgs) -> Result<(), Failure> {
    run("p2ps", args, |role, ready| role::p2ps(role, ready))
}

pub(super) fn resolver(args: &ConfigArgs) -> Result<(), Failure> {
    host::start_log("info");
    let config = args.load()?.value;
    let (registry, stop) = (Registry::default(), Stop::default());
    stop.on_signals()?;
    let _counters = host::publish_counters(&config.admin, &registry, "resolver");
    role::resolver(&config.resolver, &registry, &stop, |status| {
        host::start_admin(&config.admin, &registry, move || status.read())
    })
}

type Ready<'r> = &'r mut dyn FnMut(Status) -> Result<(), Failure>;

fn run(
    name: &str,
    args: &ConfigArgs,
    role: impl FnOnce(&Surroundings<'_>, Ready<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    host::start_log("info");
    let config = args.load()?.value;
    let dictionary = dictionary::load(&config.dictionary)?;
    let (registry, stop) = (Registry::default(), Stop::default());
    stop.on_signals()?;
    let _counters = host::publish_counters(&config.admin, &registry, name);
    let surroundings = Surroundings {
        config: &config,
        dictionary,
        carrier: Carrier::Multicast,
        registry: &registry,
        stop: &stop,
    };
    role(&surroundings, &mut |status| host::start_admin(&config.admin, &registry, move || status.read()))
}
