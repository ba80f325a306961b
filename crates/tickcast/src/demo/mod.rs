//! `tickcast demo`: the whole system in one process.

mod counts;
mod lines;
mod slow_reader;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use backbone::inprocess::Hub;
use client::HostPort;
use counters::Registry;
use daemon::{DaemonThread, Described};
use feed::{Replay, Speed};
use messaging::Transport;
use serde_json::json;
use source_distributor::{PostsConfig, ServiceConfig};

use self::counts::Counts;
use crate::config::RootConfig;
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Stop};
use crate::log::{self, LogConfig, Reload};
use crate::role::{self, Carrier, Surroundings};

/// What the demo plays and where it serves it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In a second terminal:
  tickcast watch BTCUSDT ETHUSDT     quotes and trades, live
  tickcast watch --book BTCUSDT      with the order book
Any RSSL consumer (EMA, ETA) can connect to the same port and ask the service BINANCE.

Each demo on a host needs ports of its own; with another --rssl-port its multicast keeps to itself too.")]
pub(crate) struct DemoArgs {
    /// Recordings to play; those under data/binance if none is given.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    data: Vec<PathBuf>,
    /// 1 keeps the recording's timing, 10 is ten times as fast, max does not wait.
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Begins again at the end of the recording; else its final images stay.
    #[arg(long = "loop")]
    repeat: bool,
    /// Port for consumers.
    #[arg(long, value_name = "PORT", default_value_t = 14002, value_parser = clap::value_parser!(u16).range(1..))]
    rssl_port: u16,
    /// Port for consumers that speak JSON over WebSocket.
    #[arg(long, value_name = "PORT", default_value_t = 15000, value_parser = clap::value_parser!(u16).range(1..))]
    websocket_port: u16,
    /// Port for providers; the demo's own feed connects there too.
    #[arg(long, value_name = "PORT", default_value_t = 14003, value_parser = clap::value_parser!(u16).range(1..))]
    provider_port: u16,
    /// HTTP port for operators: /health, /metrics, /status.
    #[arg(long, value_name = "PORT", default_value_t = 14080, value_parser = clap::value_parser!(u16).range(1..))]
    admin_port: u16,
    /// What carries the backbone: reliable multicast on the loopback interface, reliable unicast with a resolver of its
    /// own, shared memory, a server of NATS, or the memory of the process.
    #[arg(long, value_enum, default_value = "multicast")]
    backbone: Backbone,
    /// Server of NATS, with --backbone nats.
    #[arg(long, value_name = "URL", default_value = "nats://127.0.0.1:4222")]
    nats_server: String,
    /// Adds a client that reads for 10 s, stands still for 20 s or more, and so on, and says what becomes of it.
    #[arg(long)]
    slow_reader: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Backbone {
    Multicast,
    Unicast,
    Shm,
    Nats,
    InProcess,
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let registry = Registry::default();
    let (_log, reload) = log::start(&LogConfig::default(), "warn", &registry)?;
    play(args, &registry, reload).map_err(|failure| args.explain(failure))
}

impl DemoArgs {
    /// The port, 10000 or above, that a demo has in place of `usual`: itself where consumers connect to 14002, as by
    /// default, else another one.
    fn own_port(&self, usual: u16) -> u16 {
        const PORTS: u32 = 50_000;
        let from_default = u32::from(self.rssl_port) + PORTS - 14_002;
        (10_000 + (u32::from(usual) - 10_000 + from_default) % PORTS) as u16
    }

