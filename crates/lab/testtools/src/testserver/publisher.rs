//! The non-interactive provider: publishes its items at a distribution server.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{
    Domain, HostPort, Provider, ProviderConfig, ProviderEvent, ProviderServiceConfig, PublishError,
    Published, PublishedItem, PublishedTicket, RefreshSpec, UpdateSpec,
};
use net::clock;
use rdm::post::Post;
use rwf::{DataType, Dictionary, Msg, NakCode, PostMsg};
use units::Nanos;

use super::report::Reports;
use super::{ServerCounts, TURN, TestServerArgs};
use crate::TestToolError;
use crate::command::{duration, pin};
use crate::dictionary;
use crate::item_list::{ListedItem, read_items};
use crate::messages::{MessageSet, Stamp, TIM_TRK_1, TIM_TRK_3, stamp_in};
use crate::stamp_clock::StampUnit;
use crate::ticks::{Rate, StampPlan, Ticks};

/// Publishes until `stop`, or to the end of its time.
pub(super) fn run(
    args: &TestServerArgs,
    host: &HostPort,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<ServerCounts, TestToolError> {
    args.check()?;
    let dictionary = dictionary::load(args.dictionary_dir.as_deref())?;
    let mut publisher = Publisher::new(args, host, items(args)?, &dictionary)?;
    pin(args.cpu)?;
    clock::fine_timers()?;
    let start = clock::monotonic();
    let end = args.run_time.map_or(Nanos::NEVER, |seconds| start.after(duration(seconds)));
    let mut reports = Reports::new(args, start);
    let mut ticks = Ticks::new(start, args.tick_rate);
    let mut is_told = false;
    while !stop.load(Ordering::Acquire) && clock::monotonic() < end {
        publisher.turn(&mut ticks)?;
        if publisher.has_published() && !std::mem::replace(&mut is_told, true) {
            reports.ready(&format!("{} items published at {host}", publisher.items.len()), out)?;
        }
        publisher.counts.late_ticks = ticks.late();
        reports.look(clock::monotonic(), &publisher.counts, out)?;
    }
    reports.end(clock::monotonic(), &publisher.counts, out)?;
    let (counts, failure) = (publisher.counts, publisher.failure);
    publisher.provider.close();
    match failure {
        Some(reason) if counts.logins == 0 => Err(TestToolError::Failed(reason)),
        _ => Ok(counts),
    }
}

/// The items of the file, or those that the pattern of names makes.
fn items(args: &TestServerArgs) -> Result<Vec<ListedItem>, TestToolError> {
    match (&args.item_file, args.items) {
        (Some(file), count) => Ok(read_items(file, count)?),
        (None, Some(count)) => Ok(args.names.items(0, count)),
        (None, None) => Err(TestToolError::Usage("--connect needs --items or --item-file".to_owned())),
    }
}

struct Publisher {
    provider: Provider,
    items: Vec<Item>,
    set: MessageSet,
    rate: Rate,
    plan: StampPlan,
    unit: StampUnit,
    updates_max: u64,
    image_burst: usize,
    takes_posts: bool,
    output_bytes: usize,
    spins: bool,
    /// The next item whose image is to be published; updates go to those before it.
    next_image: usize,
    turn: usize,
    is_up: bool,
    heard: Heard,
    counts: ServerCounts,
    failure: Option<String>,
}

struct Item {
    handle: PublishedItem,
    updates: u32,
}

/// What came in a turn, and is to be done after it.
#[derive(Default)]
struct Heard {
    posts: Vec<HeardPost>,
    generics: Vec<Option<u64>>,
    logged_in: bool,
    lost: Option<String>,
}

struct HeardPost {
    item: Option<PublishedItem>,
    payload: Option<(DataType, Box<[u8]>)>,
    ticket: Option<PublishedTicket>,
}

impl Publisher {
    fn new(
        args: &TestServerArgs,
        host: &HostPort,
        listed: Vec<ListedItem>,
        dictionary: &Dictionary,
    ) -> Result<Publisher, TestToolError> {
        let set = MessageSet::read(args.msg_file.as_deref())?;
        set.check(dictionary)?;
        let service =
            ProviderServiceConfig { name: args.service.clone(), id: args.service_id, ..Default::default() };
        let config = ProviderConfig {
            hosts: vec![host.clone()],
            user: args.user.clone(),
            application_name: "tickcast testserver".to_owned(),
            services: vec![ProviderServiceConfig { domains: vec![Domain::MARKET_PRICE.0], ..service }],
            // Images are published again here after a reconnect: a copy of each would be another cost.
            keep_images: false,
            backlog_max_bytes: args.output_bytes,
            ..ProviderConfig::default()
        };
        let usage = |error: &dyn std::fmt::Display| TestToolError::Usage(error.to_string());
        let mut provider = Provider::new(&config).map_err(|error| usage(&error))?;
        let open = |item: &ListedItem| {
            let handle = provider.item(Domain::MARKET_PRICE, &args.service, &item.name);
            Ok(Item { handle: handle.map_err(|error| usage(&error))?, updates: 0 })
        };
        let items = listed.iter().map(open).collect::<Result<Vec<_>, TestToolError>>()?;
        let rate = Rate { per_second: args.update_rate, ticks_per_second: args.tick_rate };
        Ok(Publisher {
            provider,
            items,
            set,
            rate,
            plan: StampPlan::new(args.latency_rate, rate, clock::seed()),
            unit: StampUnit::of(args.nanoseconds),
            updates_max: args.updates.unwrap_or(u64::MAX),
            image_burst: args.image_burst as usize,
            takes_posts: !args.no_posts,
            output_bytes: args.output_bytes as usize,
            spins: args.spin,
            next_image: 0,
            turn: 0,
            is_up: false,
            heard: Heard::default(),
            counts: ServerCounts::default(),
            failure: None,
        })
    }

    fn has_published(&self) -> bool {
        self.is_up && self.next_image == self.items.len()
    }

    /// One tick if it is due, then images while there is time, then what the server says, which is waited for.
    fn turn(&mut self, ticks: &mut Ticks) -> Result<(), TestToolError> {
        let now = clock::monotonic();
        let has_ticks = self.is_up && self.next_image > 0 && self.counts.updates < self.updates_max;
        if !has_ticks {
            ticks.skip_to(now);
        } else if let Some(tick) = ticks.take_due(now) {
            self.tick(tick)?;
        }
        let until = if has_ticks { ticks.next() } else { now.after(TURN) };
        self.listen(Duration::ZERO)?;
        while clock::monotonic() < until && self.images()? {
            self.listen(Duration::ZERO)?;
        }
        let now = clock::monotonic();
        if now < until && !self.spins {
            self.listen(until.min(now.after(TURN)).since(now))?;
        }
        Ok(())
    }

    fn tick(&mut self, tick: u64) -> Result<(), TestToolError> {
        let left = self.updates_max - self.counts.updates;
        let count = u64::from(self.rate.on(tick)).min(left) as u32;
        let timed = self.plan.next(count);
        for place in 0..count {
            if self.turn >= self.next_image {
                self.turn = 0;
            }
            let stamp = timed.includes(place).then(|| Stamp { id: TIM_TRK_1, time: self.unit.now() });
            let item = &mut self.items[self.turn];
            let fields = &self.set.updates[item.updates as usize % self.set.updates.len()];
            let sent = self.provider.update(item.handle, &UpdateSpec::default(), |w| fields.write(w, stamp));
            match sent {
                Ok(Published::Sent) => {
                    self.turn += 1;
                    item.updates = item.updates.wrapping_add(1);
                    self.counts.updates += 1;
                    self.counts.stamped += u64::from(stamp.is_some());
                }
                Err(PublishError::WouldBlock { .. }) => {
                    self.counts.dropped += u64::from(count - place);
                    break;
                }
                // The connection is lost, which is told in the next turn.
                Ok(_) => break,
                Err(error) => return Err(TestToolError::Failed(format!("an update: {error}"))),
            }
        }
        self.provider.flush();
        Ok(())
    }

    /// Publishes some images; whether there were any.
    fn images(&mut self) -> Result<bool, TestToolError> {
        if !self.is_up || self.has_published() || self.backlog_is_half_full() {
            return Ok(false);
        }
        let end = (self.next_image + self.image_burst).min(self.items.len());
        while self.next_image < end {
            let handle = self.items[self.next_image].handle;
            let image = &self.set.image;
            match self.provider.refresh(handle, &RefreshSpec::default(), |w| image.write(w, None)) {
                Ok(Published::Sent) => {
                    self.next_image += 1;
                    self.counts.images += 1;
                }
                Ok(_) | Err(PublishError::WouldBlock { .. }) => break,
                Err(error) => return Err(TestToolError::Failed(format!("an image: {error}"))),
            }
        }
        self.provider.flush();
        Ok(true)
    }

    /// Half of the room is for updates.
    fn backlog_is_half_full(&mut self) -> bool {
        !self.provider.flush() && self.provider.backlog_bytes() > self.output_bytes / 2
    }

    /// Takes what the server says, waits for it for at most so long, and answers.
    fn listen(&mut self, timeout: Duration) -> Result<(), TestToolError> {
        let heard = &mut self.heard;
        self.provider.dispatch(timeout, &mut |event| heard.on_event(&event))?;
        if std::mem::take(&mut self.heard.logged_in) {
            self.counts.logins += 1;
            (self.is_up, self.next_image, self.turn) = (true, 0, 0);
        }
        if let Some(reason) = self.heard.lost.take() {
            self.is_up = false;
            self.failure = Some(reason);
        }
        for post in std::mem::take(&mut self.heard.posts) {
            self.on_post(post);
        }
        for stamp in std::mem::take(&mut self.heard.generics) {
            self.counts.generics += 1;
            let age = stamp.and_then(|stamp| self.unit.since(stamp, clock::monotonic()));
            if let Some(age) = age {
                self.counts.generic_latency.record(age);
            }
        }
        Ok(())
    }

    /// Publishes what was posted to an item as an update of it.
    fn on_post(&mut self, post: HeardPost) {
        self.counts.posts += 1;
        if !self.takes_posts {
            self.counts.refused += 1;
            if let Some(ticket) = post.ticket {
                self.provider.nak(ticket, NakCode::DENIED_BY_SOURCE, "posts are not taken");
            }
            return;
        }
        if let (Some(item), Some((container_type, payload))) = (post.item, &post.payload) {
            let spec = UpdateSpec { container_type: *container_type, ..UpdateSpec::default() };
            let sent = self.provider.update(item, &spec, |w| w.bytes(payload));
            self.counts.posts_reflected += u64::from(matches!(sent, Ok(Published::Sent)));
        }
        if let Some(ticket) = post.ticket {
            self.provider.ack(ticket);
        }
    }
}

impl Heard {
    fn on_event(&mut self, event: &ProviderEvent<'_>) {
        match event {
            ProviderEvent::Ready { .. } => self.logged_in = true,
            ProviderEvent::Disconnected { .. } | ProviderEvent::LoginRefused { .. } => {
                self.lost = Some(event.to_string());
            }
            ProviderEvent::Post { item, post, ticket } => {
                self.posts.push(HeardPost { item: *item, payload: posted(post), ticket: *ticket });
            }
            ProviderEvent::Generic { msg, .. } => {
                self.generics.push(stamp_in(msg.container_type, msg.payload, TIM_TRK_3));
            }
            _ => {}
        }
    }
}

/// The payload of the update that a post is to lead to.
fn posted(post: &PostMsg<'_>) -> Option<(DataType, Box<[u8]>)> {
    match Post::parse(post).ok()?.message {
        Some(Msg::Update(update)) => Some((update.container_type, update.payload.into())),
        Some(Msg::Refresh(refresh)) => Some((refresh.container_type, refresh.payload.into())),
        Some(_) => None,
        None => Some((post.container_type, post.payload.into())),
    }
}
