//! What waits behind a hole of one stream of packets: the packets that have come, and the numbers of those that have not.
//! Pure.

use std::collections::{BTreeMap, VecDeque};

use units::Nanos;

/// Packets that may be missing in one stream at a time; with more of them the hole is not waited for.
pub(super) const MISSING_MAX: u64 = 65_536;
/// Numbers above are nobody's.
pub(super) const NUMBER_MAX: u64 = 1 << 62;
/// Holes that are told from each other. Those beyond count as a part of the last one.
const GAPS_MAX: usize = 64;
/// What a packet takes beside its bytes, about.
const PACKET_COST: usize = 96;

/// Numbers of which at least the first was missing when it was noticed.
struct Gap {
    first: u64,
    last: u64,
    /// So long it is waited for.
    until: Nanos,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A packet, whole.
    Packet(Vec<u8>),
    /// Packets are given up.
    Lost {
        /// All that are missing with lower numbers.
        before: u64,
    },
    /// A packet that is missing.
    Missing,
    /// There is no hole any more.
    Whole,
}

/// Everything from the first packet that is missing on.
pub(super) struct Wanted {
    /// The number that is handed on next.
    next: u64,
    /// The highest number that is known to have been sent.
    last: u64,
    gaps: VecDeque<Gap>,
    /// Packets by their numbers; those that nobody has any more are `None`.
    held: BTreeMap<u64, Option<Vec<u8>>>,
    bytes: usize,
}