    /// A port that is taken: who may hold it, and the option that chooses another.
    fn explain(&self, failure: Failure) -> Failure {
        let Failure::Io(error) = &failure else { return failure };
        let ports = [
            ("--rssl-port", self.rssl_port),
            ("--websocket-port", self.websocket_port),
            ("--provider-port", self.provider_port),
            ("--admin-port", self.admin_port),
        ];
        let text = error.to_string();
        let taken = ports.iter().find(|(_, port)| text.contains(&format!(":{port}: ")));
        match taken.filter(|_| error.kind() == io::ErrorKind::AddrInUse) {
            Some((option, _)) => Failure::Run(format!(
                "{text}\nAnother demo or a server may hold that port; {option} PORT chooses another for this one."
            )),
            None => failure,
        }
    }
}

fn play(args: &DemoArgs, registry: &Registry, reload: Reload) -> Result<(), Failure> {
    let (config, stop) = (configuration(args)?, Stop::default());
    stop.on_signals(move || reload.apply(&LogConfig::default()))?;
    let dictionary = dictionary::load(&config.dictionary)?;
    let replay = Replay::new(&config.feed, &dictionary).map_err(|e| Failure::Config(e.to_string()))?;
    let (feed, session, connection) = replay.counters();
    registry.register(&[], feed);
    registry.register(&[], session);
    registry.register(&[("port", "feed")], connection);

    let _counters = host::publish_counters(&config.admin, registry, "demo");

    let carrier = match args.backbone {
        // These differ by what the messaging contexts are told.
        Backbone::Multicast | Backbone::Unicast | Backbone::Shm => Carrier::Multicast,
        Backbone::Nats => {
            look_for_nats(&args.nats_server)?;
            Carrier::Nats
        }
        Backbone::InProcess => Carrier::InProcess(Hub::new()),
    };
    let start = |name: &'static str, role: Role| {
        let (config, dictionary, carrier) = (config.clone(), dictionary.clone(), carrier.clone());
        let (registry, stop) = (registry.clone(), stop.clone());
        start(name, move |ready| {
            let (config, registry, stop) = (&config, &registry, &stop);
            role(&Surroundings { config, dictionary, carrier, registry, stop }, ready)
        })
    };
    // Topics are resolved before the others look for them.
    let resolver = match args.backbone {
        Backbone::Unicast => {
            let run = |role: &Surroundings<'_>, ready: Ready<'_>| {
                role::resolver(&role.config.resolver(), role.registry, role.stop, ready)
            };
            Some(start("resolver", run)?)
        }
        _ => None,
    };
    let (distributor, described_distributor) =
        start("distributor", |role, ready| role::source_distributor(role, ready))?;
    let (p2ps, described_server) = start("p2ps", |role, ready| role::p2ps(role, ready))?;
    let served = described_server.clone();
    let mut threads = [described_distributor.threads(), described_server.threads()].concat();
    threads.extend(resolver.iter().flat_map(|(_, described)| described.threads()));
    threads.push(DaemonThread::new("feed", replay.heartbeat()));
    let (server, traced) = (described_server.clone(), described_server.clone());
    let (before, ledger) = (described_distributor.clone(), described_server.clone());
    let described = Described::new(
        threads,
        // A question is about the P2PS's clients: the source distributor has one provider.
        move |query| {
            let p2ps = described_server.ask(query)?;
            Ok(json!({ "source_distributor": described_distributor.ask("")?, "p2ps": p2ps }))
        },
        move |order| server.order(order),
    );
    let described = described.and_ledger(move || ledger.ledger()).and_ledger_of(&before);
    let described = described.and_trace(move |query| traced.trace(query));
    host::start_admin(&config.admin, registry, &stop, &described, None)?;
    let replay = {
        let stop = stop.clone();
        let run = move || replay.run(stop.flag()).map_err(|e| Failure::Run(e.to_string()));
        thread::Builder::new().name("feed".to_owned()).spawn(run)?
    };

    introduce(args, &config, &mut io::stdout().lock()).map_err(Failure::Output)?;
    let mut threads = vec![distributor, p2ps, replay];
    threads.extend(resolver.map(|(thread, _)| thread));
    if args.slow_reader {
        threads.push(slow_reader::start(args.rssl_port, &config.feed.service, served, stop.clone())?);
    }
    let shown = show(&stop, registry, args.repeat, &threads);
    stop.stop();
    let ended: Result<(), Failure> = threads.drain(..).try_for_each(join);
    ended.and(shown)
}

type Ready<'r> = &'r mut dyn FnMut(Described) -> Result<(), Failure>;
type Role = fn(&Surroundings<'_>, Ready<'_>) -> Result<(), Failure>;
type Thread = JoinHandle<Result<(), Failure>>;

/// Starts a role's thread and waits until its port is open, or it has failed.
fn start(
    name: &'static str,
    role: impl FnOnce(Ready<'_>) -> Result<(), Failure> + Send + 'static,
) -> Result<(Thread, Described), Failure> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        role(&mut |described| {
            // Nobody waits any more: the demo has already failed.
            let _ = sender.send(described);
            Ok(())
        })
    })?;
    match receiver.recv() {
        Ok(described) => Ok((thread, described)),
        Err(mpsc::RecvError) => {
            join(thread)?;
            Err(Failure::Run(format!("{name} has ended before it began")))
        }
    }
}

