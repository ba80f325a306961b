//! What waits for an application that takes events in its own time.
//!
//! Events wait one by one as long as few do. From the bound on it depends on [`WhenFull`]. With
//! [`Conflate`](WhenFull::Conflate) an update goes into the image of its item, and the queue has a place for the item
//! in the order in which items changed first; when the application comes to it, it gets what has changed, by the same
//! rules by which a server conflates (`docs/decisions/0030-conflated-updates-come-from-the-image.md`). Every update is
//! an event again when the application has taken all that waits.
//!
//! What must not be merged is an event, behind the newest values of its item: those become an event at the place that
//! they have. So no value goes back, and a status, an image or a generic message is seen with the image that it came
//! upon.
//!
//! There is no thread, lock or clock in here. `tests.rs` holds an application that takes events at random against one
//! that is given everything.

mod images;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use units::Nanos;

use self::images::{Images, Intake};
pub use self::stats::{QueueBound, QueueOverrun, QueueStats};
use super::event::{ConsumerEvent, ItemEvent};
use super::{ItemHandle, OwnedEvent};
use crate::WhenFull;

/// So much an event counts beside its message.
const EVENT_BYTES: usize = 256;

/// Events that wait, in bounds.
pub(super) struct EventQueue {
    bounds: Bounds,
    entries: VecDeque<Entry>,
    /// Entries that were taken out: the place of an entry is counted from the first there ever was.
    taken: u64,
    /// Items that have a place in the queue; theirs are not events yet.
    places: usize,
    bytes: usize,
    /// The images that updates are merged into; `None` if none are merged.
    images: Option<Images>,
    /// Updates are merged at present.
    is_conflating: bool,
    overrun: Option<QueueOverrun>,
    stats: QueueStats,
}

/// What may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) when_full: WhenFull,
    pub(super) events_max: usize,
    pub(super) bytes_max: usize,
}

enum Entry {
    Event(OwnedEvent),
    /// An image, in parts.
    Parts(VecDeque<OwnedEvent>),
    /// What has changed of an item, when it is taken.
    Changes(ItemHandle),
    /// Nothing any more.
    Void,
}

impl EventQueue {
    pub(super) fn new(bounds: Bounds) -> EventQueue {
        EventQueue {
            bounds,
            entries: VecDeque::new(),
            taken: 0,
            places: 0,
            bytes: 0,
            images: (bounds.when_full == WhenFull::Conflate).then(Images::default),
            is_conflating: false,
            overrun: None,
            stats: QueueStats::default(),
        }
    }

    /// Whether events are looked at one by one, as they come.
    pub(super) fn merges(&self) -> bool {
        self.images.is_some()
    }

    /// Adds what has come.
    pub(super) fn push(&mut self, now: Nanos, event: ConsumerEvent<'_>) {
        if let ConsumerEvent::Item(item) = &event
            && self.merge(now, item)
        {
            return;
        }
        self.add(OwnedEvent::from(event));
    }

    /// The same for what was kept elsewhere.
    pub(super) fn push_owned(&mut self, now: Nanos, event: OwnedEvent) {
        if let OwnedEvent::Item(item) = &event
            && item.view(|item| self.merge(now, item))
        {
            return;
        }
        self.add(event);
    }

    /// Merges what has come with what waits, if that may be. If not, it makes sure that it comes behind that.
    fn merge(&mut self, now: Nanos, item: &ItemEvent<'_>) -> bool {
        let Some(images) = &mut self.images else { return false };
        let place = self.taken + self.entries.len() as u64;
        match images.take(now, item, self.is_conflating.then_some(place), &mut self.stats) {
            Intake::Event => false,
            Intake::Merged => true,
            Intake::Placed => {
                self.places += 1;
                self.entries.push_back(Entry::Changes(item.handle()));
                true
            }
            Intake::Behind(place, made) => {
                self.put(place, made);
                false
            }
        }
    }

    /// Adds an event that is not merged with any other.
    fn add(&mut self, event: OwnedEvent) {
        if self.overrun.is_some() {
            return;
        }
        self.stats.updates_in += u64::from(is_update(&event));
        if self.bounds.when_full == WhenFull::Fail
            && let Some(bound) = self.bounds.reached(1, self.waiting(), self.bytes)
        {
            let overrun = QueueOverrun { events: self.waiting(), bytes: self.bytes, bound };
            self.overrun = Some(overrun);
            self.bytes += EVENT_BYTES;
            return self.entries.push_back(Entry::Event(OwnedEvent::QueueFull(overrun)));
        }
        self.bytes += bytes_of(&event);
        self.entries.push_back(Entry::Event(event));
        self.stats.events_waiting_max = self.stats.events_waiting_max.max(self.waiting());
        self.stats.bytes_waiting_max = self.stats.bytes_waiting_max.max(self.bytes);
        if self.merges()
            && !self.is_conflating
            && self.bounds.reached(1, self.waiting(), self.bytes).is_some()
        {
            self.is_conflating = true;
            self.stats.conflations += 1;
        }
    }