impl Wanted {
    /// `next` is missing.
    pub(super) fn new(next: u64) -> Wanted {
        Wanted { next, last: next - 1, gaps: VecDeque::new(), held: BTreeMap::new(), bytes: 0 }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes of what is held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many packets are missing.
    pub(super) fn missing(&self) -> u64 {
        (self.last + 1 - self.next) - self.held.len() as u64
    }

    /// When the first hole is given up.
    pub(super) fn until(&self) -> Nanos {
        self.gaps.front().map_or(Nanos::NEVER, |gap| gap.until)
    }

    /// When [`Wanted::take`] has something.
    pub(super) fn ready_at(&self) -> Nanos {
        if self.next > self.last || self.held.contains_key(&self.next) { Nanos::ZERO } else { self.until() }
    }

    /// Whether a packet with this number leaves no more of them missing than there may be.
    pub(super) fn may_reach(&self, number: u64) -> bool {
        number <= NUMBER_MAX
            && number.saturating_sub(self.last) <= MISSING_MAX - self.missing().min(MISSING_MAX)
    }

    /// Packets up to this number have been sent.
    pub(super) fn reach(&mut self, number: u64, until: Nanos) {
        if number <= self.last {
            return;
        }
        let first = self.last + 1;
        self.last = number;
        let are_many = self.gaps.len() >= GAPS_MAX;
        match self.gaps.back_mut() {
            Some(gap) if are_many || gap.last + 1 == first => gap.last = number,
            _ => self.gaps.push_back(Gap { first, last: number, until }),
        }
    }

    /// Keeps a packet. Returns whether it was missing, or is the next one behind all others.
    pub(super) fn hold(&mut self, number: u64, bytes: &[u8], until: Nanos) -> bool {
        if number < self.next || self.held.contains_key(&number) {
            return false;
        }
        self.reach(number - 1, until);
        self.last = self.last.max(number);
        self.bytes += bytes.len() + PACKET_COST;
        self.held.insert(number, Some(bytes.to_vec()));
        true
    }

    /// Whether a packet is known to have been sent, and is not there.
    pub(super) fn is_missing(&self, number: u64) -> bool {
        (self.next..=self.last).contains(&number) && !self.held.contains_key(&number)
    }

    /// The first number that is missing above one number and, if there is one, below another.
    pub(super) fn first_missing(&self, above: u64, below: Option<u64>) -> Option<u64> {
        let end = below.map_or(u64::MAX, |below| below.saturating_sub(1));
        for gap in self.gaps.iter().filter(|gap| gap.last > above) {
            let mut number = gap.first.max(above + 1).max(self.next);
            while number <= gap.last.min(end) {
                if !self.held.contains_key(&number) {
                    return Some(number);
                }
                number += 1;
            }
            if gap.last >= end {
                return None;
            }
        }
        None
    }

    /// Nobody has any more what is missing between two numbers.
    pub(super) fn give_up_between(&mut self, above: u64, below: u64) {
        let mut from = above;
        while let Some(number) = self.first_missing(from, Some(below)) {
            self.held.insert(number, None);
            self.bytes += PACKET_COST;
            from = number;
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn give_up(&mut self) {
        self.gaps.iter_mut().for_each(|gap| gap.until = Nanos::ZERO);
    }

    /// Takes what comes next.
    pub(super) fn take(&mut self, now: Nanos) -> Step {
        let start = self.next;
        loop {
            while self.gaps.front().is_some_and(|gap| gap.last < self.next) {
                self.gaps.pop_front();
            }
            match self.held.get(&self.next) {
                Some(Some(_)) if self.next > start => return Step::Lost { before: self.next },
                Some(_) => {
                    let held = self.held.remove(&self.next).flatten();
                    self.next += 1;
                    self.bytes -= PACKET_COST + held.as_ref().map_or(0, Vec::len);
                    if let Some(packet) = held {
                        return Step::Packet(packet);
                    }
                }
                None if self.next > self.last => {
                    return if self.next > start { Step::Lost { before: self.next } } else { Step::Whole };
                }
                None => match self.gaps.front() {
                    Some(gap) if now < gap.until => {
                        return if self.next > start {
                            Step::Lost { before: self.next }
                        } else {
                            Step::Missing
                        };
                    }
                    gap => {
                        let end = gap.map_or(self.last, |gap| gap.last) + 1;
                        let held = self.held.range(self.next..).next().map(|(number, _)| *number);
                        self.next = held.unwrap_or(end).min(end);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Nanos = Nanos(1_000);

    fn wanted(next: u64, held: &[u64]) -> Wanted {
        let mut wanted = Wanted::new(next);
        held.iter().for_each(|number| assert!(wanted.hold(*number, &number.to_be_bytes(), UNTIL)));
        wanted
    }

    /// Takes all that can be had: numbers of packets, and behind an `x` those up to which there is nothing.
    fn take_all(wanted: &mut Wanted, now: u64) -> String {
        let mut all = Vec::new();
        loop {
            match wanted.take(Nanos(now)) {
                Step::Packet(bytes) => {
                    all.push(u64::from_be_bytes(bytes.try_into().expect("as written")).to_string());
                }
                Step::Lost { before } => all.push(format!("x{before}")),
                Step::Missing => return all.join(" ") + " missing",
                Step::Whole => return all.join(" ") + " whole",
            }
        }
    }

    #[test]
    fn packets_come_out_in_order_when_the_hole_is_filled() {
        let mut wanted = wanted(5, &[7, 8]);
        assert_eq!((wanted.missing(), wanted.last()), (2, 8));
        assert_eq!(take_all(&mut wanted, 0), " missing");
        assert!(wanted.hold(6, &6u64.to_be_bytes(), UNTIL));
        assert!(!wanted.hold(6, b"twice", UNTIL) && !wanted.hold(8, b"twice", UNTIL));
        assert_eq!(take_all(&mut wanted, 0), " missing");
        assert!(wanted.hold(5, &5u64.to_be_bytes(), UNTIL));
        assert_eq!(take_all(&mut wanted, 0), "5 6 7 8 whole");
        assert!(!wanted.hold(8, b"late", UNTIL));
        assert_eq!((wanted.bytes(), wanted.missing()), (0, 0));
    }

    #[test]
    fn each_hole_has_its_own_time() {
        let mut wanted = wanted(5, &[6]);
        assert!(wanted.hold(9, &9u64.to_be_bytes(), Nanos(2_000)));
        wanted.reach(11, Nanos(3_000));
        assert_eq!(wanted.until(), UNTIL);
        assert_eq!(take_all(&mut wanted, 1_000), "x6 6 missing");
        assert_eq!(wanted.until(), Nanos(2_000));
        assert!(wanted.hold(7, &7u64.to_be_bytes(), UNTIL));
        assert_eq!(take_all(&mut wanted, 2_000), "7 x9 9 missing", "filled in part");
        assert_eq!(take_all(&mut wanted, 3_000), "x12 whole", "at the tail");
    }

    #[test]
    fn what_nobody_has_is_not_waited_for() {
        let mut wanted = wanted(5, &[8, 10]);
        wanted.give_up_between(5, 9);
        assert_eq!(take_all(&mut wanted, 0), " missing", "5 may be there");
        wanted.give_up_between(0, 6);
        assert_eq!(take_all(&mut wanted, 0), "x8 8 missing");
        wanted.give_up();
        assert_eq!(take_all(&mut wanted, 0), "x10 10 whole");
        assert_eq!(wanted.bytes(), 0);
    }

    #[test]
    fn the_first_missing_number_is_found_between_bounds() {
        let mut wanted = wanted(5, &[7, 8, 12]);
        wanted.reach(14, UNTIL);
        let first = |above, below| wanted.first_missing(above, below);
        assert_eq!([first(0, None), first(5, None), first(6, None)], [Some(5), Some(6), Some(9)]);
        assert_eq!([first(11, None), first(12, Some(13)), first(14, None)], [Some(13), None, None]);
        assert_eq!([first(6, Some(9)), first(6, Some(10)), first(0, Some(0))], [None, Some(9), None]);
    }

    #[test]
    fn very_many_holes_are_one_at_last() {
        let mut wanted = Wanted::new(1);
        for number in 1..1_000 {
            assert!(wanted.hold(2 * number, &(2 * number).to_be_bytes(), UNTIL));
        }
        assert_eq!((wanted.gaps.len(), wanted.missing()), (GAPS_MAX, 999));
        for number in 1..1_000 {
            assert_eq!(wanted.first_missing(2 * number - 2, None), Some(2 * number - 1));
        }
        assert_eq!(take_all(&mut wanted, 1_000).split(' ').filter(|word| word.starts_with('x')).count(), 999);
    }
}