fn join(thread: Thread) -> Result<(), Failure> {
    let name = thread.thread().name().unwrap_or("thread").to_owned();
    thread.join().unwrap_or_else(|_| Err(Failure::Run(format!("{name} has panicked; see above"))))
}

fn configuration(args: &DemoArgs) -> Result<RootConfig, Failure> {
    let mut config = RootConfig::default();
    let files = if args.data.is_empty() { sample()? } else { args.data.clone() };
    config.feed.files = files.iter().map(|path| path.display().to_string()).collect();
    config.feed.speed = args.speed;
    config.feed.repeat = args.repeat;
    config.feed.provider.hosts = vec![HostPort::new("127.0.0.1", args.provider_port)];
    config.source_distributor.provider_port = args.provider_port;
    config.source_distributor.hop_stamps = true;
    // What applications contribute is seen too; the recorded market cannot take it.
    let (name, id) = (config.feed.service.clone(), config.feed.service_id);
    config.source_distributor.services =
        vec![ServiceConfig { name, id, posts: PostsConfig::Cache, ripples: true }];
    config.p2ps.rssl_port = args.rssl_port;
    config.p2ps.websocket_port = args.websocket_port;
    config.p2ps.conflated_intervals_ms = vec![100, 200, 500, 1_000, 5_000];
    config.admin.port = Some(args.admin_port);
    if args.slow_reader {
        slow_reader::configure(&mut config.p2ps);
    }
    config.backbone.nats.servers = vec![args.nats_server.clone()];
    // As with multicast, a demo on other ports keeps to itself.
    config.backbone.nats.prefix = format!("tickcast-demo.{}", args.rssl_port);
    // A demo on other ports resolves its topics by itself.
    config.messaging.resolver.multicast_port = args.own_port(config.messaging.resolver.multicast_port);
    match args.backbone {
        Backbone::Unicast => {
            config.messaging.transport = Transport::LbtRu;
            config.resolver.port = args.own_port(config.resolver.port);
            let resolver = SocketAddrV4::new(config.resolver.interface, config.resolver.port);
            config.messaging.resolver.unicast_daemon = vec![resolver];
            // Room for demos beside each other: each takes the first ports that are free.
            let last = config.resolver.client_port_low + 99;
            (config.resolver.client_port_high, config.messaging.resolver.unicast_port_high) = (last, last);
        }
        Backbone::Shm => config.messaging.transport = Transport::LbtIpc,
        Backbone::Multicast | Backbone::Nats | Backbone::InProcess => {}
    }
    Ok(config)
}

/// A demo whose backbone is not there would show nothing, and not say why.
fn look_for_nats(server: &str) -> Result<(), Failure> {
    backbone::nats::look_for(server, Duration::from_secs(3)).map_err(|error| {
        Failure::Run(format!(
            "no server of NATS answers at {server}: {error}\nStart one with `nats-server` (Debian: apt-get install \
             nats-server; Docker: docker run -p 4222:4222 nats), or name another with --nats-server URL."
        ))
    })
}

/// The recordings that come with the project.
fn sample() -> Result<Vec<PathBuf>, Failure> {
    let executable = std::env::current_exe().ok();
    let beside = executable.iter().flat_map(|path| path.ancestors().skip(1));
    let folders = std::iter::once(Path::new(".")).chain(beside).map(|folder| folder.join("data/binance"));
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
        files.retain(|path| path.extension().is_some_and(|e| e == "zst"));
        if !files.is_empty() {
            files.sort();
            return Ok(files);
        }
    }
    let text = "no recording found under data/binance: run it in the project's folder, or give --data FILE";
    Err(Failure::Config(text.to_owned()))
}