    /// Values that waited at a place are an event there: something comes behind them.
    fn put(&mut self, place: u64, made: VecDeque<OwnedEvent>) {
        self.bytes += made.iter().map(bytes_of).sum::<usize>();
        self.places -= 1;
        let index = (place - self.taken) as usize;
        self.entries[index] = if made.is_empty() { Entry::Void } else { Entry::Parts(made) };
    }

    /// Takes the next event, if there is one.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<OwnedEvent> {
        loop {
            let Some(entry) = self.entries.pop_front() else {
                self.is_conflating = false;
                return None;
            };
            match entry {
                Entry::Event(event) => {
                    self.taken += 1;
                    return Some(self.give(event));
                }
                Entry::Parts(mut parts) => {
                    let event = parts.pop_front();
                    match parts.is_empty() {
                        true => self.taken += 1,
                        false => self.entries.push_front(Entry::Parts(parts)),
                    }
                    if let Some(event) = event {
                        return Some(self.give(event));
                    }
                }
                Entry::Changes(handle) => {
                    let (keeps, stats) = (self.is_conflating, &mut self.stats);
                    let made =
                        self.images.as_mut().map(|images| images.changes_of(now, handle, keeps, stats));
                    let made = made.unwrap_or_default();
                    self.places -= 1;
                    self.bytes += made.iter().map(bytes_of).sum::<usize>();
                    self.entries.push_front(Entry::Parts(made));
                }
                Entry::Void => self.taken += 1,
            }
        }
    }

    /// An event leaves the queue.
    fn give(&mut self, event: OwnedEvent) -> OwnedEvent {
        // All was taken: every update is an event again.
        self.is_conflating &= !self.entries.is_empty();
        self.bytes -= bytes_of(&event);
        if let OwnedEvent::Item(item) = &event {
            self.stats.merged_events += u64::from(item.merged.is_some_and(|merged| merged.updates > 0));
        }
        event
    }

    /// An item is gone: what would have been made of its changes is nobody's.
    pub(super) fn forget(&mut self, handle: ItemHandle) {
        let Some(place) = self.images.as_mut().and_then(|images| images.forget(handle, &mut self.stats))
        else {
            return;
        };
        self.places -= 1;
        self.entries[(place - self.taken) as usize] = Entry::Void;
    }

    /// Events that wait, without those that are still to be made of changes.
    fn waiting(&self) -> usize {
        self.entries.len() - self.places
    }

    /// Entries of any kind.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// So much waits that nothing more is to be read.
    pub(super) fn is_full(&self) -> bool {
        self.bounds.reached(self.times(), self.waiting(), self.bytes).is_some()
    }

    /// Enough of it is taken to go on.
    pub(super) fn has_room(&self) -> bool {
        let Bounds { events_max, bytes_max, .. } = self.bounds;
        self.waiting() <= events_max * self.times() / 2 && self.bytes <= bytes_max / 2 * self.times()
    }

    /// How often the bound may wait before nothing more is read: merging begins at the first.
    fn times(&self) -> usize {
        if self.merges() { 2 } else { 1 }
    }

    pub(super) fn note_blocked(&mut self) {
        self.stats.blocks += 1;
    }

    /// Why nothing more comes, if that is so.
    pub(super) fn overrun(&self) -> Option<QueueOverrun> {
        self.overrun
    }

    pub(super) fn stats(&self) -> QueueStats {
        QueueStats {
            events_waiting: self.waiting(),
            items_waiting: self.places,
            bytes_waiting: self.bytes,
            is_conflating: self.is_conflating,
            ..self.stats
        }
    }
}

impl Bounds {
    /// The bound that is reached, so many times.
    fn reached(&self, times: usize, events: usize, bytes: usize) -> Option<QueueBound> {
        let Bounds { events_max, bytes_max, .. } = *self;
        if events >= events_max.saturating_mul(times) {
            return Some(QueueBound::Events { max: events_max });
        }
        (bytes >= bytes_max.saturating_mul(times)).then_some(QueueBound::Bytes { max: bytes_max })
    }
}

fn bytes_of(event: &OwnedEvent) -> usize {
    if let OwnedEvent::Item(item) = event { EVENT_BYTES + item.message.len() } else { EVENT_BYTES }
}

fn is_update(event: &OwnedEvent) -> bool {
    let OwnedEvent::Item(item) = event else { return false };
    rwf::peek(&item.message).is_ok_and(|head| head.class == rwf::MsgClass::Update)
}
