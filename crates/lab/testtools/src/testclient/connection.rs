//! One connection: a thread that asks for its items, posts, and takes what comes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use client::{
    ClientTlsConfig, Compression, Consumer, ConsumerConfig, ConsumerSendError, DictionaryMode, GenericSpec,
    ItemRequestSpec, ItemView, PostSpec,
};
use net::clock;
use rwf::{DataType, Dictionary, Domain, PostUserInfo, UpdateMsg};
use units::Nanos;

use super::args::TestClientArgs;
use super::counts::{ClientCounts, IntervalCounts};
use super::session::{Item, Session};
use crate::TestToolError;
use crate::command::{duration, pin};
use crate::item_list::ListedItem;
use crate::messages::{MessageSet, Stamp, TIM_TRK_2, TIM_TRK_3};
use crate::stamp_clock::StampUnit;
use crate::ticks::{Rate, StampPlan, Ticks};

/// What all connections share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The run is over.
    pub(super) stop: AtomicBool,
    /// Updates that have come, without posts that came back.
    pub(super) updates: AtomicU64,
    /// Connections that have had as many posts back as are wanted.
    pub(super) posts_done: AtomicU64,
    /// Connections that have had as many generic messages as are wanted.
    pub(super) generics_done: AtomicU64,
}

/// What a connection tells the run.
pub(super) enum Told {
    /// The counts of an interval, from 0.
    Interval(u64, Box<IntervalCounts>),
    /// All images have come.
    Steady,
    /// It goes no further: it has failed, or was told to stop.
    Ended,
}

/// What came of a connection.
pub(super) struct Ended {
    pub(super) counts: ClientCounts,
    pub(super) failure: Option<String>,
}

pub(super) struct Connection {
    index: usize,
    args: Arc<TestClientArgs>,
    consumer: Consumer,
    names: Vec<Box<str>>,
    set: Arc<MessageSet>,
    session: Session,
    shared: Arc<Shared>,
    told: Sender<Told>,
    /// The next item to be asked for.
    next_item: usize,
    requests: Rate,
    request_ticks: Option<Ticks>,
    posts: Mix,
    generics: Mix,
    is_steady_told: bool,
    updates_told: u64,
    goals: Goals,
}

/// Which goals were reached, and told.
#[derive(Default)]
struct Goals {
    posts: bool,
    generics: bool,
}

/// Messages that are sent in steady state at a rate.
struct Mix {
    rate: Rate,
    plan: StampPlan,
    ticks: Option<Ticks>,
    /// Most of them.
    max: u64,
    /// Places of the items that take such messages.
    places: Vec<usize>,
    /// Whose turn it is among them.
    turn: usize,
    sent: u64,
}

impl Mix {
    fn new(
        (per_second, stamps): (u32, crate::ticks::StampRate),
        args: &TestClientArgs,
        max: Option<u64>,
        places: Vec<usize>,
    ) -> Mix {
        let rate = Rate { per_second, ticks_per_second: args.tick_rate };
        let plan = StampPlan::new(stamps, rate, clock::seed());
        Mix { rate, plan, ticks: None, max: max.unwrap_or(u64::MAX), places, turn: 0, sent: 0 }
    }

    fn is_over(&self) -> bool {
        self.rate.per_second == 0 || self.sent >= self.max
    }
}

