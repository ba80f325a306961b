//! Streams that are sent one update in an interval: their request asks for conflated data, or their user's class or their
//! service has it so.
//!
//! A stream that has had no update for its interval is sent the next one as it comes. Later ones are refused in its name,
//! as for a client that reads too slowly ([`changed`](super::changed)): nothing is kept of them, and they cost nothing
//! after the first. When the interval is over the newest values are due.
//!
//! What keeps its order there keeps it here: a status, an end, or an update that must not be conflated is not held back
//! for the interval, and the newest values come before it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use rdm::directory::Service as Definition;
use rwf::{Qos, Rate};
use units::Nanos;

use super::base::{ClientId, ServerConfig, Watcher};
use super::client::Client;
use super::client_table::Clients;

/// Turns end on a grid of this width, so that streams whose turns are near are served together.
const GRAIN: Duration = Duration::from_millis(5);
/// Streams whose turn has come that are looked at in one turn of the server.
const TURNS_MAX: usize = 10_000;
/// With fewer entries than this the queue is not searched for those that mean nothing any more.
const QUEUE_MIN: usize = 1_024;

/// When one stream was sent an update, after which it waits for an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacedStream {
    sent: Option<Nanos>,
    /// The moment of its entry in the queue, if it has one.
    queued: Option<Nanos>,
}

/// Streams that have changed and wait for their turn.
#[derive(Debug)]
pub(super) struct Paced {
    /// Among them some that have been served meanwhile or are closed.
    queue: BinaryHeap<Reverse<(Nanos, ClientId, i32)>>,
    /// With so many entries the queue is searched.
    search_at: usize,
}

impl Default for Paced {
    fn default() -> Self {
        Paced { queue: BinaryHeap::new(), search_at: QUEUE_MIN }
    }
}

impl PacedStream {
    /// When it may be sent an update again.
    fn until(&self, interval_ms: u16) -> Nanos {
        let Some(sent) = self.sent else { return Nanos::ZERO };
        let end = sent + Duration::from_millis(interval_ms.into());
        let grain = GRAIN.as_nanos() as u64;
        Nanos(end.0.div_ceil(grain) * grain)
    }
}

impl Clients {
    /// Returns those of some streams that may be sent an update now, and adds the others to `refused`.
    #[cold]
    #[inline(never)]
    pub(super) fn split_by_turn(
        &mut self,
        now: Nanos,
        watchers: &[Watcher],
        interval_ms: u16,
        refused: &mut Vec<Watcher>,
    ) -> Vec<Watcher> {
        let mut its_turn = Vec::new();
        for watcher in watchers {
            let side = if self.take_turn(now, *watcher, interval_ms) { &mut its_turn } else { &mut *refused };
            side.push(*watcher);
        }
        its_turn
    }

    /// Whether a stream may be sent an update now. If so, it is not for the interval.
    fn take_turn(&mut self, now: Nanos, watcher: Watcher, interval_ms: u16) -> bool {
        let Some(client) = self.get_mut(watcher.client) else { return false };
        let stream = client.paced.entry(watcher.stream_id).or_default();
        let is_its_turn = now >= stream.until(interval_ms);
        if is_its_turn {
            stream.sent = Some(now);
        }
        is_its_turn
    }

    /// Whether a stream has an interval.
    pub(super) fn is_paced(&self, watcher: Watcher) -> bool {
        let stream = self.get(watcher.client).and_then(|client| client.streams.get(&watcher.stream_id));
        stream.is_some_and(|stream| stream.form.interval_ms > 0)
    }

    /// A stream is about to be sent its newest values.
    pub(super) fn begin_interval(&mut self, now: Nanos, watcher: Watcher, interval_ms: u16) {
        let Some(client) = self.get_mut(watcher.client).filter(|_| interval_ms > 0) else { return };
        client.paced.entry(watcher.stream_id).or_default().sent = Some(now);
    }

