//! Where in a stream of JetStream the packets are that are missing. Pure: what a server has found in, what it is asked next
//! out.
//!
//! A server finds the newest message of a subject, and the first one from a place on. Packets of one sender stand in the
//! order of their numbers, with other subjects and senders in between. So what is found divides the stream into regions: a
//! missing number can be in one of them only. Far from it the search estimates and halves; near it, it reads on. Several
//! regions are read at a time, because each request takes a way to the server and back.

use std::time::Duration;

use units::Nanos;

use super::wanted::Wanted;

/// So few numbers before a missing one the search ends and reading begins.
const NEAR: u64 = 32;
/// Regions with fewer places are not divided.
const DIVIDED: u64 = 16;
/// A stream that has not stored a packet yet is asked again after this time.
pub(super) const AGAIN: Duration = Duration::from_millis(5);
/// Most messages of one request.
const BATCH_MAX: u64 = 256;

/// What is asked of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Ask {
    /// The newest message of the subject.
    Last,
    /// The first one of the subject from this place on, and as many behind it.
    From {
        /// The place.
        sequence: u64,
        /// Most messages. Servers before 2.11 answer with one.
        most: u64,
    },
}

/// What was found at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A packet of the sender with this number.
    Packet(u64),
    /// A word of the sender that its last packet had this number.
    Word(u64),
    /// Something of somebody else.
    Other,
}

/// The answer is not one to what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// Places of the stream of which it is not known what is there.
struct Region {
    /// The first place, and the first one behind; without an end it goes as far as the stream.
    from: u64,
    to: Option<u64>,
    /// The sender's last number before these places, and its first one behind them, where they are known.
    above: Option<u64>,
    below: Option<u64>,
    /// Where to look next: something of somebody else was found before it.
    look_at: Option<u64>,
    /// How often it was estimated.
    estimates: u32,
    /// A server has found nothing here though there was something behind: it is read from the front alone.
    is_read_only: bool,
    not_before: Nanos,
    asked: Option<Asked>,
}

struct Asked {
    token: u64,
    /// The place; `None` for the newest message.
    at: Option<u64>,
}

impl Region {
    fn new(from: u64, to: Option<u64>, above: Option<u64>, below: Option<u64>) -> Region {
        Region {
            from,
            to,
            above,
            below,
            look_at: None,
            estimates: 0,
            is_read_only: false,
            not_before: Nanos::ZERO,
            asked: None,
        }
    }

    fn first_missing(&self, wanted: &Wanted) -> Option<u64> {
        wanted.first_missing(self.above.unwrap_or(0), self.below)
    }
}

/// The search for what one stream of packets misses.
pub(super) struct Search {
    /// In the order of their places. The last one has no end.
    regions: Vec<Region>,
}

impl Search {
    pub(super) fn new() -> Search {
        Search { regions: vec![Region::new(1, None, None, None)] }
    }

    /// What is to be asked next, under this number, if something is.
    pub(super) fn next(
        &mut self,
        now: Nanos,
        wanted: &mut Wanted,
        token: u64,
        regions_max: usize,
        is_batched: bool,
    ) -> Option<Ask> {
        let mut at = 0;
        while at < self.regions.len() {
            let region = &self.regions[at];
            if region.asked.is_some() || now < region.not_before {
                at += 1;
                continue;
            }
            let Some(first) = region.first_missing(wanted) else {
                // What comes may show that something is missing here too.
                if region.to.is_some() && region.below.is_some_and(|below| below <= wanted.last() + 1) {
                    self.regions.remove(at);
                } else {
                    at += 1;
                }
                continue;
            };
            if region.to.is_some_and(|to| region.from >= to) {
                self.end(at, wanted);
                continue;
            }
            if self.is_behind_an_open_end(at) {
                return None;
            }
            let divides = !is_batched && self.regions.len() < regions_max;
            let region = &mut self.regions[at];
            let ask = region.plan(first, wanted, divides);
            let place = match ask {
                Ask::Last => None,
                Ask::From { sequence, .. } => Some(sequence),
            };
            region.asked = Some(Asked { token, at: place });
            return Some(ask);
        }
        None
    }

