//! How many lines one place in the program may log: what a stranger can repeat at will does not fill the log.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use counters::table::Log as Counters;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// What the log says of itself is never limited.
pub(super) const OWN_TARGET: &str = "tickcast::log";

/// Lines in the present interval, by the place in the program that logs them.
pub(super) struct Limit {
    max: u32,
    interval: Duration,
    sites: Mutex<HashMap<Identifier, Site>>,
    counters: Arc<Counters>,
}

struct Site {
    since: Instant,
    count: u32,
    suppressed: u64,
    metadata: &'static Metadata<'static>,
    /// The message of the first line left out.
    like: String,
}

/// Lines of one place that were left out.
pub(super) struct Suppressed {
    pub(super) lines: u64,
    pub(super) level: Level,
    pub(super) of: &'static str,
    pub(super) like: String,
}

/// Of the example of what was left out.
const LIKE_MAX_BYTES: usize = 120;

impl Limit {
    pub(super) fn new(max: u32, interval: Duration, counters: Arc<Counters>) -> Limit {
        Limit { max, interval, sites: Mutex::default(), counters }
    }

    /// Whether a line may be logged.
    fn admits(&self, now: Instant, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if metadata.target() == OWN_TARGET {
            return true;
        }
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let site = sites.entry(metadata.callsite()).or_insert_with(|| Site {
            since: now,
            count: 0,
            suppressed: 0,
            metadata,
            like: String::new(),
        });
        if now.saturating_duration_since(site.since) >= self.interval {
            (site.since, site.count) = (now, 0);
        }
        if site.count < self.max {
            site.count += 1;
            return true;
        }
        if site.suppressed == 0 {
            site.like = message(event);
        }
        site.suppressed += 1;
        self.counters.lines_suppressed.inc();
        false
    }

    /// What was left out in intervals that are over; with `all` in those that are not, too.
    pub(super) fn take_suppressed(&self, now: Instant, all: bool) -> Vec<Suppressed> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |site: &Site| all || now.saturating_duration_since(site.since) >= self.interval;
        let due = sites.values_mut().filter(|site| site.suppressed > 0 && is_over(site));
        due.map(|site| Suppressed {
            lines: std::mem::take(&mut site.suppressed),
            level: *site.metadata.level(),
            of: site.metadata.target(),
            like: std::mem::take(&mut site.like),
        })
        .collect()
    }
}

/// The limit among the layers of the subscriber.
pub(super) struct LimitLayer(pub(super) Arc<Limit>);

impl<S: Subscriber> Layer<S> for LimitLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.admits(Instant::now(), event)
    }
}

/// The message of an event without its fields, cut.
fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                // Writing to a string cannot fail.
                let _ = write!(self.0, "{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    let mut cut = message.0;
    let end = (0..=LIKE_MAX_BYTES.min(cut.len())).rev().find(|at| cut.is_char_boundary(*at)).unwrap_or(0);
    cut.truncate(end);
    cut
}