    /// A stream with an interval has changed: the newest values are due when its turn comes.
    pub(super) fn await_turn(&mut self, watcher: Watcher, interval_ms: u16) {
        let Some(client) = self.all.get_mut(&watcher.client) else { return };
        let stream = client.paced.entry(watcher.stream_id).or_default();
        let until = stream.until(interval_ms);
        if stream.queued.replace(until) == Some(until) {
            return;
        }
        let entry = (until, watcher.client, watcher.stream_id);
        self.paced.queue.push(Reverse(entry));
        if self.paced.queue.len() >= self.paced.search_at {
            self.paced.queue.retain(|Reverse(entry)| is_valid(&self.all, *entry));
            self.paced.search_at = QUEUE_MIN.max(2 * self.paced.queue.len());
        }
    }

    /// When the next turn of a stream comes.
    pub(super) fn next_turn(&self) -> Nanos {
        self.paced.queue.peek().map_or(Nanos::NEVER, |Reverse((at, ..))| *at)
    }

    /// Streams whose turn has come are due.
    pub(super) fn take_turns(&mut self, now: Nanos) {
        for _ in 0..TURNS_MAX {
            if self.next_turn() > now {
                break;
            }
            let Some(Reverse(entry)) = self.paced.queue.pop() else { break };
            let (_, client, stream_id) = entry;
            if !is_valid(&self.all, entry) {
                continue;
            }
            let Some(known) = self.all.get_mut(&client) else { continue };
            if let Some(stream) = known.paced.get_mut(&stream_id) {
                stream.queued = None;
            }
            if known.conflation.changed.contains_key(&stream_id) || known.is_due(stream_id) {
                self.enqueue_due(Watcher { client, stream_id });
            }
        }
    }

    #[cfg(test)]
    pub(super) fn turns_queued(&self) -> usize {
        self.paced.queue.len()
    }
}

/// Whether an entry of the queue is the last that its stream has made.
fn is_valid(all: &BTreeMap<ClientId, Box<Client>>, (at, client, stream_id): (Nanos, ClientId, i32)) -> bool {
    let stream = all.get(&client).and_then(|client| client.paced.get(&stream_id));
    stream.is_some_and(|stream| stream.queued == Some(at))
}

impl ServerConfig {
    /// Makes of what a service offers what this server offers of it: the conflated qualities that it makes of others are
    /// added. Of a service that has a least interval those below that are not offered: that interval is in their place.
    pub(super) fn add_conflated(&self, definition: &mut Definition) {
        let least = self.service_interval(&definition.info.name);
        let before = std::mem::take(&mut definition.info.qos);
        let qualities = &mut definition.info.qos;
        let mut offer = |quality: Qos| {
            if !qualities.contains(&quality) {
                qualities.push(quality);
            }
        };
        for quality in &before {
            let is_faster = match quality.rate {
                Rate::TickByTick => least > 0,
                Rate::TimeConflated(interval) => interval < least,
                Rate::JustInTimeConflated => false,
            };
            offer(if is_faster { Qos { rate: Rate::TimeConflated(least), ..*quality } } else { *quality });
        }
        for &interval in self.conflated_intervals_ms.iter().filter(|interval| **interval > least) {
            for quality in before.iter().filter(|quality| quality.rate == Rate::TickByTick) {
                offer(Qos { rate: Rate::TimeConflated(interval), ..*quality });
            }
        }
    }

    /// The least interval of a service; 0 for every update.
    pub(super) fn service_interval(&self, name: &str) -> u16 {
        self.service_intervals_ms.get(name).copied().unwrap_or(0)
    }

    /// The interval that a quality means which this server makes; 0 if it does not.
    pub(super) fn interval_of(&self, qos: Option<Qos>) -> u16 {
        match qos.map(|qos| qos.rate) {
            Some(Rate::TimeConflated(interval)) if self.conflated_intervals_ms.contains(&interval) => {
                interval
            }
            _ => 0,
        }
    }
}
