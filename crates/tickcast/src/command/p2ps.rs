use backbone::multicast::MulticastInlet;
use counters::Registry;
use messaging::ContextCounters;
use net::{Poller, clock};
use p2ps::PointToPointServer;

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
    config.p2ps.thread.enter()?;
    let mut poller = Poller::new()?;
    stop.watch(poller.registrar())?;
    let counters = ContextCounters::default();
    command::register(&registry, &counters);
    let (registrar, seed) = (poller.registrar(), clock::seed());
    let inlet = MulticastInlet::new(&config.messaging, registrar, 2, seed, clock::monotonic(), counters)?;
    let mut server =
        PointToPointServer::new(&config.p2ps, dictionary, inlet, registrar, 1, clock::seed(), &registry)?;
    let status = server.status();
    host::start_admin(&config.admin, &registry, move || status.read())?;
    net::agent::run(&mut poller, config.p2ps.thread.strategy(), &mut [&mut server], stop.flag())?;
    Ok(())
}
