//! The receiving side of one stream of the backbone.

use super::behind::{Behind, Unreported};
use super::ledger::{AccountId, Losses, LostRange, StreamCounts, StreamLedger};
use super::merge::SideNo;
use crate::backbone::Kind;
use units::Nanos;

/// What a message's number says about those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It follows.
    Next,
    /// Numbers are missing before it, both ends included.
    Gap {
        /// The first one missing.
        first: u64,
        /// The last one missing.
        last: u64,
    },
    /// It was seen already.
    Old,
}

/// One source of a service's topic: the messages of one instance.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) service: u16,
    /// Known from the first message on.
    pub(super) instance: Option<u64>,
    /// The service comes from here now; else only the numbers are followed.
    pub(super) is_active: bool,
    /// The service is hot, and this is one of its sides.
    side: Option<u8>,
    /// Something has come since progress was reported last.
    pub(super) has_moved: bool,
    /// When something came last, or when it was found: it is to say something at every heartbeat of its instance.
    pub(super) heard_at: Nanos,
    /// It said nothing for too long, though its instance did, until it is heard again.
    pub(super) is_silent: bool,
    /// The number that has to come next; 0 before anything is known.
    next: u64,
    /// What waits behind gaps.
    pub(super) behind: Behind,
    /// What was lost and operators have not been notified of.
    pub(super) unreported: Unreported,
    /// What is counted of its service.
    pub(super) account: AccountId,
    /// The number that was to come first.
    first: u64,
    received: u64,
    standby: u64,
    pub(super) dropped_behind: u64,
    losses: Losses,
    /// Place of the item of each id, plus one; 0 for ids of no item here.
    items: Vec<u32>,
}

impl Incoming {
    pub(super) fn new(now: Nanos, service: u16, account: AccountId) -> Incoming {
        Incoming {
            service,
            instance: None,
            is_active: false,
            side: None,
            has_moved: false,
            heard_at: now,
            is_silent: false,
            next: 0,
            behind: Behind::default(),
            unreported: Unreported::default(),
            account,
            first: 0,
            received: 0,
            standby: 0,
            dropped_behind: 0,
            losses: Losses::default(),
            items: Vec::new(),
        }
    }

    /// The number up to which everything has come, or is known to be lost. What is being released counts when its turn
    /// has come.
    pub(super) fn taken(&self) -> u64 {
        self.behind.next_sequence().unwrap_or(self.next).saturating_sub(1)
    }

    /// The number up to which items have got their messages: of what waits behind a gap they have not.
    pub(super) fn handed_on(&self) -> u64 {
        self.behind.first_number().unwrap_or(self.next).saturating_sub(1)
    }

    /// Takes the number of a message that has one of its own.
    #[inline]
    pub(super) fn on_message(&mut self, sequence: u64) -> Order {
        if sequence == self.next {
            self.next = sequence + 1;
            self.received += 1;
            return Order::Next;
        }
        self.out_of_order(sequence)
    }

    #[cold]
    fn out_of_order(&mut self, sequence: u64) -> Order {
        if sequence < self.next {
            return Order::Old;
        }
        self.received += 1;
        self.skip_to(sequence, sequence - 1)
    }

    /// Everything up to `last` should have come, and `last` or the number behind it is the highest now.
    fn skip_to(&mut self, highest: u64, last: u64) -> Order {
        let first = std::mem::replace(&mut self.next, highest + 1);
        if first == 0 {
            self.first = last + 1;
            return Order::Next;
        }
        self.losses.note(first, last);
        Order::Gap { first, last }
    }

    /// Takes the highest number sent so far: everything up to it should have come.
    pub(super) fn on_heartbeat(&mut self, highest: u64) -> Order {
        if highest < self.next {
            return Order::Next;
        }
        self.skip_to(highest, highest)
    }

    /// Whether an image taken after `sequence` and this stream leave no hole between them.
    ///
    /// If the item's id was known before (`was_bound`), everything since was held back. Otherwise the
    /// messages received so far were dropped as unwatched, and the image must be at least as new as they are.
    /// If the stream has not begun, it has to begin behind the image.
    pub(super) fn joins_image(&mut self, sequence: u64, was_bound: bool) -> bool {
        if self.next == 0 {
            self.next = sequence + 1;
            self.first = self.next;
        }
        was_bound || sequence + 1 >= self.next
    }

    /// The place of an item in the server's table.
    #[inline]
    pub(super) fn item(&self, id: u32) -> Option<usize> {
        match self.items.get(id as usize) {
            None | Some(0) => None,
            Some(&place) => Some(place as usize - 1),
        }
    }