impl Connection {
    pub(super) fn new(
        index: usize,
        args: &Arc<TestClientArgs>,
        listed: Vec<ListedItem>,
        set: &Arc<MessageSet>,
        dictionary: Option<&Arc<Dictionary>>,
        (shared, told): (&Arc<Shared>, Sender<Told>),
    ) -> Result<Connection, TestToolError> {
        let mut consumer =
            Consumer::new(&config(args)).map_err(|error| TestToolError::Usage(error.to_string()))?;
        if let Some(dictionary) = dictionary {
            consumer = consumer.with_dictionary(Arc::clone(dictionary));
        }
        let count = listed.len();
        let mut names = Vec::with_capacity(count);
        let mut items = Vec::with_capacity(count);
        let (mut posting, mut talking) = (Vec::new(), Vec::new());
        for (place, item) in listed.into_iter().enumerate() {
            // Spread over the list: of 10 %, each tenth.
            let share = |place: usize| place as u64 * u64::from(args.snapshots) / 100;
            let is_snapshot = item.snapshot || share(place + 1) > share(place);
            posting.extend((item.post && !is_snapshot).then_some(place));
            talking.extend((item.generic && !is_snapshot).then_some(place));
            items.push(Item { handle: None, is_snapshot, is_settled: false });
            names.push(item.name);
        }
        let mut session = Session::new(items, &args.service, args.decode, StampUnit::of(args.nanoseconds));
        session.keeps_going = args.keep_going;
        session.has_dictionary = dictionary.is_some();
        session.delay = Duration::from_millis(args.delay_steady_state.into());
        session.latencies = args.latency_file.as_ref().map(|file| create(file, index)).transpose()?;
        session.user = poster(index)?;
        let requests = Rate { per_second: args.request_rate, ticks_per_second: args.tick_rate };
        Ok(Connection {
            index,
            consumer,
            names,
            set: Arc::clone(set),
            session,
            shared: Arc::clone(shared),
            told,
            next_item: 0,
            requests,
            request_ticks: None,
            posts: Mix::new((args.post_rate, args.post_latency_rate), args, args.posts, posting),
            generics: Mix::new((args.generic_rate, args.generic_latency_rate), args, args.generics, talking),
            is_steady_told: false,
            updates_told: 0,
            goals: Goals::default(),
            args: Arc::clone(args),
        })
    }

    /// Runs until it is told to stop, or has failed.
    pub(super) fn run(mut self, start: Nanos) -> Ended {
        if let Err(error) = self.turns(start) {
            self.session.failure.get_or_insert_with(|| error.to_string());
        }
        if let Some(mut file) = self.session.latencies.take()
            && let Err(error) = std::io::Write::flush(&mut file)
        {
            self.session
                .failure
                .get_or_insert_with(|| format!("the latency file cannot be written: {error}"));
        }
        self.consumer.close();
        // Who waits for it may be gone.
        let _ = self.told.send(Told::Ended);
        Ended { counts: self.session.counts, failure: self.session.failure }
    }

    fn turns(&mut self, start: Nanos) -> Result<(), TestToolError> {
        let cpus = &self.args.cpus;
        pin((!cpus.is_empty()).then(|| cpus[self.index % cpus.len()]))?;
        clock::fine_timers()?;
        let interval = duration(self.args.stats_interval);
        let startup_end = start.after(duration(self.args.startup_time));
        let (mut report_at, mut number) = (start.after(interval), 0);
        while !self.shared.stop.load(Ordering::Acquire) && self.session.failure.is_none() {
            let now = clock::monotonic();
            if now >= report_at {
                let counts = Box::new(std::mem::take(&mut self.session.interval));
                let _ = self.told.send(Told::Interval(number, counts));
                (report_at, number) = (report_at.after(interval), number + 1);
            }
            if !self.session.is_steady() && now >= startup_end {
                self.session.failure = Some(self.why_not_started());
                break;
            }
            let wakeup = self.drive(now)?;
            let until = wakeup.min(report_at).min(now.after(MAX_WAIT));
            let wait = if self.args.spin { Duration::ZERO } else { until.since(clock::monotonic()) };
            let session = &mut self.session;
            self.consumer.dispatch(wait, &mut |event| session.on_event(&event))?;
            self.tell();
        }
        // What has come up to here is counted as well.
        let counts = Box::new(std::mem::take(&mut self.session.interval));
        let _ = self.told.send(Told::Interval(number, counts));
        Ok(())
    }

    /// Asks and sends what is due; returns when something is due next.
    fn drive(&mut self, now: Nanos) -> Result<Nanos, TestToolError> {
        if self.next_item < self.names.len() {
            return Ok(if self.session.is_ready() { self.request(now) } else { Nanos::NEVER });
        }
        if !self.session.is_steady() {
            return Ok(Nanos::NEVER);
        }
        Ok(self.send(now, Kind::Post)?.min(self.send(now, Kind::Generic)?))
    }

    /// Asks for the items that are due.
    fn request(&mut self, now: Nanos) -> Nanos {
        let per_second = self.args.tick_rate;
        let mut ticks = self.request_ticks.take().unwrap_or_else(|| Ticks::new(now, per_second));
        self.session.counts.requested_at.get_or_insert(now);
        while self.next_item < self.names.len()
            && let Some(tick) = ticks.take_due(now)
        {
            let end = (self.next_item + self.requests.on(tick) as usize).min(self.names.len());
            self.subscribe(end);
        }
        let next = ticks.next();
        self.request_ticks = Some(ticks);
        next
    }

