//! The workload producer-50-50: each of M mounts watches 100 items that all watch and 100 of its own. Half
//! of the updates go to common items, half to own ones, so that one update in leaves as (M + 1) / 2 updates
//! on average. Several servers, fed by one source distributor, share the mounts. Beside them, as many threads that make
//! records themselves, copy them to as many connections, and write: no protocol, no caches.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::contender::{Cpus, FanOutContender, Setup, Share, Sink, shares};
use super::figures::{Candidate, Plan};
use super::mounts::TIME_EVERY;
use super::{EACH, OTHERS_CPU, SERVER_CPU, TlsDirectory, words};
use crate::chain::record_bytes;
use crate::decode::DecodeArgs;
use crate::end_to_end::{Cache, Carrier, Items, Settings};
use crate::every::TimeEvery;
use crate::nats_server;
use crate::process::{Process, START_LIMIT, free_port};
use crate::search::SearchArgs;
use crate::update::Profile;
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct FanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Consumers.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    mounts: u32,
    /// Items of each kind that a consumer watches: so many that all watch, and so many of its own.
    #[arg(long, default_value_t = EACH, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    each: u32,
    /// Updates a second into the system. A contender that does not get them through in time is asked for no more.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Sends the updates in so many bursts a second: those of a burst are meant to leave together. Without it they are spread
    /// evenly.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bursts: Option<u32>,
    /// Point-to-point servers, a process each, fed by one source distributor. The consumers are spread evenly over them, and
    /// those of each server have a process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    servers: u32,
    /// What feeds the servers that are measured: the source distributor, or another point-to-point server, whose clients they
    /// are.
    #[arg(long, value_delimiter = ',', default_values_t = [FanOutLayout::Lan])]
    layouts: Vec<FanOutLayout>,
    /// Whether the servers keep images. If one of them is `off`, the publisher is an interactive provider, which can be
    /// asked for images, and the source distributor dials it.
    #[arg(long, value_delimiter = ',', default_values_t = [Cache::On])]
    cache: Vec<Cache>,
    /// What carries the backbone.
    #[arg(long, default_value_t = Carrier::Multicast)]
    backbone: Carrier,
    /// The program for the backbone `nats`; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    time_every: TimeEvery,
    /// Measures the consumers beside others of the common items too: one that stands still, and ten that read a tenth
    /// of what comes.
    #[arg(long, conflicts_with = "servers")]
    slow: bool,
    /// Compressions that are measured beside messages in clear.
    #[arg(long, value_delimiter = ',')]
    compression: Vec<Compression>,
    /// Measures TLS as well, with the certificate in this directory: ca.pem, server.pem, server.key, for
    /// localhost.
    #[arg(long, value_name = "DIR", conflicts_with = "servers")]
    tls: Option<TlsDirectory>,
    /// CPUs of the servers that are measured, in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [SERVER_CPU], value_name = "CPU")]
    server_cpus: Vec<usize>,
    /// CPUs of everything else: publisher and source distributor have the first one, and the processes of consumers all of
    /// them, in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [OTHERS_CPU], value_name = "CPU")]
    other_cpus: Vec<usize>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    settings: Settings,
}

/// What feeds the servers that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FanOutLayout {
    /// The backbone.
    Lan,
    /// Another point-to-point server: they are points of presence.
    Pop,
}

impl std::fmt::Display for FanOutLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == FanOutLayout::Lan { "lan" } else { "pop" })
    }
}

/// What consumers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Compression {
    Zlib,
    Lz4,
}

const RATES: [u64; 6] = [2_000, 10_000, 100_000, 200_000, 400_000, 600_000];

impl FanOutArgs {
    fn is_interactive(&self) -> bool {
        self.cache.contains(&Cache::Off)
    }

    fn items(&self) -> Items {
        Items { common: self.each, mounts: self.mounts, own: self.each }
    }

