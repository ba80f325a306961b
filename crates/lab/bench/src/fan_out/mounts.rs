//! Many consumers in one process, on the state machines of the protocol: cheap enough to leave the CPU to
//! what is measured.

use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Args;
use counters::table::RsslConnections;
use net::tcp::Moved;
use net::{Transport, clock};
use rdm::ToVec;
use rdm::item::{ItemKey, ItemRequest};
use rdm::login::LoginRequest;
use rssl::{ClientConfig, ClientConnection, ClientParams, CompressionType, Handler, Outbound, Session, Stop};
use rwf::{Domain, Msg};

use super::peers::{Peer, Tally, Target, serve};
use super::rssl::Compression;
use crate::end_to_end::{Items, SERVICE_ID};
use crate::options::Cpu;
use crate::{BenchError, update};

#[derive(Debug, Args)]
pub(crate) struct MountsArgs {
    #[command(flatten)]
    target: Target,
    /// What they ask for.
    #[arg(long)]
    compression: Option<Compression>,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    cpu: Cpu,
}

/// One consumer: it counts updates, and looks at the time of one of 64.
pub(crate) struct Mount {
    transport: Transport,
    connection: ClientConnection,
    reader: Reader,
}

struct Reader {
    watchlist: Watchlist,
    images: u32,
    tally: Tally,
}

/// The items of a consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watchlist {
    /// So many of the items that are common.
    pub(crate) common: u32,
    /// Of this mount's own items, of which there are `own_of`, `own` from a place on; the first one follows the last.
    pub(crate) mount: u32,
    pub(crate) own_from: u32,
    pub(crate) own: u32,
    pub(crate) own_of: u32,
}

impl Watchlist {
    /// What a mount of the workload watches: all common items, and its own.
    fn of_mount(items: Items, mount: u32) -> Watchlist {
        Watchlist { common: items.common, mount, own_from: 0, own: items.own, own_of: items.own }
    }

    fn names(self) -> impl Iterator<Item = String> {
        let place = move |n: u32| ((u64::from(self.own_from) + u64::from(n)) % u64::from(self.own_of)) as u32;
        let own = (0..self.own).map(move |n| Items::own_name(self.mount, place(n)));
        (0..self.common).map(Items::common_name).chain(own)
    }
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
        let seen = &mut self.tally.seen;
        if update::ends_run(message) {
            seen.last_ns = age_ns(message);
            self.tally.has_ended = true;
            return ControlFlow::Continue(());
        }
        seen.updates += 1;
        if seen.updates.is_multiple_of(SAMPLE) {
            seen.latencies.record(age_ns(message));
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
        for (name, stream_id) in self.watchlist.names().zip(5..) {
            let key = ItemKey::new(SERVICE_ID, name.as_bytes());
            push(out, &ItemRequest::streaming(Domain::MARKET_PRICE, stream_id, key))?;
        }
        ControlFlow::Continue(())
    }
}

fn age_ns(message: &[u8]) -> u64 {
    let stamps = update::payload(message).and_then(update::stamps);
    stamps.map_or(0, |(intended, _)| clock::monotonic().since(intended).as_nanos() as u64)
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
    /// Every mount has a seed of its own.
    pub(crate) fn new(
        watchlist: Watchlist,
        seed: u32,
        transport: Transport,
        params: &Arc<ClientParams>,
    ) -> Mount {
        let counters = Arc::new(RsslConnections::default());
        let version = params.config().version_max;
        let connection = ClientConnection::new(clock::monotonic(), params, &counters, version, seed.into());
        let reader = Reader { watchlist, images: 0, tally: Tally::default() };
        Mount { transport, connection, reader }
    }
}

impl Peer for Mount {
    fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let taken = self.connection.on_bytes(clock::monotonic(), bytes, &mut self.reader);
        taken.map_err(|reason| BenchError::new(format!("a mount was lost: {reason}")))
    }

    fn write(&mut self) -> Result<(), BenchError> {
        loop {
            let pending = self.connection.outbound().flush();
            if pending.is_empty() {
                self.transport.flush()?;
                return Ok(());
            }
            match self.transport.write(pending)? {
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

    fn is_ready(&self) -> bool {
        self.reader.images >= self.reader.watchlist.common + self.reader.watchlist.own
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.reader.tally
    }
}

pub(crate) fn mounts(args: &MountsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let compression = match args.compression {
        None => CompressionType::None,
        Some(Compression::Zlib) => CompressionType::Zlib,
        Some(Compression::Lz4) => CompressionType::Lz4,
    };
    let params = Arc::new(ClientConfig { compression, ..ClientConfig::default() }.check()?);
    let watchlist = |number| Watchlist::of_mount(args.items, number);
    let mount = |number, transport| Mount::new(watchlist(number), number, transport, &params);
    serve(args.target.connect_all(args.items.mounts, mount)?)
}