    /// Asks for the items up to a place, those that are alike in batches.
    fn subscribe(&mut self, end: usize) {
        let batch = self.args.batch as usize;
        while self.next_item < end {
            let first = self.next_item;
            let is_snapshot = self.session.items[first].is_snapshot;
            let alike = |place: &usize| self.session.items[*place].is_snapshot == is_snapshot;
            let count = (first..end).take(batch).take_while(alike).count();
            let spec = ItemRequestSpec {
                streaming: !is_snapshot,
                view: (!self.args.view.is_empty())
                    .then(|| ItemView::Fields(Arc::from(self.args.view.as_slice()))),
                ..ItemRequestSpec::new(&self.args.service, "")
            };
            let names: Vec<&str> = self.names[first..first + count].iter().map(|name| &**name).collect();
            let opened = if count == 1 {
                vec![self.consumer.subscribe_with(&ItemRequestSpec { name: names[0], ..spec })]
            } else {
                self.consumer.subscribe_all(&spec, &names)
            };
            for (place, opened) in (first..).zip(opened) {
                match opened {
                    Ok(handle) => {
                        self.session.counts.requests += 1;
                        self.session.items[place].handle = Some(handle);
                        self.session.places.insert(handle, place);
                    }
                    Err(error) => {
                        let name = &self.names[place];
                        self.session.failure.get_or_insert_with(|| format!("item {name}: {error}"));
                    }
                }
            }
            self.next_item = first + count;
        }
    }

    /// Sends the posts or generic messages that are due.
    fn send(&mut self, now: Nanos, kind: Kind) -> Result<Nanos, TestToolError> {
        let mix = self.mix(kind);
        if mix.is_over() {
            return Ok(Nanos::NEVER);
        }
        let per_second = mix.rate.ticks_per_second;
        let mut ticks = mix.ticks.take().unwrap_or_else(|| Ticks::new(now, per_second));
        while let Some(tick) = ticks.take_due(now) {
            let mix = self.mix(kind);
            let count = u64::from(mix.rate.on(tick)).min(mix.max - mix.sent) as u32;
            let timed = mix.plan.next(count);
            let mut left = count;
            while left > 0 && self.send_one(kind, timed.includes(count - left))? {
                left -= 1;
            }
            // Streams come and go, and the backlog is bounded: what is left of the tick is not sent.
            match kind {
                Kind::Post => self.session.counts.posts_unsent += u64::from(left),
                Kind::Generic => self.session.counts.generics_unsent += u64::from(left),
            }
        }
        let next = ticks.next();
        self.mix(kind).ticks = Some(ticks);
        Ok(next)
    }

    fn mix(&mut self, kind: Kind) -> &mut Mix {
        match kind {
            Kind::Post => &mut self.posts,
            Kind::Generic => &mut self.generics,
        }
    }

    /// Sends one message on the stream whose turn it is. Whether there was room, and a stream.
    fn send_one(&mut self, kind: Kind, is_timed: bool) -> Result<bool, TestToolError> {
        let mix = match kind {
            Kind::Post => &self.posts,
            Kind::Generic => &self.generics,
        };
        let (count, turn) = (mix.places.len(), mix.turn);
        let found = (0..count)
            .map(|step| (turn + step) % count)
            .find_map(|at| self.session.items[mix.places[at]].handle.map(|handle| (at, handle)));
        let Some((at, handle)) = found else { return Ok(false) };
        let number = self.mix(kind).sent;
        self.mix(kind).turn = at + 1;
        let time = self.session.unit.now();
        let sent = match kind {
            Kind::Post => self.post(handle, number, is_timed.then_some(Stamp { id: TIM_TRK_2, time })),
            Kind::Generic => self.generic(handle, number, is_timed.then_some(Stamp { id: TIM_TRK_3, time })),
        };
        let counts = &mut self.session.counts;
        match (sent, kind) {
            (Ok(()), Kind::Post) => {
                (counts.posts, self.session.interval.posts) =
                    (counts.posts + 1, self.session.interval.posts + 1)
            }
            (Ok(()), Kind::Generic) => {
                (counts.generics, self.session.interval.generics) =
                    (counts.generics + 1, self.session.interval.generics + 1)
            }
            (
                Err(
                    ConsumerSendError::WouldBlock { .. }
                    | ConsumerSendError::TooManyPosts { .. }
                    | ConsumerSendError::NotOpen
                    | ConsumerSendError::NotLoggedIn,
                ),
                _,
            ) => return Ok(false),
            (Err(error), _) => return Err(TestToolError::Failed(error.to_string())),
        }
        self.mix(kind).sent += 1;
        Ok(true)
    }

