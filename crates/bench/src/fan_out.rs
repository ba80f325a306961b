//! One point-to-point server and many consumers: how many updates a second leave one thread.
//!
//! The workload is producer-50-50: each of M mounts watches 100 items that all watch and 100 of its own. Half of the
//! updates go to common items, half to own ones, so that one update in leaves as (M + 1) / 2 updates on average.

use std::net::{Ipv4Addr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use counters::table::RsslConnections;
use measure::{Latencies, Runs};
use net::tcp::Moved;
use net::{Interest, Poller, Token, clock, tcp};
use rdm::ToVec;
use rdm::item::{ItemKey, ItemRequest};
use rdm::login::LoginRequest;
use rssl::{ClientConfig, ClientConnection, ClientParams, Handler, Outbound, Session, Stop};
use rwf::{Domain, Msg};
use serde_json::{Value, json};

use crate::end_to_end::{Daemons, Items, START_LIMIT};
use crate::process::{Process, answer};
use crate::report::{self, Report};
use crate::role::Cpu;
use crate::{BenchError, RunOptions, update};

#[derive(Debug, Args)]
pub struct FanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Consumers.
    #[arg(long, default_value_t = 100)]
    mounts: u32,
    /// Updates a second into the system, raised until they do not all get through.
    #[arg(long, value_delimiter = ',', default_values_t = [50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000])]
    rates: Vec<u64>,
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl FanOutArgs {
    pub(crate) fn new(options: RunOptions) -> FanOutArgs {
        let rates = vec![50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000];
        FanOutArgs { options, mounts: 100, rates, set: Vec::new() }
    }
}

/// Items of each kind that a mount watches.
const EACH: u32 = 100;
/// As the publisher numbers its service.
const SERVICE_ID: u16 = 1;
/// The server has one CPU, everything else the other.
const SERVER_CPU: usize = 1;
const OTHERS_CPU: usize = 0;
/// A run is sustained if its last update comes within this time after it was meant to be sent.
const LATE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &FanOutArgs) -> Result<(), BenchError> {
    let heads =
        ["updates/s in", "updates/s out", "server CPU", "ns/update out", "p50 us", "p99 us", "sustained"];
    let mut report = Report::new("producer-50-50", args.options.json, &heads);
    let others = Cpu::on(Some(OTHERS_CPU));
    let daemons = Daemons::start([others, Cpu::on(Some(SERVER_CPU))], &args.set)?;
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let (common, mounts) = (EACH.to_string(), args.mounts.to_string());
    let items = words(&["--common", &common, "--mounts", &mounts, "--own", &common]);
    let publisher = words(&["--port", &daemons.provider_port.to_string(), "--pacing", "sleep"]);
    let mut publisher = Process::role("publisher", &[publisher, items.clone(), others.args()].concat())?;
    publisher.expect("ready", START_LIMIT)?;
    let sink = words(&["--port", &daemons.rssl_port.to_string()]);
    let mut sink = Process::role("mounts", &[sink, items, others.args()].concat())?;
    sink.expect("ready", START_LIMIT)?;

    for rate in &args.rates {
        let (mut out, mut load, mut cost) = (Runs::default(), Runs::default(), Runs::default());
        let (mut p50, mut p99, mut sustained) = (Runs::default(), Runs::default(), 0);
        for run in 0..args.options.runs {
            let command = json!({ "run": run + 1, "rate": rate, "seconds": args.options.seconds });
            let (start, cpu_before) = (clock::monotonic(), daemons.server.cpu_time()?);
            publisher.tell(&command)?;
            let limit = Duration::from_secs_f64(args.options.seconds * 4.0 + 20.0);
            let sent = publisher.expect("sent", limit)?["sent"].as_f64().unwrap_or(0.0);
            let seen = sink.expect("run", limit)?;
            let seconds = clock::monotonic().since(start).as_secs_f64();
            let busy = (daemons.server.cpu_time()? - cpu_before).as_secs_f64();
            let count = seen["updates"].as_f64().unwrap_or(0.0);
            let expected = sent * f64::from(args.mounts + 1) / 2.0;
            if (count - expected).abs() > f64::from(args.mounts) {
                return Err(BenchError::new(format!(
                    "{expected} updates expected at {rate}/s, {count} received"
                )));
            }
            let number = |key: &str| seen[key].as_f64().unwrap_or(0.0);
            out.add(count / seconds.max(args.options.seconds));
            load.add(busy / seconds);
            cost.add(busy * 1e9 / count);
            p50.add(number("p50_ns"));
            p99.add(number("p99_ns"));
            sustained += u32::from(number("last_ns") < LATE.as_nanos() as f64);
        }
        let cells = [
            rate.to_string(),
            report::spread(&out, report::millions),
            format!("{:.0} %", load.median() * 100.0),
            report::spread(&cost, report::one_decimal),
            report::micros(p50.median()),
            report::micros(p99.median()),
            format!("{sustained} of {}", args.options.runs),
        ];
        let object = json!({
            "rate": rate, "out_per_s": report::spread_json(&out), "server_load": report::spread_json(&load),
            "ns_per_update": report::spread_json(&cost), "p50_ns": report::spread_json(&p50),
            "p99_ns": report::spread_json(&p99), "sustained": sustained,
        });
        report.row(cells, object);
        if sustained == 0 {
            break;
        }
    }
    report.print();
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct MountsArgs {
    #[arg(long)]
    port: u16,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    cpu: Cpu,
}

/// One consumer: it counts updates, and looks at the time of one of 64.
struct Mount {
    stream: TcpStream,
    connection: ClientConnection,
    reader: Reader,
}

struct Reader {
    number: u32,
    items: Items,
    images: u32,
    updates: u64,
    latencies: Latencies,
    last_ns: u64,
    has_ended: bool,
}

/// One of so many updates is looked into.
const SAMPLE: u64 = 64;

impl Handler for Reader {
    fn on_connected(&mut self, _: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop> {
        push(out, &LoginRequest::consumer(b"bench"))
    }

    #[inline]
    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        if !update::is_update(message) {
            return self.on_other(message, out);
        }
        self.updates += 1;
        if update::ends_run(message) {
            self.updates -= 1;
            self.has_ended = true;
            self.last_ns = self.age_ns(message);
        } else if self.updates.is_multiple_of(SAMPLE) {
            let age_ns = self.age_ns(message);
            self.latencies.record(age_ns);
        }
        ControlFlow::Continue(())
    }
}

impl Reader {
    fn on_other(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        let Ok(Msg::Refresh(refresh)) = Msg::parse(message) else { return ControlFlow::Continue(()) };
        if refresh.domain == Domain::LOGIN {
            return self.request_items(out);
        }
        self.images += 1;
        ControlFlow::Continue(())
    }

    fn request_items(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        let common = (0..self.items.common).map(Items::common_name);
        let own = (0..self.items.own).map(|n| Items::own_name(self.number, n));
        for (name, stream_id) in common.chain(own).zip(5..) {
            let key = ItemKey::new(SERVICE_ID, name.as_bytes());
            push(out, &ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, key))?;
        }
        ControlFlow::Continue(())
    }

    fn age_ns(&self, message: &[u8]) -> u64 {
        let stamps = update::payload(message).and_then(update::stamps);
        stamps.map_or(0, |(intended, _)| clock::monotonic().since(intended).as_nanos() as u64)
    }
}