    fn cpus(&self) -> Cpus {
        Cpus { servers: self.server_cpus.clone(), others: self.other_cpus.clone() }
    }

    fn check(&self) -> Result<(), BenchError> {
        self.profile.check()?;
        if self.servers > self.mounts {
            let text = format!(
                "--servers: 1 to {}, as many as there are --mounts, not {}",
                self.mounts, self.servers
            );
            return Err(BenchError::new(text));
        }
        if self.is_interactive() && !self.profile.is_published() {
            let text = "--cache off: the interactive publisher has updates of 74 bytes of payload alone, without --payload, \
                        --image-fields and --update-fields";
            return Err(BenchError::new(text));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let bursts =
            self.bursts.map_or(String::new(), |bursts| format!(", sent in {bursts} bursts a second"));
        let (each, profile) = (self.each, self.profile.describe());
        let publisher = if self.is_interactive() { "an interactive" } else { "a non-interactive" };
        let servers = match self.servers {
            1 => String::new(),
            servers => format!(
                " {servers} servers share {} consumers; server CPU is that of all, and JSON has each server.",
                self.mounts
            ),
        };
        vec![
            format!(
                "Each consumer watches {each} common and {each} own items with {profile}{bursts}. Publisher: {publisher} provider; \
                 backbone: {}.{servers} {}",
                self.backbone,
                self.decode.describe()
            ),
            self.time_every.describe(TIME_EVERY),
        ]
    }
}

pub(crate) fn run(args: &FanOutArgs) -> Result<(), BenchError> {
    args.check()?;
    let plan = Plan {
        rates: &args.rates,
        bursts: args.bursts,
        options: args.options,
        search: args.search,
        cpus: args.cpus(),
    };
    plan.run(&candidates(args), args.notes(), plan.report("producer-50-50"))
}

/// What is compared, in its order.
fn candidates(args: &FanOutArgs) -> Vec<Candidate<'_>> {
    let mut all = vec![Candidate::new("bare", move || bare(args))];
    for layout in &args.layouts {
        for cache in &args.cache {
            let of = (*layout, *cache);
            all.push(Candidate::new(&name(of.0, of.1), move || {
                FanOutContender::tickcast(&setup(args, of, "", Vec::new())?)
            }));
        }
    }
    let first = (args.layouts[0], args.cache[0]);
    let plain = name(first.0, first.1);
    if args.slow {
        let start = move || FanOutContender::tickcast(&beside_slow(args, first)?);
        all.push(Candidate::new(&(plain.clone() + BESIDE_SLOW), start));
    }
    for compression in &args.compression {
        let (suffix, word) = match compression {
            Compression::Zlib => (", zlib", "zlib"),
            Compression::Lz4 => (", LZ4", "lz4"),
        };
        all.push(Candidate::new(&(plain.clone() + suffix), move || {
            let sink = words(&["--compression", word]);
            FanOutContender::tickcast(&setup(args, first, suffix, sink)?)
        }));
    }
    if let Some(tls) = &args.tls {
        let start = move || FanOutContender::tickcast(&encrypted(args, first, tls)?);
        all.push(Candidate::new(&(plain + TLS), start));
    }
    all
}

fn name(layout: FanOutLayout, cache: Cache) -> String {
    let pop = if layout == FanOutLayout::Pop { ", pop" } else { "" };
    let cache = if cache == Cache::Off { ", cache off" } else { "" };
    format!("tickcast{pop}{cache}")
}

const BESIDE_SLOW: &str = ", beside slow";
const TLS: &str = ", TLS";
/// Readers that do not keep up.
const FROZEN: u32 = 1;
const SLOW: u32 = 10;
/// What a slow one reads of what comes.
const SLOW_PART: f64 = 0.1;

