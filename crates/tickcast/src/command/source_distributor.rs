use backbone::multicast::MulticastOutlet;
use counters::Registry;
use messaging::ContextCounters;
use net::{Poller, clock};
use source_distributor::SourceDistributor;

use crate::config::ConfigArgs;
use crate::failure::Failure;
use crate::host::{self, Stop};
use crate::{command, dictionary};

pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    host::start_log("info");
    let config = args.load()?.value;
    let dictionary = dictionary::load(&config.dictionary)?;
    let (registry, stop) = (Registry::default(), Stop::default());
    stop.on_signals()?;
    config.source_distributor.thread.enter()?;
    let mut poller = Poller::new()?;
    stop.watch(poller.registrar())?;
    let counters = ContextCounters::default();
    command::register(&registry, &counters);
    let (registrar, seed) = (poller.registrar(), clock::seed());
    let outlet = MulticastOutlet::new(&config.messaging, registrar, 2, seed, clock::monotonic(), counters)?;
    let mut distributor = SourceDistributor::new(
        &config.source_distributor,
        dictionary,
        outlet,
        registrar,
        1,
        clock::seed(),
        &registry,
    )?;
    let status = distributor.status();
    host::start_admin(&config.admin, &registry, move || status.read())?;
    let strategy = config.source_distributor.thread.strategy();
    net::agent::run(&mut poller, strategy, &mut [&mut distributor], stop.flag())?;
    distributor.end(clock::monotonic());
    Ok(())
}
