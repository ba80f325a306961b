//! Images: how long a consumer waits for all that it asks for, directly from a provider and through the servers,
//! while nothing else happens and while updates flow; and what those images do to the updates of somebody else.
//!
//! Three ways, the same consumer and messages: *direct* from an interactive provider of ours that has the images;
//! *cache*, a point-to-point server that has them because somebody else watches the items; *both servers*, where the
//! point-to-point server has to get each image from the source distributor first.

mod asker;
mod server;

pub(crate) use asker::asker;
pub(crate) use server::{ServerArgs, server};

use std::time::Duration;

use clap::{Args, ValueEnum};
use measure::{Runs, Summaries, Summary};
use serde_json::{Value, json};

use crate::end_to_end::{Daemons, Pacing, Placement, Settings};
use crate::options::Cpu;
use crate::process::Process;
use crate::report::{self, Report};
use crate::update::Profile;
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct ImagesArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Items that are published, and asked for at once.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: u32,
    /// Updates a second of these items meanwhile; 0 for none.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 10_000, 100_000])]
    rates: Vec<u64>,
    /// Which ways are measured; times stand beside those of the first.
    #[arg(long, value_delimiter = ',', default_values_t = [ImageSource::Direct, ImageSource::Cache, ImageSource::BothServers])]
    ways: Vec<ImageSource>,
    /// Items that another consumer watches, to see what the images do to its updates.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    steady: u32,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    settings: Settings,
}

impl ImagesArgs {
    fn cpu(&self, part: usize) -> Cpu {
        self.placement.cpu(part)
    }

    /// An end that provides the items.
    fn provider(&self, role: &str, port: &[String]) -> Result<Process, BenchError> {
        let items = ["--own".to_owned(), self.items.to_string()];
        Process::role(role, &[port, &items, &self.profile.args(), &self.cpu(0).args()].concat())
    }

    /// A consumer of the first so many items of a port.
    fn consumer(&self, role: &str, port: u16, items: u32) -> Result<Process, BenchError> {
        let args = ["--port".to_owned(), port.to_string(), "--own".to_owned(), items.to_string()];
        Process::role(role, &[&args[..], &self.cpu(3).args()].concat())
    }
}

/// Where the images come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImageSource {
    /// An interactive provider, to which the consumers connect.
    Direct,
    /// A point-to-point server that has them, since somebody watches all items.
    Cache,
    /// The source distributor, through a point-to-point server.
    BothServers,
}

impl std::fmt::Display for ImageSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ImageSource::Direct => "direct",
            ImageSource::Cache => "cache",
            ImageSource::BothServers => "both-servers",
        })
    }
}

/// For all images to be there once; far more than any run that is of use.
const LIMIT: Duration = Duration::from_secs(120);
/// Updates have flowed for so long before images are asked for.
const RUN_UP: Duration = Duration::from_millis(500);

/// The processes of one source of images: who publishes updates when asked to, and who watches some of the items.
struct ImagesContender {
    path: ImageSource,
    provider: Process,
    steady: Process,
    /// Somebody who watches all items, where the server is to have them.
    _holder: Option<Process>,
    asker: Process,
    daemons: Option<Daemons>,
}

impl ImagesContender {
    fn start(path: ImageSource, args: &ImagesArgs) -> Result<ImagesContender, BenchError> {
        if path == ImageSource::Direct {
            ImagesContender::direct(args)
        } else {
            ImagesContender::servers(path, args)
        }
    }

    fn direct(args: &ImagesArgs) -> Result<ImagesContender, BenchError> {
        let mut provider = args.provider("images-server", &[])?;
        let port = provider.expect("port", LIMIT)?["port"].as_u64().unwrap_or(0) as u16;
        ImagesContender::with(ImageSource::Direct, args, (provider, port), None)
    }

    fn servers(path: ImageSource, args: &ImagesArgs) -> Result<ImagesContender, BenchError> {
        // The server forgets what nobody watches, so that each run finds it as the first one did.
        let settings = args.settings.behind(["p2ps.item_linger_ms=0"]);
        let daemons = Daemons::start([args.cpu(1), args.cpu(2)], settings)?;
        let port = ["--port".to_owned(), daemons.provider_port()?.to_string()];
        let port = [&port[..], &Pacing::Sleep.args()].concat();
        let mut provider = args.provider("publisher", &port)?;
        provider.expect("ready", LIMIT)?;
        let port = daemons.rssl_port;
        ImagesContender::with(path, args, (provider, port), Some(daemons))
    }

    fn with(
        path: ImageSource,
        args: &ImagesArgs,
        (provider, port): (Process, u16),
        daemons: Option<Daemons>,
    ) -> Result<ImagesContender, BenchError> {
        let mut steady = args.consumer("consumer", port, args.steady.min(args.items))?;
        steady.expect("ready", LIMIT)?;
        let mut holder = None;
        if path == ImageSource::Cache {
            let all = holder.insert(args.consumer("consumer", port, args.items)?);
            all.expect("ready", LIMIT)?;
        }
        let asker = args.consumer("images-asker", port, args.items)?;
        Ok(ImagesContender { path, provider, steady, _holder: holder, asker, daemons })
    }

