//! The workload producer-50-50: each of M mounts watches 100 items that all watch and 100 of its own. Half
//! of the updates go to common items, half to own ones, so that one update in leaves as (M + 1) / 2 updates
//! on average. Beside it, one thread that makes records itself, copies them to as many connections, and
//! writes: no protocol, no caches.

use clap::{Args, ValueEnum};

use super::contender::{self, FanOutContender, Setup};
use super::{EACH, OTHERS_CPU, SERVER_CPU, TlsDirectory, words};
use crate::chain::record_bytes;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, free_port};
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
    #[command(flatten)]
    profile: Profile,
    /// Measures the consumers beside others of the common items too: one that stands still, and ten that read a tenth
    /// of what comes.
    #[arg(long)]
    slow: bool,
    /// Compressions that are measured beside messages in clear.
    #[arg(long, value_delimiter = ',')]
    compression: Vec<Compression>,
    /// Measures TLS as well, with the certificate in this directory: ca.pem, server.pem, server.key, for
    /// localhost.
    #[arg(long, value_name = "DIR")]
    tls: Option<TlsDirectory>,
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// What consumers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Compression {
    Zlib,
    Lz4,
}

const RATES: [u64; 6] = [2_000, 10_000, 100_000, 200_000, 400_000, 600_000];

impl FanOutArgs {
    /// With every compression.
    pub(crate) fn new(options: RunOptions, tls: Option<TlsDirectory>) -> FanOutArgs {
        let (rates, compression) = (RATES.to_vec(), Compression::value_variants().to_vec());
        FanOutArgs {
            options,
            mounts: 100,
            each: EACH,
            rates,
            bursts: None,
            profile: Profile::default(),
            slow: false,
            compression,
            tls,
            set: Vec::new(),
        }
    }
}

pub(crate) fn run(args: &FanOutArgs) -> Result<(), BenchError> {
    args.profile.check()?;
    let mut report = contender::report("producer-50-50", &args.options);
    let mut contenders = vec![bare(args)?, tickcast(args, "tickcast", &[])?];
    if args.slow {
        contenders.push(beside_slow(args)?);
    }
    for compression in &args.compression {
        contenders.push(match compression {
            Compression::Zlib => tickcast(args, "tickcast, zlib", &["--compression", "zlib"])?,
            Compression::Lz4 => tickcast(args, "tickcast, LZ4", &["--compression", "lz4"])?,
        });
    }
    if let Some(tls) = &args.tls {
        contenders.push(encrypted(args, tls)?);
    }
    contender::compare(contenders, (&args.rates, args.bursts), &args.options, &mut report)?;
    let bursts = args.bursts.map_or(String::new(), |bursts| format!(", sent in {bursts} bursts a second"));
    let (each, profile) = (args.each, args.profile.describe());
    report.note(format!("Each consumer watches {each} common and {each} own items with {profile}{bursts}."));
    report.print()
}

fn tickcast(args: &FanOutArgs, name: &'static str, sink: &[&str]) -> Result<FanOutContender, BenchError> {
    FanOutContender::tickcast(setup(args, name, words(sink)))
}

/// Readers that do not keep up.
const FROZEN: u32 = 1;
const SLOW: u32 = 10;
/// What a slow one reads of what comes.
const SLOW_PART: f64 = 0.1;

fn beside_slow(args: &FanOutArgs) -> Result<FanOutContender, BenchError> {
    let mut setup = setup(args, "tickcast, beside slow", Vec::new());
    // As the documents recommend it; bounds that are given by --set come later and count.
    let ladder = [
        "p2ps.conflate_above_bytes=8388608",
        "p2ps.conflate_above_ms=5000",
        "p2ps.rssl.ping_timeout_max_s=255",
    ]
    .map(str::to_owned);
    setup.sets = [&ladder[..], &setup.sets].concat();
    let of = |name: &str, count: u32| [format!("--{name}"), count.to_string()];
    let words = [of("common", args.each), of("frozen", FROZEN), of("slow", SLOW)].concat();
    // Half of the updates are of common items.
    setup.slow = Some((words, record_bytes(args.profile) as f64 / 2.0 * SLOW_PART));
    FanOutContender::tickcast(setup)
}

fn encrypted(args: &FanOutArgs, tls: &TlsDirectory) -> Result<FanOutContender, BenchError> {
    let (port, setup) = (free_port()?, setup(args, "tickcast, TLS", tls.args()));
    let sets = [setup.sets, tls.sets("p2ps.rssl", port)].concat();
    FanOutContender::tickcast(Setup { sets, port: Some(port), ..setup })
}

fn setup(args: &FanOutArgs, name: &'static str, sink: Vec<String>) -> Setup {
    let items = Setup::items(args.each, args.mounts, args.each);
    let sink = ("mounts", [items.clone(), sink].concat());
    let items = [items, args.profile.args()].concat();
    // All of them come from one address, with the slow ones.
    let connections = args.mounts + 100;
    let bounds = ["connections_max", "connections_per_address_max"];
    let bounds = bounds.map(|bound| format!("p2ps.rssl.{bound}={connections}"));
    let sets = [&bounds[..], &args.set].concat();
    Setup { name, copies: copies(args), items, sets, sink, port: None, slow: None }
}

fn copies(args: &FanOutArgs) -> f64 {
    f64::from(args.mounts + 1) / 2.0
}

fn bare(args: &FanOutArgs) -> Result<FanOutContender, BenchError> {
    let mounts = [words(&["--mounts", &args.mounts.to_string()]), args.profile.args()].concat();
    let mut server =
        Process::role("bare-server", &[&mounts[..], &Cpu::on(Some(SERVER_CPU)).args()].concat())?;
    let port = server.expect("port", START_LIMIT)?["port"].to_string();
    let sink = [words(&["--port", &port]), mounts, Cpu::on(Some(OTHERS_CPU)).args()].concat();
    let mut sink = Process::role("bare-mounts", &sink)?;
    sink.expect("ready", START_LIMIT)?;
    server.expect("ready", START_LIMIT)?;
    Ok(FanOutContender {
        name: "bare",
        copies: copies(args),
        publisher: None,
        server,
        sink,
        _distributor: None,
        slow: None,
    })
}
