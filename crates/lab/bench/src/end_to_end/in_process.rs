use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use backbone::inprocess::{Hub, InProcessInlet, InProcessOutlet};
use clap::Args;
use counters::Registry;
use daemon::{ThreadConfig, WaitConfig};
use net::{Poller, Token, WaitStrategy, affinity, clock};
use p2ps::{P2psConfig, PointToPointServer};
use serde_json::json;
use source_distributor::{Providers, SourceDistributor, SourceDistributorConfig};

use super::consumer::Observer;
use super::publisher::{Items, Publisher};
use super::{Pacing, SentRun};
use crate::BenchError;
use crate::chain::run_number;
use crate::decode::DecodeArgs;
use crate::process::{self, answer, free_port};
use crate::update::Profile;

#[derive(Debug, Args)]
pub(crate) struct InProcessArgs {
    #[arg(long)]
    own: u32,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    decode: DecodeArgs,
}

/// The CPU of publisher and consumer, and the one of source distributor and point-to-point server.
const CPUS: [usize; 2] = [0, 1];

/// The first token spaces of the servers, which share a poller. The next one of each is its carrier's.
const DISTRIBUTOR: u32 = 1;
const SERVER: u32 = DISTRIBUTOR + SourceDistributor::<InProcessOutlet>::TOKEN_SPACES;

fn carrier_of(token_space: u32) -> Token {
    Token(u64::from(token_space + 1) << 32)
}

/// Tells the servers' thread whether it is to spin, which it does only while something is measured.
#[derive(Default)]
struct Mode {
    spins: AtomicBool,
    blocks: AtomicBool,
}

impl Mode {
    fn spin(&self, waker: &net::Waker) {
        self.blocks.store(false, Ordering::Release);
        self.spins.store(true, Ordering::Release);
        waker.wake();
    }

    fn block(&self) {
        self.spins.store(false, Ordering::Release);
        self.blocks.store(true, Ordering::Release);
    }
}

pub(crate) fn in_process(args: &InProcessArgs) -> Result<(), BenchError> {
    let mode = Arc::new(Mode::default());
    mode.spins.store(true, Ordering::Release);
    let [provider_port, rssl_port] = [free_port()?, free_port()?];
    let (sender, ready) = mpsc::channel();
    let servers = {
        let mode = Arc::clone(&mode);
        thread::spawn(move || servers(provider_port, rssl_port, &mode, &sender))
    };
    let Ok(waker) = ready.recv() else {
        return servers.join().unwrap_or_else(|_| Err(BenchError::new("the servers have panicked")));
    };
    affinity::pin_to_cpu(CPUS[0])?;
    let items = Items { common: 0, mounts: 1, own: args.own };
    let mut publisher = Publisher::connect(provider_port, items, args.profile)?;
    let mut observer = Observer::connect(rssl_port, args.own, args.decode, args.profile)?;
    mode.block();
    answer(&json!({ "ready": true }));
    let commands = process::commands();
    loop {
        match commands.recv_timeout(Duration::from_millis(100)) {
            Ok(command) => {
                mode.spin(&waker);
                let sent = run(&command, &mut publisher, &mut observer)?;
                mode.block();
                let Some(observed) = observer.take_run()? else { continue };
                let mut ran = sent.answer();
                observed.put(&mut ran);
                answer(&ran);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                publisher.publish(&[])?;
                observer.work();
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Publishes and observes on the same thread, which never sleeps.
fn run(
    command: &serde_json::Value,
    publisher: &mut Publisher,
    observer: &mut Observer,
) -> Result<SentRun, BenchError> {
    let sent = Pacing::Spin.run_beside(command, |due| publisher.publish(due), || observer.work())?;
    publisher.end_run(run_number(command), sent.end)?;
    let deadline = clock::monotonic().after(Duration::from_secs(60));
    while !observer.has_ended() {
        observer.work();
        if clock::monotonic() > deadline {
            return Err(BenchError::new("the end of the run has not come"));
        }
    }
    Ok(sent)
}

fn servers(
    provider_port: u16,
    rssl_port: u16,
    mode: &Mode,
    ready: &mpsc::Sender<Arc<net::Waker>>,
) -> Result<(), BenchError> {
    affinity::pin_to_cpu(CPUS[1])?;
    let (hub, registry, dictionary) = (Hub::new(), Registry::default(), Arc::new(rwf::Dictionary::new()));
    let thread = || ThreadConfig { wait: WaitConfig::Spin, ..ThreadConfig::default() };
    let mut poller = Poller::new()?;
    let registrar = poller.registrar().clone();
    let outlet = InProcessOutlet::new(&hub, &registrar, carrier_of(DISTRIBUTOR), true)?;
    let config =
        SourceDistributorConfig { provider_port, thread: thread(), ..SourceDistributorConfig::default() };
    let mut distributor = SourceDistributor::new(
        &config,
        Providers::ConnectToo,
        Arc::clone(&dictionary),
        outlet,
        (&registrar, DISTRIBUTOR),
        clock::seed(),
        &registry,
    )?;
    let inlet = InProcessInlet::new(&hub, &registrar, carrier_of(SERVER), true)?;
    // Every update is counted at the end, however long it has waited.
    let config = P2psConfig {
        rssl_port,
        websocket_port: 0,
        thread: thread(),
        conflate_above_bytes: 0,
        conflate_above_ms: 0,
        ..P2psConfig::default()
    };
    let mut server =
        PointToPointServer::new(&config, dictionary, inlet, &registrar, SERVER, clock::seed(), &registry)?;
    // Nobody waits any more if the main thread has failed: then there is nothing to serve.
    let waker = Arc::new(net::Waker::new(&registrar, Token(0))?);
    if ready.send(Arc::clone(&waker)).is_err() {
        return Ok(());
    }
    loop {
        net::agent::run(&mut poller, WaitStrategy::Spin, &mut [&mut distributor, &mut server], &mode.blocks)?;
        net::agent::run(&mut poller, WaitStrategy::Block, &mut [&mut distributor, &mut server], &mode.spins)?;
        waker.acknowledge();
    }
}