    /// Lets an id stand for an item. Ids are given out densely, so one far beyond the others is a fault.
    pub(super) fn bind(&mut self, id: u32, place: usize) -> bool {
        let at = id as usize;
        if at >= ID_LIMIT {
            return false;
        }
        if self.items.len() <= at {
            self.items.resize(at + 1, 0);
        }
        self.items[at] = place as u32 + 1;
        true
    }

    pub(super) fn unbind(&mut self, id: u32) {
        if let Some(place) = self.items.get_mut(id as usize) {
            *place = 0;
        }
    }

    /// The service comes from elsewhere: forgets which item each id stands for, and what waits.
    pub(super) fn deactivate(&mut self) {
        self.is_active = false;
        self.drop_behind();
        self.items.clear();
    }
}

/// What is counted.
impl Incoming {
    /// A message came while the service comes from elsewhere.
    pub(super) fn count_standby(&mut self, order: Order, kind: Kind) {
        if order != Order::Old && kind != Kind::Heartbeat {
            self.standby += 1;
        }
    }

    /// One of them is taken after all.
    pub(super) fn take_from_standby(&mut self) {
        self.standby = self.standby.saturating_sub(1);
    }

    /// Whether anything has ever come.
    pub(super) fn was_heard(&self) -> bool {
        self.instance.is_some()
    }

    /// The side of its hot service that this is.
    pub(super) fn side(&self) -> Option<SideNo> {
        self.side.map(usize::from)
    }

    pub(super) fn set_side(&mut self, side: Option<SideNo>) {
        self.side = side.map(|side| side as u8);
    }

    /// Whether items get what comes here.
    pub(super) fn is_followed(&self) -> bool {
        self.is_active || self.side.is_some()
    }

    /// Drops what waits behind gaps.
    pub(super) fn drop_behind(&mut self) {
        self.dropped_behind += self.behind.clear();
    }

    pub(super) fn counts(&self) -> StreamCounts {
        StreamCounts {
            numbers: self.next - self.first,
            received: self.received,
            lost: self.losses.messages,
            standby: self.standby,
            behind_gaps: self.behind.messages(),
            dropped_behind_gaps: self.dropped_behind,
        }
    }

    pub(super) fn lost_ranges(&self) -> impl Iterator<Item = LostRange> + '_ {
        let instance = self.instance.unwrap_or_default();
        self.losses.ranges.iter().map(move |&(first, last)| LostRange { instance, first, last })
    }

    pub(super) fn to_ledger(&self) -> StreamLedger {
        StreamLedger {
            instance: self.instance,
            is_followed: self.is_followed(),
            first: self.first,
            counts: self.counts(),
            lost: self.lost_ranges().collect(),
        }
    }
}

/// Ids are 4 bytes of table each: 64 million are 256 MB, and more than any feed has items.
const ID_LIMIT: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_jump_or_are_old() {
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        assert_eq!(stream.on_message(10), Order::Next, "the first one begins wherever it is");
        assert_eq!(stream.on_message(11), Order::Next);
        assert_eq!(stream.on_message(14), Order::Gap { first: 12, last: 13 });
        assert_eq!(stream.on_message(13), Order::Old);
        assert_eq!(stream.on_message(15), Order::Next);
    }

    #[test]
    fn a_heartbeat_shows_a_lost_tail_once() {
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        stream.on_message(1);
        assert_eq!(stream.on_heartbeat(1), Order::Next);
        assert_eq!(stream.on_heartbeat(4), Order::Gap { first: 2, last: 4 });
        assert_eq!(stream.on_heartbeat(4), Order::Next);
        assert_eq!(stream.on_message(5), Order::Next);
    }

    #[test]
    fn an_image_older_than_what_was_dropped_is_of_no_use() {
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        stream.on_message(10);
        assert!(!stream.joins_image(9, false), "10 may have been an update of the item");
        assert!(stream.joins_image(9, true), "then 10 was held back");
        assert!(stream.joins_image(10, false));
        assert!(stream.joins_image(50, false), "the image may be ahead of the stream");
    }

    #[test]
    fn an_image_that_comes_before_the_stream_starts_its_numbers() {
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        assert!(stream.joins_image(7, false));
        assert!(stream.joins_image(9, false));
        assert_eq!(stream.on_message(10), Order::Gap { first: 8, last: 9 });
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        assert_eq!(stream.on_heartbeat(0), Order::Next, "nothing was sent yet");
        assert_eq!(stream.on_message(1), Order::Next);
    }

    #[test]
    fn ids_stand_for_items_until_unbound() {
        let mut stream = Incoming::new(Nanos::ZERO, 1, 0);
        assert!(stream.bind(3, 0));
        assert_eq!((stream.item(3), stream.item(2), stream.item(4)), (Some(0), None, None));
        stream.unbind(3);
        assert_eq!(stream.item(3), None);
        assert!(!stream.bind(u32::MAX, 0));
    }
}
