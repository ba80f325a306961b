//! The bare end of the backbone: it asks a source distributor for all items over a link, as a point-to-point server does,
//! follows the stream by the messaging library, and counts. It keeps nothing and serves nobody.

use std::sync::Arc;
use std::time::Duration;

use backbone::multicast::MulticastInlet;
use backbone::{Inlet, InletCommand, InletEvents};
use clap::Args;
use market::ItemKey;
use market::backbone::{Kind, LinkDown, LinkUp, StreamMsg};
use market::p2ps::{SourceId, Topic};
use messaging::{ContextCounters, MessagingConfig};
use net::{Poller, Ready, clock};
use rwf::{Dictionary, Domain, Msg};
use units::Nanos;

use super::tally::{self, Sink, Tally};
use crate::BenchError;
use crate::decode::DecodeArgs;
use crate::end_to_end::{Items, SERVICE, SERVICE_ID};
use crate::every::TimeEvery;
use crate::options::Cpu;
use crate::update::{self, Profile};

#[derive(Debug, Args)]
pub(crate) struct ReceiverArgs {
    #[arg(long)]
    items: u32,
    /// Settings as of a daemon; those of messaging count.
    #[arg(long)]
    set: Vec<String>,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    cpu: Cpu,
}

config::section! {
    /// What of a daemon's configuration counts here.
    struct ReceiverConfig {
        /// Messages by topic.
        messaging: MessagingConfig;
    }
}

/// Images that are asked for at a time, and how often it is told how far the stream is taken: as a point-to-point server
/// does it.
const OUTSTANDING: u32 = 500;
const PROGRESS_EVERY: Duration = Duration::from_millis(20);
/// Ids of items above this are not believed.
const IDS_MAX: usize = 16 << 20;
const NO_ITEM: u32 = u32::MAX;

struct Receiver {
    poller: Poller,
    ready: Vec<Ready>,
    inlet: MulticastInlet,
    follower: Follower,
}

/// What follows the stream.
struct Follower {
    items: u32,
    tally: Tally,
    /// By which every field of an update is decoded, if it is.
    dictionary: Option<Arc<Dictionary>>,
    stream: Option<SourceId>,
    /// The instance that has the link, from the moment that it is asked for.
    instance: Option<u64>,
    is_linked: bool,
    /// Items that were asked for, and those that have come.
    asked: u32,
    answered: u32,
    /// The item of each id.
    by_id: Vec<u32>,
    /// The last number of the stream.
    sequence: u64,
    told: u64,
    tell_at: Nanos,
    commands: Vec<InletCommand>,
    /// Why it cannot go on.
    broken: Option<&'static str>,
}

fn item_of(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name).ok()?.strip_prefix("O0.")?.parse().ok()
}

impl Follower {
    fn new(items: u32, tally: Tally, dictionary: Option<Arc<Dictionary>>) -> Follower {
        Follower {
            items,
            tally,
            dictionary,
            stream: None,
            instance: None,
            is_linked: false,
            asked: 0,
            answered: 0,
            by_id: Vec::new(),
            sequence: 0,
            told: 0,
            tell_at: Nanos::ZERO,
            commands: Vec::new(),
            broken: None,
        }
    }

    fn say(&mut self, instance: u64, what: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        what.encode(&mut bytes);
        self.commands.push(InletCommand::Send { instance, bytes });
    }

    /// What there is to say by now.
    fn act(&mut self, now: Nanos) {
        let Some(instance) = self.instance.filter(|_| self.is_linked) else { return };
        while self.stream.is_some() && self.asked < self.items && self.asked - self.answered < OUTSTANDING {
            let name = Items::own_name(0, self.asked);
            let key = ItemKey::named(SERVICE_ID, Domain::MARKET_PRICE, name.as_bytes());
            self.say(instance, &LinkUp::Interest { key });
            self.asked += 1;
        }
        if self.sequence != self.told && now >= self.tell_at {
            self.told = self.sequence;
            self.tell_at = now.after(PROGRESS_EVERY);
            let mut positions = Vec::new();
            LinkUp::put_position(&mut positions, SERVICE_ID, self.sequence);
            self.say(instance, &LinkUp::Progress { positions: &positions });
        }
    }

    fn next_wakeup(&self) -> Nanos {
        if self.sequence == self.told { Nanos::NEVER } else { self.tell_at }
    }

    fn name_id(&mut self, id: u32, name: &[u8]) {
        let (Some(item), true) = (item_of(name), (id as usize) < IDS_MAX) else {
            return self.tally.on_unreadable();
        };
        if self.by_id.len() <= id as usize {
            self.by_id.resize(id as usize + 1, NO_ITEM);
        }
        self.by_id[id as usize] = item;
    }

    #[inline]
    fn item(&self, id: u32) -> u32 {
        self.by_id.get(id as usize).copied().unwrap_or(NO_ITEM)
    }