    /// The region before it may have what would be looked for here.
    fn is_behind_an_open_end(&self, at: usize) -> bool {
        at > 0 && self.regions[at].above.is_none() && self.regions[at - 1].below.is_none()
    }

    /// All of a region was looked at: what is missing there is nowhere, or behind it.
    fn end(&mut self, at: usize, wanted: &mut Wanted) {
        let region = self.regions.remove(at);
        match region.below {
            Some(below) => wanted.give_up_between(region.above.unwrap_or(0), below),
            None => {
                if let Some(behind) = self.regions.get_mut(at) {
                    behind.above = behind.above.max(region.above);
                }
            }
        }
    }

    /// When something is to be asked again, if nothing comes before.
    pub(super) fn due(&self, wanted: &Wanted) -> Nanos {
        let idle = self.regions.iter().filter(|region| region.asked.is_none());
        let waiting = idle.filter(|region| region.first_missing(wanted).is_some());
        waiting.map(|region| region.not_before).min().unwrap_or(Nanos::NEVER)
    }

    fn asked(&mut self, token: u64) -> Option<usize> {
        let is_it = |region: &Region| region.asked.as_ref().is_some_and(|asked| asked.token == token);
        self.regions.iter().position(is_it)
    }

    /// Nothing comes any more to a request.
    pub(super) fn forget(&mut self, token: u64) {
        if let Some(at) = self.asked(token) {
            self.regions[at].asked = None;
        }
    }

    /// The server has not found anything.
    pub(super) fn on_nothing(&mut self, now: Nanos, token: u64) {
        if let Some(at) = self.asked(token) {
            let region = &mut self.regions[at];
            (region.asked, region.not_before) = (None, now + AGAIN);
            // A replica is behind, or another stream has taken the place of the one that was searched.
            region.is_read_only = region.to.is_some();
        }
    }

    /// The server has found something. What that shows to be missing is waited for until a point in time.
    pub(super) fn on_found(
        &mut self,
        (now, until): (Nanos, Nanos),
        (token, is_of_batch): (u64, bool),
        (place, found): (u64, Found),
        wanted: &mut Wanted,
    ) -> Result<(), Nonsense> {
        let Some(at) = self.asked(token) else { return Ok(()) };
        let Some(asked) = self.regions[at].asked.take() else { return Ok(()) };
        match asked.at {
            None => self.on_newest(now, at, place, found, wanted),
            Some(from) if place < from => return Err(Nonsense),
            Some(from) => {
                let goes_on = self.on_first(at, (from, place), found, until, wanted);
                if is_of_batch && goes_on {
                    self.regions[at].asked = Some(Asked { token, at: Some(place + 1) });
                }
            }
        }
        Ok(())
    }

    fn on_newest(&mut self, now: Nanos, at: usize, place: u64, found: Found, wanted: &Wanted) {
        let region = &mut self.regions[at];
        if place < region.from {
            // Nothing is new; or another stream has taken the place of the one that was searched.
            if place + 1 < region.from {
                *self = Search::new();
            }
            if let Some(last) = self.regions.last_mut() {
                last.not_before = now + AGAIN;
            }
            return;
        }
        let (from, above) = (region.from, region.above);
        let (number, below, to) = match found {
            // One that is ahead of what comes by itself may get lost yet.
            Found::Packet(number) if number > wanted.last() => {
                (Some(number), number.checked_add(1), place + 1)
            }
            Found::Packet(number) => (Some(number), Some(number), place),
            Found::Word(number) => (Some(number), number.checked_add(1), place),
            Found::Other => (None, None, place),
        };
        // A lower number than one before it is not the sender's.
        let is_of_sender = number.is_some_and(|number| wanted.may_reach(number)) && number >= above;
        let below = below.filter(|_| is_of_sender);
        (region.from, region.above) = (place + 1, number.filter(|_| is_of_sender));
        if region.first_missing(wanted).is_some() && is_of_sender {
            region.not_before = now + AGAIN;
        }
        self.regions.insert(at, Region::new(from, Some(to), above, below));
    }

