//! Many consumers in one process, on the state machines of the protocol: cheap enough to leave the CPU to
//! what is measured.

use std::collections::HashSet;
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
use rwf::{Domain, Msg, StreamState};

use super::peers::{Peer, Tally, Target, serve};
use super::rssl::Compression;
use crate::BenchError;
use crate::decode::{DecodeArgs, Decoder};
use crate::end_to_end::{Items, SERVICE_ID};
use crate::every::{Every, TimeEvery};
use crate::options::Cpu;
use crate::update::{self, Profile};

#[derive(Debug, Args)]
pub(crate) struct MountsArgs {
    #[command(flatten)]
    target: Target,
    /// What they ask for.
    #[arg(long)]
    compression: Option<Compression>,
    #[command(flatten)]
    items: Items,
    /// The first of those mounts that are here, and how many are.
    #[arg(long, default_value_t = 0)]
    first: u32,
    #[arg(long)]
    here: u32,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    cpu: Cpu,
}

/// One consumer: it counts updates, takes the time of some, and decodes them if it is to.
pub(crate) struct Mount {
    transport: Transport,
    connection: ClientConnection,
    reader: Reader,
}

struct Reader {
    watchlist: Watchlist,
    images: u32,
    /// Streams that were refused, since the service was not known yet: they are asked for again.
    refused: HashSet<i32>,
    times: Every,
    decoder: Option<Decoder>,
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

/// One of so many updates is timed, unless another number is given.
pub(super) const TIME_EVERY: u32 = 64;
/// The stream of the first item.
const FIRST_ID: i32 = 5;

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
        if let Some(decoder) = &mut self.decoder
            && let Ok(Msg::Update(update)) = Msg::parse(message)
        {
            decoder.on_update(update.stream_id, update.payload);
        }
        if self.times.is_due() {
            seen.latencies.record(age_ns(message));
        }
        ControlFlow::Continue(())
    }
}

impl Reader {
    fn on_other(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        let refresh = match Msg::parse(message) {
            Ok(Msg::Refresh(refresh)) => refresh,
            Ok(Msg::Status(status)) => {
                let is_closed = status.state.is_some_and(|state| state.stream != StreamState::Open);
                if is_closed && status.stream_id >= FIRST_ID {
                    self.refused.insert(status.stream_id);
                }
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        if refresh.domain == Domain::LOGIN {
            return self.request_items(out);
        }
        self.images += 1;
        if let Some(decoder) = &mut self.decoder {
            decoder.on_image(refresh.stream_id, refresh.payload);
        }
        ControlFlow::Continue(())
    }

    fn request_items(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        self.request(out, |_| true)
    }

    /// Asks again for what was refused.
    fn request_refused(&mut self, out: &mut Outbound) -> ControlFlow<Stop> {
        let refused = std::mem::take(&mut self.refused);
        if refused.is_empty() {
            return ControlFlow::Continue(());
        }
        self.request(out, |stream_id| refused.contains(&stream_id))
    }

    fn request(&self, out: &mut Outbound, wanted: impl Fn(i32) -> bool) -> ControlFlow<Stop> {
        let all = self.watchlist.names().zip(FIRST_ID..);
        for (name, stream_id) in all.filter(|(_, stream_id)| wanted(*stream_id)) {
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
        let times = Every::new(TIME_EVERY);
        let reader = Reader {
            watchlist,
            images: 0,
            refused: HashSet::new(),
            times,
            decoder: None,
            tally: Tally::default(),
        };
        Mount { transport, connection, reader }
    }

    /// The same with another share of updates that it times, and what decodes them.
    fn looking(mut self, times: Every, decoder: Option<Decoder>) -> Mount {
        (self.reader.times, self.reader.decoder) = (times, decoder);
        self
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
        if self.reader.request_refused(self.connection.outbound()).is_break() {
            return Err(BenchError::new("a mount could not repeat its requests"));
        }
        self.write()
    }

    fn is_ready(&self) -> bool {
        self.reader.images >= self.reader.watchlist.common + self.reader.watchlist.own
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.reader.tally
    }

    fn check(&self) -> Result<(), BenchError> {
        self.reader.decoder.as_ref().map_or(Ok(()), Decoder::check)
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
    let dictionary = args.decode.dictionary(args.profile)?;
    let times = Every::new(args.time_every.or(TIME_EVERY));
    let mount = |number, transport| {
        let decoder = Decoder::new(args.decode.decode, dictionary.as_ref(), FIRST_ID..);
        Mount::new(watchlist(number), number, transport, &params).looking(times, decoder)
    };
    serve(args.target.connect_all(args.first..args.first + args.here, mount)?)
}
