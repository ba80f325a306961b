//! `tickcast watch`: the native client in a terminal, or as lines of JSON.

mod item;
mod json;
mod plain;
mod screen;
mod session;
mod source;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

use client::{
    ClientTlsConfig, Compression, ConsumerConfig, ConsumerEvent, HostPort, ItemRequestSpec, StandbyMode,
    StandbyServerConfig, WarmStandbyConfig, WebSocketConfig,
};
use net::clock;
use rwf::{Qos, Rate};
use units::Nanos;

use self::item::{Watched, WatchedName};
use self::session::Session;
use self::source::Source;
use crate::failure::Failure;
use crate::host::Stop;
use crate::terminal::Style;

/// What to watch and how to show it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast watch BTCUSDT ETHUSDT             quotes and trades, live
  tickcast watch --book BTCUSDT              with the order book
  tickcast watch --json 8:BTCUSDT            every event of the book as a line of JSON
  tickcast watch --snapshot --json BTCUSDT   one image, then the end; exit status 1 if it does not come
  tickcast watch --host a:14002 --standby b:14002 BTCUSDT
                                             from a; from b as soon as a is lost

Exit status: 0 done; 1 no server was reached, an item was closed or its image did not come in time;
2 wrong usage.")]
pub(crate) struct WatchArgs {
    /// Items: NAME for a price, DOMAIN:NAME for another domain by its number (8:BTCUSDT is the book by
    /// price).
    #[arg(required = true, value_name = "ITEM")]
    items: Vec<WatchedName>,
    /// Servers, tried in turn.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:14002")]
    host: Vec<HostPort>,
    /// A server that stands by, with a session of its own, and takes over at once when the active one is
    /// lost; several in the order in which they take over.
    #[arg(long, value_name = "HOST:PORT")]
    standby: Vec<HostPort>,
    /// What of a server is lost together: all of it with its login, or each service by itself.
    #[arg(long, value_parser = ["login", "service"], default_value = "login", requires = "standby")]
    standby_mode: String,
    /// The service that has the items.
    #[arg(long, value_name = "NAME", default_value = "BINANCE")]
    service: String,
    /// The user to log in as; the user of this process if it is not given.
    #[arg(long, value_name = "NAME", default_value = "")]
    user: String,
    /// Speaks JSON over WebSocket in place of RSSL; give the server's WebSocket port.
    #[arg(long)]
    websocket: bool,
    /// Asks for compressed connections.
    #[arg(long, value_parser = ["zlib", "lz4"])]
    compression: Option<String>,
    /// Encrypted connections, to servers whose certificate is of an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<String>,
    /// Watches the book by price (domain 8) of each item as well.
    #[arg(long)]
    book: bool,
    /// Fields to show, by name; the most usual ones if none is given.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    fields: Vec<String>,
    /// Prints one JSON object a line for each event, and at the end the final image of each item.
    #[arg(long)]
    json: bool,
    /// Asks for at most so many updates of each item in a second, with the newest values, in place of every update. The
    /// server gives the nearest lower rate that it offers (p2ps.conflated_intervals_ms).
    #[arg(long, value_name = "PER_SECOND", value_parser = rate, conflicts_with = "snapshot")]
    rate: Option<f64>,
    /// Asks for images without updates, and ends when all have come.
    #[arg(long)]
    snapshot: bool,
    /// Ends when all images have come and then nothing for so many milliseconds.
    #[arg(long, value_name = "MS")]
    until_idle: Option<u64>,
    /// Ends after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    run_for: Option<f64>,
    /// How many seconds the images may take to come, with --snapshot or --until-idle.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    timeout: f64,
}

