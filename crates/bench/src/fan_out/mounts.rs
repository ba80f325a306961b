//! Many consumers in one process, on the state machines of the protocol: cheap enough to leave the CPU to
//! what is measured.

use std::net::{Ipv4Addr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use counters::table::RsslConnections;
use measure::Latencies;
use net::tcp::Moved;
use net::{Interest, Poller, Token, clock, tcp};
use rdm::ToVec;
use rdm::item::{ItemKey, ItemRequest};
use rdm::login::LoginRequest;
use rssl::{ClientConfig, ClientConnection, ClientParams, Handler, Outbound, Session, Stop};
use rwf::{Domain, Msg};
use serde_json::{Value, json};

use super::seen;
use crate::end_to_end::{Items, START_LIMIT};
use crate::process::answer;
use crate::role::Cpu;
use crate::{BenchError, update};

/// As the publisher numbers its service.
const SERVICE_ID: u16 = 1;

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
    seen(run, updates, &latencies, last_ns)
}