fn push(out: &mut Outbound, message: &impl ToVec) -> ControlFlow<Stop> {
    match message.to_vec() {
        Ok(bytes) => match out.push(&bytes) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error.into()),
        },
        Err(_) => ControlFlow::Break(Stop::Application),
    }
}

impl Mount {
    fn connect(args: &MountsArgs, number: u32, params: &Arc<ClientParams>) -> Result<Mount, BenchError> {
        let stream = connect(args.port)?;
        let counters = Arc::new(RsslConnections::default());
        let version = params.config().version_max;
        let connection = ClientConnection::new(clock::monotonic(), params, &counters, version, number.into());
        let reader = Reader {
            number,
            items: args.items,
            images: 0,
            updates: 0,
            latencies: Latencies::default(),
            last_ns: 0,
            has_ended: false,
        };
        Ok(Mount { stream, connection, reader })
    }

    /// Reads what there is, and writes what there is to say.
    fn turn(&mut self, bytes: &mut [u8]) -> Result<(), BenchError> {
        loop {
            match tcp::read(&self.stream, bytes)? {
                Moved::Bytes(count) => {
                    let taken =
                        self.connection.on_bytes(clock::monotonic(), &bytes[..count], &mut self.reader);
                    taken.map_err(|reason| BenchError::new(format!("a mount was lost: {reason}")))?;
                    if count < bytes.len() {
                        break;
                    }
                }
                Moved::WouldBlock => break,
                Moved::End => return Err(BenchError::new("the server has ended a mount's connection")),
            }
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), BenchError> {
        loop {
            let pending = self.connection.outbound().flush();
            if pending.is_empty() {
                return Ok(());
            }
            match tcp::write(&self.stream, pending)? {
                Moved::Bytes(count) => self.connection.outbound().consume(count),
                Moved::WouldBlock | Moved::End => return Ok(()),
            }
        }
    }

    fn on_wakeup(&mut self) -> Result<(), BenchError> {
        let now = clock::monotonic();
        if self.connection.next_wakeup() <= now {
            let goes_on = self.connection.on_wakeup(now);
            goes_on.map_err(|reason| BenchError::new(format!("a mount was lost: {reason}")))?;
        }
        self.write()
    }
}

/// The server may still be starting.
fn connect(port: u16) -> Result<TcpStream, BenchError> {
    let deadline = clock::monotonic().after(START_LIMIT);
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if clock::monotonic() > deadline => return Err(error.into()),
            Err(_) => clock::sleep_until(clock::monotonic().after(Duration::from_millis(20))),
        }
    }
}