fn beside_slow(args: &FanOutArgs, of: (FanOutLayout, Cache)) -> Result<Setup, BenchError> {
    let mut setup = setup(args, of, BESIDE_SLOW, Vec::new())?;
    // As the documents recommend it; bounds that are given by --set come later and count.
    let ladder = [
        "p2ps.conflate_above_bytes=8388608",
        "p2ps.conflate_above_ms=5000",
        "p2ps.rssl.ping_timeout_max_s=255",
    ];
    setup.settings = setup.settings.behind(ladder);
    let number = |name: &str, count: u32| [format!("--{name}"), count.to_string()];
    let words = [number("common", args.each), number("frozen", FROZEN), number("slow", SLOW)].concat();
    // Half of the updates are of common items.
    setup.slow = Some((words, record_bytes(args.profile) as f64 / 2.0 * SLOW_PART));
    Ok(setup)
}

fn encrypted(args: &FanOutArgs, of: (FanOutLayout, Cache), tls: &TlsDirectory) -> Result<Setup, BenchError> {
    let (port, setup) = (free_port()?, setup(args, of, TLS, tls.args())?);
    let settings = setup.settings.behind(tls.sets("p2ps.rssl", port));
    Ok(Setup { settings, port: Some(port), ..setup })
}

fn setup(
    args: &FanOutArgs,
    (layout, cache): (FanOutLayout, Cache),
    suffix: &str,
    sink: Vec<String>,
) -> Result<Setup, BenchError> {
    let reading = [
        args.items().args(),
        args.time_every.args(TIME_EVERY),
        args.decode.args(),
        args.profile.args(),
        sink,
    ];
    // All of them come from one address, with the slow ones.
    let connections = args.mounts + 100;
    let bounds = ["connections_max", "connections_per_address_max"];
    let bounds = bounds.map(|bound| format!("p2ps.rssl.{bound}={connections}"));
    let nats_server = nats_server::find(args.nats_server.as_deref());
    Ok(Setup {
        name: name(layout, cache) + suffix,
        copies: copies(args),
        items: args.items(),
        profile: args.profile,
        is_interactive: args.is_interactive(),
        settings: args.settings.behind(bounds),
        carrier: args.backbone,
        nats_server,
        cache,
        is_pop: layout == FanOutLayout::Pop,
        shares: shares(args.mounts, args.servers),
        cpus: args.cpus(),
        sink: Sink { role: "mounts", of_share, args: reading.concat() },
        port: None,
        slow: None,
    })
}

/// The mounts of one server, as arguments.
fn of_share(share: Share) -> Vec<String> {
    words(&["--first", &share.first.to_string(), "--here", &share.here.to_string()])
}

fn copies(args: &FanOutArgs) -> f64 {
    f64::from(args.mounts + 1) / 2.0
}

fn bare(args: &FanOutArgs) -> Result<FanOutContender, BenchError> {
    let (mut servers, mut sinks) = (Vec::new(), Vec::new());
    let (cpus, profile) = (args.cpus(), args.profile.args());
    for (at, share) in shares(args.mounts, args.servers).into_iter().enumerate() {
        let all = words(&["--mounts", &args.mounts.to_string()]);
        let own = [all, of_share(share), profile.clone(), cpus.server(at).args()].concat();
        let mut server = Process::role("bare-server", &own)?;
        let port = server.expect("port", START_LIMIT)?["port"].to_string();
        let mounts = words(&["--port", &port, "--mounts", &share.here.to_string()]);
        let looks = args.time_every.args(TIME_EVERY);
        let sink = [mounts, looks, profile.clone(), cpus.other(at).args()].concat();
        let mut sink = Process::role("bare-mounts", &sink)?;
        sink.expect("ready", START_LIMIT)?;
        server.expect("ready", START_LIMIT)?;
        servers.push(server);
        sinks.push(sink);
    }
    Ok(FanOutContender {
        name: "bare".to_owned(),
        copies: copies(args),
        sinks,
        publisher: None,
        servers,
        feeding: Vec::new(),
        _backbone: None,
        slow: None,
    })
}