fn introduce(args: &DemoArgs, config: &RootConfig, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<_> = config.feed.files.iter().map(|f| f.rsplit('/').next().unwrap_or(f)).collect();
    let multicast = &config.messaging;
    let backbone = match args.backbone {
        Backbone::Multicast => format!(
            "reliable multicast {}:{} on {}",
            multicast.lbtrm.multicast_address, multicast.lbtrm.destination_port, multicast.interface
        ),
        Backbone::Unicast => {
            format!(
                "reliable unicast (LBT-RU), found through a resolver on UDP port {}",
                config.resolver.port
            )
        }
        Backbone::Shm => "shared memory".to_owned(),
        Backbone::Nats => format!("NATS at {}", args.nats_server),
        Backbone::InProcess => "memory of this process".to_owned(),
    };
    let repeat = if args.repeat { ", again and again" } else { ", then the final images stay" };
    let speed = match args.speed {
        Speed::Max => "as fast as it goes".to_owned(),
        speed @ Speed::Times(_) if speed == Speed::RECORDED => "with its own timing".to_owned(),
        speed => format!("at {speed} times its speed"),
    };
    let host = format!("localhost:{}", args.rssl_port);
    let other_host = if args.rssl_port == 14002 { String::new() } else { format!("--host {host} ") };
    writeln!(
        out,
        "Tickcast demo: a recorded market on its way to you

  recording   {}
              {speed}{repeat}
  providers   RSSL on port {}; the feed comes in here
  backbone    {backbone}
  consumers   RSSL on port {}, service {}
              WebSocket on ws://localhost:{}/WebSocket
  operators   http://localhost:{}/status  /metrics  /health

Watch it in a second terminal:
  tickcast watch {other_host}BTCUSDT ETHUSDT
  tickcast watch {other_host}--book BTCUSDT        with the order book
  (from the project's folder: cargo run --release --bin tickcast -- watch ...)
Or connect any RSSL consumer to {host}, service {}. Ctrl-C ends the demo.
",
        names.join("\n              "),
        args.provider_port,
        args.rssl_port,
        config.feed.service,
        args.websocket_port,
        args.admin_port,
        config.feed.service,
    )
}

/// Shows what is counted until all is to stop, or a thread has ended.
fn show(stop: &Stop, registry: &Registry, repeats: bool, threads: &[Thread]) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    // A log need not have a line each second.
    let interval = Duration::from_secs(if is_terminal { 1 } else { 10 });
    let mut before = Counts::read(registry);
    while !stop.wait(interval) {
        if threads.iter().any(JoinHandle::is_finished) {
            return Ok(());
        }
        let now = Counts::read(registry);
        let line = now.line(&before, interval, repeats);
        before = now;
        lines::show(&line).map_err(Failure::Output)?;
    }
    if is_terminal {
        writeln!(io::stdout()).map_err(Failure::Output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        demo: DemoArgs,
    }

    fn demo(options: &[&str]) -> DemoArgs {
        let words = ["demo"].iter().chain(options);
        CommandLine::try_parse_from(words).unwrap_or_else(|e| panic!("{e}")).demo
    }

    /// What the system says when a port is asked for twice.
    fn taken() -> (u16, io::Error) {
        let first = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
        let port = first.local_addr().expect("it is bound").port();
        let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
        (port, net::tcp::listen(address).expect_err("it is taken"))
    }

    #[test]
    fn a_port_that_is_taken_comes_with_the_option_that_chooses_another() {
        for option in ["--rssl-port", "--provider-port", "--admin-port"] {
            let (port, error) = taken();
            let text = demo(&[option, &port.to_string()]).explain(error.into()).to_string();
            assert!(text.contains(&format!("cannot listen on 127.0.0.1:{port}: ")), "{text}");
            assert!(text.contains("Another demo or a server may hold that port"), "{text}");
            assert!(text.contains(&format!("; {option} PORT chooses")), "{text}");
        }
    }

    #[test]
    fn demos_on_other_ports_keep_to_themselves() {
        let port = |rssl_port: &str| demo(&["--rssl-port", rssl_port]).own_port(12_965);
        assert_eq!(["14002", "14003", "1", "65535"].map(port), [12_965, 12_966, 48_964, 14_498]);
        let of = |rssl_port| {
            configuration(&demo(&["--data", "x", "--backbone", "unicast", "--rssl-port", rssl_port]))
        };
        let [first, second] = ["14002", "15002"].map(|port| of(port).expect("a configuration"));
        assert_eq!((first.resolver.port, second.resolver.port), (15_380, 16_380));
        let known = &second.messaging.resolver.unicast_daemon;
        assert_eq!(known[..], [SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 16_380)]);
    }

    #[test]
    fn other_failures_stay_as_they_are() {
        let args = demo(&[]);
        let (_, error) = taken();
        let plain = Failure::from(io::Error::new(error.kind(), error.to_string())).to_string();
        assert_eq!(args.explain(error.into()).to_string(), plain, "a port that no option chooses");
        let denied =
            io::Error::new(io::ErrorKind::PermissionDenied, "cannot listen on 0.0.0.0:14002: denied");
        assert_eq!(
            args.explain(denied.into()).to_string(),
            "tickcast: cannot listen on 0.0.0.0:14002: denied"
        );
    }
}