    /// The run before leaves the servers work: items that are wanted no more. It is not to count for the next one.
    fn rest(&mut self) -> Result<(), BenchError> {
        let Some(daemons) = &mut self.daemons else { return Ok(()) };
        daemons.server.rests(LIMIT)?;
        daemons.distributor.rests(LIMIT)
    }

    /// How long all images took, in nanoseconds.
    fn ask(&mut self) -> Result<u64, BenchError> {
        self.asker.tell(&json!({ "ask": true }))?;
        let answer = self.asker.expect("elapsed_ns", LIMIT)?;
        answer["elapsed_ns"].as_u64().ok_or_else(|| BenchError::new(format!("no time: {answer}")))
    }

    /// The same while updates flow, and what became of those of the steady consumer; or the updates alone.
    fn flow(&mut self, command: &Value, asks: bool) -> Result<(Option<u64>, Summary), BenchError> {
        self.provider.tell(command)?;
        let elapsed = if asks {
            std::thread::sleep(RUN_UP);
            Some(self.ask()?)
        } else {
            None
        };
        self.provider.expect("sent", LIMIT)?;
        let latencies = self.steady.expect("latencies", LIMIT)?["latencies"].clone();
        Ok((elapsed, serde_json::from_value(latencies)?))
    }
}

#[derive(Default)]
struct Figures {
    images: Runs,
    /// Updates of the steady consumer beside the images, and without them.
    beside: Summaries,
    alone: Summaries,
}

pub(crate) fn run(args: &ImagesArgs) -> Result<(), BenchError> {
    args.profile.check()?;
    let heads = ["way", "updates/s", "all images ms", "beside the first", "a steady consumer's updates"];
    let heads = [&heads[..], &report::LATENCY_HEADS].concat();
    let mut report = Report::new("images", args.options.json, &heads);
    for rate in &args.rates {
        let mut first = None;
        for path in &args.ways {
            report.progress(&format!("{path}, {rate}/s"));
            let mut contender = ImagesContender::start(*path, args)?;
            let figures = measure(args, &mut contender, *rate, &report)?;
            let beside = *first.get_or_insert(figures.images.median());
            figures.report(&mut report, *path, *rate, beside);
        }
    }
    report.note(format!(
        "{} items with {}; the time is from connecting to the last image. The steady consumer watches {} of the items.",
        args.items,
        args.profile.describe(),
        args.steady
    ));
    report.note(format!("Every update of the steady consumer is timed. {}", report::LATENCY_NOTE));
    report.print()
}

fn measure(
    args: &ImagesArgs,
    contender: &mut ImagesContender,
    rate: u64,
    report: &Report,
) -> Result<Figures, BenchError> {
    let mut figures = Figures::default();
    for run in 0..=args.options.runs {
        report.progress(&format!("{}, {rate}/s, run {run} of {}", contender.path, args.options.runs));
        contender.rest()?;
        if rate == 0 {
            let elapsed = contender.ask()?;
            if run > 0 {
                figures.images.add(elapsed as f64);
            }
            continue;
        }
        let seconds = args.options.seconds;
        let command = |n: u32| json!({ "run": n % 250 + 1, "rate": rate, "seconds": seconds });
        let (_, alone) = contender.flow(&command(2 * run), false)?;
        contender.rest()?;
        let (elapsed, beside) = contender.flow(&command(2 * run + 1), true)?;
        // The first one warms caches, buffers and routes.
        if run > 0 {
            figures.images.add(elapsed.unwrap_or(0) as f64);
            figures.beside.add(beside);
            figures.alone.add(alone);
        }
    }
    Ok(figures)
}

impl Figures {
    fn report(&self, report: &mut Report, path: ImageSource, rate: u64, first: f64) {
        let millis = |ns: f64| format!("{:.1}", ns / 1e6);
        let ratio = self.images.median() / first;
        let before = |steady: &str| {
            let images = report::spread(&self.images, millis);
            [path.to_string(), rate.to_string(), images, format!("{ratio:.2}"), steady.to_owned()]
        };
        let mut object = json!({
            "way": path.to_string(), "rate": rate, "images_ns": report::spread_json(&self.images), "to_first": ratio,
        });
        if rate == 0 {
            return report.row(before("-"), object);
        }
        let figure = |of: &Summaries, figure: fn(&Summary) -> u64| of.runs(|summary| figure(summary) as f64);
        let mut steady = report::latency_json(&self.beside, json!({}));
        let alone = report::latency_json(&self.alone, json!({}));
        steady["alone_p99_ns"] = report::spread_json(&figure(&self.alone, |summary| summary.p99_ns));
        steady["alone_max_ns"] = report::spread_json(&figure(&self.alone, |summary| summary.max_ns));
        steady["alone"] = alone;
        object["steady"] = steady;
        let cells = |of: &Summaries| report::latency_cells(of, report::micros);
        report.row(before("beside the images").into_iter().chain(cells(&self.beside)), object);
        report.continued(before("without images").into_iter().chain(cells(&self.alone)));
    }
}