/// How events are shown.
trait View {
    /// Something happened.
    fn on_event(
        &mut self,
        event: &ConsumerEvent<'_>,
        items: &[Watched],
        out: &mut dyn Write,
    ) -> io::Result<()>;
    /// Something that the user should know.
    fn on_hint(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()>;
    /// All events of a turn have been shown.
    fn on_turn(
        &mut self,
        now: Nanos,
        items: &[Watched],
        consumer: &Source,
        out: &mut dyn Write,
    ) -> io::Result<()>;
    /// When [`View::on_turn`] is wanted though nothing happens.
    fn next_wakeup(&self) -> Nanos;
    /// The end.
    fn on_end(&mut self, items: &[Watched], consumer: &Source, out: &mut dyn Write) -> io::Result<()>;
}

pub(crate) fn run(args: &WatchArgs) -> Result<(), Failure> {
    let stop = Stop::default();
    stop.end_on_signals()?;
    let config = ConsumerConfig {
        hosts: args.host.clone(),
        user: args.user.clone(),
        compression: args.compression.as_deref().map(|name| match name {
            "lz4" => Compression::Lz4,
            _ => Compression::Zlib,
        }),
        websocket: args.websocket.then(WebSocketConfig::default),
        tls: args.tls_ca.clone().map(|ca_file| ClientTlsConfig { ca_file, ..ClientTlsConfig::default() }),
        application_name: "tickcast watch".to_owned(),
        keep_images: true,
        ..ConsumerConfig::default()
    };
    let mut consumer = Source::new(&config, &standby(args)).map_err(|e| Failure::Config(e.to_string()))?;
    let mut items = subscribe(args, &mut consumer)?;
    let style = Style::of_environment();
    let mut view: Box<dyn View> = match args.json {
        true => Box::new(json::JsonLines::new(&args.fields)),
        false if io::stdout().is_terminal() && style.moves => Box::new(screen::Screen::new(args, style)),
        false => Box::new(plain::PlainLines::new(&args.fields)),
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut session = Session::new(&args.service);
    let watched = (&mut consumer, &mut items[..], &mut session);
    let result = watch(args, &stop, watched, &mut *view, &mut out);
    match result {
        // Whoever read the output has seen enough.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        result => result?,
    }
    consumer.close();
    session.verdict().and_then(|()| verdict(args, &items))
}

/// Updates in a second.
fn rate(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.parse().map_err(|_| "a number of updates in a second, such as 2 or 0.5".to_owned())?;
    let is_possible = (0.02..=1_000.0).contains(&number);
    is_possible.then_some(number).ok_or_else(|| "from 0.02 to 1000 updates in a second".to_owned())
}

fn standby(args: &WatchArgs) -> WarmStandbyConfig {
    let server = |host: &HostPort| StandbyServerConfig { hosts: vec![host.clone()], services: Vec::new() };
    WarmStandbyConfig {
        servers: args.standby.iter().map(server).collect(),
        mode: if args.standby_mode == "service" { StandbyMode::Service } else { StandbyMode::Login },
        ..WarmStandbyConfig::default()
    }
}

fn subscribe(args: &WatchArgs, consumer: &mut Source) -> Result<Vec<Watched>, Failure> {
    let books = args.items.iter().filter(|_| args.book).map(WatchedName::book);
    let mut names: Vec<WatchedName> = args.items.iter().cloned().chain(books).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    let mut items = Vec::new();
    let rate = |interval_ms| Qos { rate: Rate::TimeConflated(interval_ms), ..Qos::REAL_TIME };
    let interval_ms = args.rate.map(|rate| (1_000.0 / rate).ceil().min(f64::from(u16::MAX)) as u16);
    for (tag, name) in names.into_iter().enumerate() {
        let spec = ItemRequestSpec {
            domain: name.domain,
            streaming: !args.snapshot,
            tag: tag as u64,
            qos: interval_ms.map(rate),
            worst_qos: interval_ms.map(|_| rate(u16::MAX)),
            ..ItemRequestSpec::new(&args.service, &name.name)
        };
        let handle =
            consumer.subscribe_with(&spec).map_err(|e| Failure::Config(format!("item {name}: {e}")))?;
        items.push(Watched::new(name, handle));
    }
    Ok(items)
}

fn watch(
    args: &WatchArgs,
    stop: &Stop,
    (consumer, items, session): (&mut Source, &mut [Watched], &mut Session),
    view: &mut dyn View,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let start = clock::monotonic();
    let ends_at = args.run_for.map_or(Nanos::NEVER, |s| start.after(seconds(s)));
    let wants_images = args.snapshot || args.until_idle.is_some();
    let images_due = if wants_images { start.after(seconds(args.timeout)) } else { Nanos::NEVER };
    let mut last_event = start;
    while !stop.is_set() && !consumer.is_stopped() {
        let now = clock::monotonic();
        let is_whole = items.iter().all(Watched::is_answered);
        let idle_at = match args.until_idle {
            Some(ms) if is_whole => last_event.after(Duration::from_millis(ms)),
            _ => Nanos::NEVER,
        };
        let is_done = args.snapshot && is_whole;
        if is_done || now >= ends_at || now >= idle_at || (!is_whole && now >= images_due) {
            break;
        }
        let until = ends_at.min(idle_at).min(if is_whole { Nanos::NEVER } else { images_due });
        let timeout = until.min(view.next_wakeup()).since(now).min(LOOK_UP);
        let mut shown = Ok(());
        consumer.dispatch(timeout, &mut |event: ConsumerEvent<'_>| {
            if let ConsumerEvent::Item(event) = &event {
                items[event.tag() as usize].on_event(event);
                last_event = clock::monotonic();
            }
            session.on_event(&event);
            if shown.is_ok() {
                shown = view.on_event(&event, items, out);
            }
        })?;
        if let Some(hint) = session.hint() {
            shown = shown.and_then(|()| view.on_hint(&hint, out));
        }
        shown
            .and_then(|()| view.on_turn(clock::monotonic(), items, consumer, out))
            .and_then(|()| out.flush())
            .map_err(Failure::Output)?;
    }
    view.on_end(items, consumer, out).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// How often a waiting loop looks whether it is to stop.
const LOOK_UP: Duration = Duration::from_millis(100);

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

fn verdict(args: &WatchArgs, items: &[Watched]) -> Result<(), Failure> {
    let wants_images = args.snapshot || args.until_idle.is_some();
    let failed: Vec<String> = items
        .iter()
        .filter(|item| item.is_closed || (wants_images && !item.has_image))
        .map(|item| format!("{}: {}", item.name, item.state))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Run(format!("without an image: {}", failed.join("; "))))
    }
}