    fn post(
        &mut self,
        handle: client::ItemHandle,
        number: u64,
        stamp: Option<Stamp>,
    ) -> Result<(), ConsumerSendError> {
        let posts = &self.set.posts;
        let fields = &posts[(number % posts.len() as u64) as usize];
        let header = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        let spec = PostSpec {
            container_type: DataType::MSG,
            ack: self.args.post_acks,
            user: self.session.user,
            ..PostSpec::default()
        };
        let sent = self.consumer.post(handle, &spec, |w| {
            header.encode_header(w);
            fields.write(w, stamp);
        });
        sent.map(|_| ())
    }

    fn generic(
        &mut self,
        handle: client::ItemHandle,
        number: u64,
        stamp: Option<Stamp>,
    ) -> Result<(), ConsumerSendError> {
        let generics = &self.set.generics;
        let fields = &generics[(number % generics.len() as u64) as usize];
        let spec = GenericSpec { container_type: DataType::FIELD_LIST, ..GenericSpec::default() };
        self.consumer.send_generic(handle, &spec, |w| fields.write(w, stamp))
    }

    /// Tells the run what has been reached.
    fn tell(&mut self) {
        let counts = &self.session.counts;
        let updates = counts.updates() - counts.posts_returned.min(counts.updates());
        let new = updates.saturating_sub(self.updates_told);
        if new > 0 {
            self.updates_told = updates;
            self.shared.updates.fetch_add(new, Ordering::AcqRel);
        }
        if self.session.is_steady() && !std::mem::replace(&mut self.is_steady_told, true) {
            let _ = self.told.send(Told::Steady);
        }
        if self.args.posts.is_some_and(|wanted| counts.posts_returned >= wanted)
            && !std::mem::replace(&mut self.goals.posts, true)
        {
            self.shared.posts_done.fetch_add(1, Ordering::AcqRel);
        }
        if self.args.generics.is_some_and(|wanted| counts.generics_returned >= wanted)
            && !std::mem::replace(&mut self.goals.generics, true)
        {
            self.shared.generics_done.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn why_not_started(&self) -> String {
        let seconds = self.args.startup_time;
        let (images, count) = (self.session.counts.images, self.names.len());
        let reason = self.session.obstacle.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{images} of {count} images came within {seconds} s (--startup-time){reason}")
    }
}

/// How long a turn waits at most, so that stops are noticed.
const MAX_WAIT: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
enum Kind {
    Post,
    Generic,
}

/// Who posts on a connection: the address of this host, and the process id of the first connection.
fn poster(index: usize) -> Result<PostUserInfo, TestToolError> {
    let identity = client::Identity::of_process(None)?;
    let address = identity.ip_address.parse::<std::net::Ipv4Addr>().map_or(0, u32::from);
    Ok(PostUserInfo { address, user_id: std::process::id().wrapping_add(index as u32) })
}

fn create(file: &std::path::Path, index: usize) -> Result<std::io::BufWriter<std::fs::File>, TestToolError> {
    let mut path = file.as_os_str().to_owned();
    if index > 0 {
        path.push(format!("-{}", index + 1));
    }
    let path = PathBuf::from(path);
    let failed =
        |error: std::io::Error| TestToolError::Usage(format!("--latency-file {}: {error}", path.display()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(failed)?);
    std::io::Write::write_all(&mut file, b"send,receive,difference\n").map_err(failed)?;
    Ok(file)
}

fn config(args: &TestClientArgs) -> ConsumerConfig {
    ConsumerConfig {
        hosts: vec![args.host.clone()],
        user: args.user.clone(),
        application_name: "tickcast testclient".to_owned(),
        compression: args.compression.as_deref().map(|name| match name {
            "lz4" => Compression::Lz4,
            _ => Compression::Zlib,
        }),
        tls: args.tls_ca.clone().map(|ca_file| ClientTlsConfig { ca_file, ..ClientTlsConfig::default() }),
        // A stream that ends is told as ended, unless it is to be asked for again.
        single_open: args.keep_going,
        dictionary: DictionaryMode::Required,
        keep_images: args.keep_images,
        // The window for images is the run's: startup.
        item_timeout_ms: 3_600_000,
        ping_timeout_s: 60,
        ..ConsumerConfig::default()
    }
}