    #[inline]
    fn on_stream(&mut self, bytes: &[u8]) {
        let Ok(msg) = StreamMsg::parse(bytes) else { return self.tally.on_unreadable() };
        // A heartbeat has the number of the message before it.
        let next = if msg.kind == Kind::Heartbeat { msg.sequence + 1 } else { msg.sequence };
        if self.sequence != 0 && next > self.sequence + 1 {
            self.tally.on_gap(next - self.sequence - 1);
        }
        self.sequence = self.sequence.max(msg.sequence);
        match msg.kind {
            Kind::Update => match update::payload(msg.body) {
                Some(payload) => {
                    let read =
                        self.dictionary.as_ref().map(|dictionary| update::read_all(payload, dictionary));
                    if read == Some(None) {
                        self.tally.on_unreadable();
                    }
                    self.tally.on_update(self.item(msg.item), payload, false);
                }
                None => self.tally.on_unreadable(),
            },
            Kind::Open | Kind::OpenInFull => match msg.opened(SERVICE_ID) {
                Ok(key) => self.name_id(msg.item, key.name),
                Err(_) => self.tally.on_unreadable(),
            },
            Kind::Refresh => self.on_image(msg.item, msg.body),
            Kind::Status | Kind::Close => self.tally.on_doubt(self.item(msg.item)),
            Kind::Heartbeat | Kind::Directory | Kind::Generic | Kind::ServiceStatus | Kind::Unknown(_) => {}
        }
    }

    fn on_image(&mut self, id: u32, message: &[u8]) {
        match Msg::parse(message) {
            Ok(Msg::Refresh(refresh)) => self.tally.on_image(self.item(id), refresh.payload),
            _ => self.tally.on_unreadable(),
        }
    }
}

impl InletEvents for Follower {
    fn on_source(&mut self, _: Nanos, source: SourceId, topic: Topic<'_>, _: u64) {
        if topic == Topic::Service(SERVICE) {
            self.stream = Some(source);
        }
    }

    fn on_source_ended(&mut self, _: Nanos, source: SourceId) {
        if self.stream == Some(source) {
            self.broken = Some("the stream has ended");
        }
    }

    #[inline]
    fn on_stream_message(&mut self, _: Nanos, source: SourceId, bytes: &[u8]) {
        if self.stream == Some(source) {
            return self.on_stream(bytes);
        }
        if let Ok(StreamMsg { kind: Kind::Directory, instance, .. }) = StreamMsg::parse(bytes)
            && self.instance.is_none()
        {
            self.instance = Some(instance);
            self.commands.push(InletCommand::Connect { instance, directory: source });
        }
    }

    fn on_link_up(&mut self, _: Nanos, instance: u64) {
        self.say(instance, &LinkUp::Hello { peer: clock::seed(), name: b"bench" });
    }

    fn on_link_down(&mut self, _: Nanos, _: u64) {
        if self.is_linked {
            self.broken = Some("the link to the source distributor is lost");
        }
        // Its directory may have come before it could be connected to.
        self.instance = None;
    }

    fn on_link_message(&mut self, _: Nanos, _: u64, bytes: &[u8]) {
        match LinkDown::parse(bytes) {
            Ok(LinkDown::HelloAck { .. }) => self.is_linked = true,
            Ok(LinkDown::Image { item, key, refresh, .. }) => {
                self.name_id(item, key.name);
                self.on_image(item, refresh);
                self.answered += 1;
            }
            Ok(_) => {}
            Err(_) => self.tally.on_unreadable(),
        }
    }
}

impl Sink for Receiver {
    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let now = clock::monotonic();
        let due = self.inlet.next_wakeup().min(self.follower.next_wakeup()).min(now.after(timeout));
        self.ready.clear();
        self.ready.extend(self.poller.wait(Some(due.since(now)))?);
        let now = clock::monotonic();
        for ready in &self.ready {
            // What it leaves is reported again.
            self.inlet.on_ready(now, *ready, &mut self.follower);
        }
        self.inlet.on_wakeup(now, &mut self.follower);
        self.follower.act(now);
        for command in std::mem::take(&mut self.follower.commands) {
            self.inlet.execute(now, command, &mut self.follower);
        }
        self.inlet.flush(now);
        self.follower.broken.map_or(Ok(()), |why| Err(BenchError::new(why)))
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.follower.tally
    }
}

/// Follows the stream of the service, as it is told.
pub(crate) fn receiver(args: &ReceiverArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let sets = args.set.iter().filter(|set| set.starts_with("messaging."));
    let loader = sets.fold(config::Loader::new::<ReceiverConfig>(), |loader, set| loader.set(set));
    let config = loader.load().map_err(|faults| BenchError::new(faults.to_string()))?.value.messaging;
    let (poller, now) = (Poller::new()?, clock::monotonic());
    let counters = ContextCounters::default();
    let mut inlet = MulticastInlet::new(&config, poller.registrar(), 1, clock::seed(), now, counters)?;
    let mut follower = Follower::new(
        args.items,
        Tally::new(args.items).timing(args.time_every),
        args.decode.dictionary(Profile::default())?,
    );
    inlet.execute(now, InletCommand::Subscribe(SERVICE.to_owned()), &mut follower);
    tally::serve(Receiver { poller, ready: Vec::new(), inlet, follower })
}