    /// Returns whether the region is read on behind what was found.
    fn on_first(
        &mut self,
        at: usize,
        (from, place): (u64, u64),
        found: Found,
        until: Nanos,
        wanted: &mut Wanted,
    ) -> bool {
        let region = &mut self.regions[at];
        if region.to.is_some_and(|to| place >= to) {
            region.to = Some(from);
            return false;
        }
        let is_at_front = from == region.from;
        let (number, below) = match found {
            Found::Packet(number) => (number, number),
            Found::Word(number) => (number, number.saturating_add(1)),
            Found::Other => (0, 0),
        };
        // A number out of order is not the sender's.
        let is_of_sender = found != Found::Other
            && region.above.is_none_or(|above| number > above)
            && region.below.is_none_or(|end| number < end)
            && wanted.may_reach(number);
        if !is_of_sender {
            if is_at_front {
                region.from = place + 1;
            } else {
                region.look_at = Some(place + 1);
            }
            return is_at_front;
        }
        if is_at_front {
            // The stream may be ahead of what comes by itself.
            wanted.reach(number, until);
        }
        let above = region.above;
        let is_before_all =
            number <= wanted.last() && wanted.first_missing(above.unwrap_or(0), Some(below)).is_none();
        if is_at_front || is_before_all {
            // What is missing before it would have been found in its place.
            wanted.give_up_between(above.unwrap_or(0), below);
            (region.from, region.above, region.estimates) = (place + 1, Some(number), 0);
            return is_at_front;
        }
        // One that is ahead of what comes by itself may get lost yet.
        let is_ahead = number > wanted.last() && found == Found::Packet(number);
        let (to, below) = if is_ahead { (place + 1, below + 1) } else { (from, below) };
        let left =
            Region { estimates: region.estimates, ..Region::new(region.from, Some(to), above, Some(below)) };
        (region.from, region.above, region.estimates) = (place + 1, Some(number), 0);
        self.regions.insert(at, left);
        false
    }
}

impl Region {
    /// Where to look for a number that is missing here.
    fn plan(&mut self, first: u64, wanted: &Wanted, divides: bool) -> Ask {
        let is_near = self.above.is_some_and(|above| first - above <= NEAR);
        if self.is_read_only {
            return self.read_on(wanted);
        }
        let Some(to) = self.to else {
            let are_few = wanted.last() - first < DIVIDED;
            return if is_near && (are_few || !divides) { self.read_on(wanted) } else { Ask::Last };
        };
        let places = to - self.from;
        if let Some(place) = self.look_at.take().filter(|place| (self.from..to).contains(place)) {
            return Ask::From { sequence: place, most: 1 };
        }
        let numbers = self.below.unwrap_or(wanted.last() + 1) - first;
        if is_near {
            return if divides && places >= DIVIDED && numbers >= DIVIDED {
                Ask::From { sequence: self.from + places / 2, most: 1 }
            } else {
                self.read_on(wanted)
            };
        }
        self.estimates += 1;
        let offset = match self.above {
            // As if the sender's packets were spread evenly, then by halves.
            Some(above) if self.estimates % 2 == 1 => {
                let of = u128::from(first + numbers - above);
                (u128::from(places) * u128::from(first - above - 1) / of) as u64
            }
            Some(_) => places / 2,
            // As if nobody else had sent anything, then twice as far each time.
            None => {
                let back = u128::from(numbers + 1) << (self.estimates - 1).min(64);
                places - 1 - back.min(u128::from(places - 1)) as u64
            }
        };
        Ask::From { sequence: self.from + offset.min(places - 1), most: 1 }
    }

    fn read_on(&self, wanted: &Wanted) -> Ask {
        let numbers = self.below.unwrap_or(wanted.last() + 1).saturating_sub(self.above.unwrap_or(0) + 1);
        Ask::From { sequence: self.from, most: numbers.clamp(1, BATCH_MAX) }
    }
}