const READ_BYTES: usize = 256 << 10;
/// How often timers are looked at.
const LOOK_UP: Duration = Duration::from_millis(500);

pub(crate) fn mounts(args: &MountsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let params = Arc::new(ClientConfig::default().check()?);
    let mut poller = Poller::new()?;
    let mut mounts = Vec::new();
    for number in 0..args.items.mounts {
        let mut mount = Mount::connect(args, number, &params)?;
        poller.registrar().add(&mount.stream, Token(u64::from(number)), Interest::Read)?;
        mount.write()?;
        mounts.push(mount);
    }
    let (mut bytes, mut due, mut is_ready) = (vec![0; READ_BYTES], clock::monotonic(), false);
    let each = args.items.common + args.items.own;
    let mut run = 0;
    loop {
        let ready: Vec<usize> = poller.wait(Some(LOOK_UP))?.map(|ready| ready.token.0 as usize).collect();
        for at in ready {
            mounts[at].turn(&mut bytes)?;
        }
        if clock::monotonic() >= due {
            due = clock::monotonic().after(LOOK_UP);
            mounts.iter_mut().try_for_each(Mount::on_wakeup)?;
        }
        if !is_ready && mounts.iter().all(|m| m.reader.images >= each) {
            is_ready = true;
            answer(&json!({ "ready": true }));
        }
        if mounts.iter().all(|m| m.reader.has_ended) {
            run += 1;
            answer(&summary(&mut mounts, run));
        }
    }
}

/// What a run came to; the readers begin anew.
fn summary(mounts: &mut [Mount], run: u32) -> Value {
    let (mut latencies, mut updates, mut last_ns) = (Latencies::default(), 0, 0);
    for Mount { reader, .. } in mounts {
        latencies.merge(&reader.latencies);
        updates += reader.updates;
        last_ns = last_ns.max(reader.last_ns);
        reader.latencies.clear();
        (reader.updates, reader.last_ns, reader.has_ended) = (0, 0, false);
    }
    let seen = latencies.summary();
    json!({ "run": run, "updates": updates, "p50_ns": seen.p50_ns, "p99_ns": seen.p99_ns, "last_ns": last_ns })
}
