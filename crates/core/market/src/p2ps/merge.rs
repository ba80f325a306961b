//! Which copy of a message of an item is taken, where two instances publish the item from the same input.
//!
//! Both streams are in order, and each knows what it has lost. What is compared is the number that the provider gave the
//! message: the first copy of a number is taken, the second is dropped and held against it. [`Merge::judge`] is the rule;
//! it looks at no clock and sends nothing.
//!
//! | a message of a side that is joined | is |
//! |---|---|
//! | has the number behind the last one taken | taken |
//! | has an older number | dropped; if its copy was another message, the sides differ |
//! | leaves out numbers | held until the other side, if joined, has had its say: it may have them. If the image of one that is not joined yet has one of them, all of the item comes anew |
//! | is a part of an image | taken of the side that leads alone; the other one has to be joined again |
//! | has no number, or one that does not grow | taken of the side that leads alone, and so is all that follows |
//!
//! A side is *joined* when it has been seen to say the same: its image was equal at the same number, or a message of its
//! was the copy of one that was taken. Numbers alone prove nothing, since each instance may have them from a provider
//! that counts for itself. Only a side that is joined may go on alone without an image.

use std::collections::VecDeque;

use units::{Nanos, Sqn};

use crate::backbone::Kind;

/// One of the two.
pub(super) type SideNo = usize;

/// What is compared of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// Its number in the stream of its side.
    pub(super) sequence: u64,
    /// The provider's number.
    pub(super) number: Option<u32>,
    /// Of what it says.
    pub(super) digest: u32,
    /// It is one of several parts of an image: parts of two sides do not fit together.
    pub(super) is_part: bool,
}

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) head: Head,
    pub(super) body: Box<[u8]>,
    /// The other side is waited for until then.
    pub(super) until: Nanos,
}

/// How far a side is with an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing of it is used.
    #[default]
    Out,
    /// It is asked for an image; its messages wait.
    Asked,
    /// It is asked, and has said that the image has to wait for the provider, or that there is no such item.
    Refused { is_closed: bool },
    /// Its image has come. Whether it is the same is not known yet.
    Unproven,
    /// It is known to say the same.
    Joined,
}

/// One of the two streams of an item.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) standing: Standing,
    /// The instance knows that the item is wanted.
    pub(super) is_registered: bool,
    /// The item's id in the stream.
    pub(super) id: Option<u32>,
    /// The provider says there that the data is to be trusted.
    pub(super) is_good: bool,
    /// It has let the other one wait for longer than it should.
    pub(super) is_slow: bool,
    /// The provider's number of the last message, or of the image.
    pub(super) last: Option<u32>,
    /// Messages of the stream up to this one are in the image.
    pub(super) after: u64,
    /// What waits: for the image, or for the other side.
    pub(super) waiting: VecDeque<Waiting>,
    bytes: usize,
    /// It is in the row of those that are to be asked.
    pub(super) is_in_row: bool,
    /// It is looked at again at a time.
    pub(super) is_due: bool,
    /// Something that waited was dropped for want of room: an image has to be younger than that.
    pub(super) dropped: u64,
}

impl Side {
    /// Whether the item can go on from here without an image.
    pub(super) fn is_usable(&self) -> bool {
        self.standing == Standing::Joined && self.is_good
    }

    /// Whether messages of it may be taken, now or when its image is there.
    fn is_followed(&self) -> bool {
        matches!(self.standing, Standing::Asked | Standing::Unproven | Standing::Joined)
    }

    /// Lets a message wait; `false` if there is no room for it. Then nothing waits any more.
    pub(super) fn hold(&mut self, (head, body): (Head, &[u8]), until: Nanos, bytes_max: usize) -> bool {
        if self.bytes + body.len() > bytes_max {
            self.dropped = head.sequence;
            self.drop_waiting();
            return false;
        }
        self.bytes += body.len();
        self.waiting.push_back(Waiting { head, body: body.into(), until });
        true
    }

    fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.body.len();
        Some(first)
    }

    fn drop_waiting(&mut self) {
        self.waiting = VecDeque::new();
        self.bytes = 0;
    }

    /// Nothing of it is used from now on.
    pub(super) fn leave(&mut self) {
        self.standing = Standing::Out;
        self.is_slow = false;
        self.last = None;
        self.drop_waiting();
    }

    /// An image is asked for.
    pub(super) fn ask(&mut self) {
        self.leave();
        self.standing = Standing::Asked;
        self.is_registered = true;
        self.dropped = 0;
    }
}

/// What is done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the next one.
    Take,
    /// It is the next one, and has no number that could be compared: the other side is of no use from here on.
    TakeAlone,
    /// Its copy was taken, or it is in the image.
    Drop,
    /// As `Drop`, and the copy that was taken was another message.
    Differs,
    /// It waits for the other side.
    Hold,
    /// It came too late, or cannot be put in order: clients have not had what they should.
    Lost,
    /// It cannot be compared: the other side goes on alone.
    Leave,
}

/// So many numbers that were taken last are remembered, with what the messages said.
const RECENT: usize = 8;

/// So often an image is asked for again that is older than what clients have had.
const YOUNGER_TRIES: u8 = 3;

/// The wait for the next image that may prove a side doubles so often, less one.
const PROOFS_MAX: u8 = 7;

/// So many jumps are remembered one by one that the other side has not confirmed. Beyond, the last one gets longer: a number
/// in it may have been taken, but none that was not is dropped in silence.
const HOLES_MAX: usize = 128;

/// Numbers that were not taken: behind the first, before the second.
#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u32,
    to: u32,
    /// The side that has left them out.
    by: u8,
}

impl Hole {
    fn has(&self, number: u32) -> bool {
        precedes(self.from, number) && precedes(number, self.to)
    }
}

/// The two streams of an item, and what was taken of them.
#[derive(Debug, Default)]
pub(super) struct Merge {
    pub(super) sides: [Side; 2],
    /// The one that things without a number are taken of.
    pub(super) lead: SideNo,
    /// The number of the last message that was taken. Without one nothing can be compared.
    pub(super) number: Option<u32>,
    /// The two have said different things under one number: they are not compared until both are asked anew.
    pub(super) is_distrusted: bool,
    recent: [(u32, u32); RECENT],
    recent_count: u8,
    recent_at: u8,
    /// Numbers that a side has left out and that the other one may still have.
    holes: Vec<Hole>,
    /// How it is counted at present.
    pub(super) counted: Option<Following>,
    /// It is on the list of those that wait for the other side.
    pub(super) is_listed: bool,
    /// Its next image is to come from here: the other one lacks something.
    pub(super) prefers: Option<SideNo>,
    tries: u8,
    /// Images that have proven nothing.
    proofs: u8,
}

/// How an item of a hot service is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// At both instances.
    Both,
    /// At one; the other is not there or not proven.
    One,
    /// At one, since messages cannot be compared.
    Unnumbered,
}

fn precedes(number: u32, other: u32) -> bool {
    Sqn(number).precedes(Sqn(other))
}

pub(super) const fn other(side: SideNo) -> SideNo {
    1 - side
}

/// A short digest of what a message says; of no use against somebody who wants two to be alike. Its last bit says whether
/// it is an image.
pub(super) fn digest(kind: Kind, container: u8, payload: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = payload.as_chunks::<8>();
    let begin = mix(u64::from(container), payload.len() as u64);
    let hash = words.iter().fold(begin, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    (mix(hash, last) >> 32) as u32 & !1 | u32::from(kind == Kind::Refresh)
}

impl Merge {
    /// How the item is followed at present.
    pub(super) fn following(&self) -> Following {
        match self.number {
            None => Following::Unnumbered,
            Some(_) if self.sides.iter().all(Side::is_usable) => Following::Both,
            Some(_) => Following::One,
        }
    }

    fn recent(&self) -> &[(u32, u32)] {
        &self.recent[..usize::from(self.recent_count)]
    }

    fn remember(&mut self, number: u32, digest: u32) {
        self.recent[usize::from(self.recent_at)] = (number, digest);
        self.recent_at = (self.recent_at + 1) % RECENT as u8;
        self.recent_count = (self.recent_count + 1).min(RECENT as u8);
    }

    /// Whether an image that is older than what clients have had is to be asked for again: not for ever, since the provider
    /// may have begun to count anew.
    pub(super) fn wants_younger(&mut self) -> bool {
        self.tries += 1;
        self.tries <= YOUNGER_TRIES
    }

    /// An image has proven nothing; how often the wait for the next one doubles.
    pub(super) fn next_proof(&mut self) -> u8 {
        self.proofs = (self.proofs + 1).min(PROOFS_MAX);
        self.proofs - 1
    }

    /// The item goes on from the image of a side, whatever was before. The other one has to be joined anew.
    pub(super) fn adopt(&mut self, side: SideNo, number: Option<u32>) {
        self.lead = side;
        self.tries = 0;
        self.number = number.filter(|_| !self.is_distrusted);
        self.recent_count = 0;
        self.recent_at = 0;
        self.holes.clear();
        self.sides[side].last = number;
        self.sides[side].standing = Standing::Joined;
        self.sides[side].is_slow = false;
        let second = &mut self.sides[other(side)];
        if matches!(second.standing, Standing::Unproven | Standing::Joined) {
            second.leave();
        }
    }

    /// The image of a side has come while the item goes on from the other one. `is_equal` is known if it is of the number
    /// that was taken last. Returns whether it differs.
    pub(super) fn compare(&mut self, side: SideNo, number: Option<u32>, is_equal: Option<bool>) -> bool {
        let lead = &self.sides[other(side)];
        if self.number.is_none() && !self.is_distrusted && number.is_some() && lead.last.is_some() {
            // What the side that leads says has numbers again.
            self.number = lead.last;
            self.recent_count = 0;
            self.recent_at = 0;
            self.holes.clear();
        }
        let (Some(number), Some(last)) = (number, self.number) else {
            self.sides[side].leave();
            return false;
        };
        self.sides[side].last = Some(number);
        let is_equal = is_equal.filter(|_| number == last);
        match is_equal {
            Some(true) => {
                self.sides[side].standing = Standing::Joined;
                self.proofs = 0;
            }
            Some(false) => self.sides[side].leave(),
            None => self.sides[side].standing = Standing::Unproven,
        }
        is_equal == Some(false)
    }

    /// What is to be done with the next message of a side whose image is there. The state is not changed.
    pub(super) fn judge(&self, side: SideNo, head: &Head) -> Verdict {
        let (own, second) = (&self.sides[side], &self.sides[other(side)]);
        if head.sequence <= own.after {
            return Verdict::Drop;
        }
        let leads = side == self.lead;
        let Some(taken) = self.number else {
            let begins = head.kind == Kind::Refresh && head.number.is_some() && !head.is_part;
            return match leads {
                true if begins && !self.is_distrusted => Verdict::TakeAlone,
                true => Verdict::Take,
                false => Verdict::Drop,
            };
        };
        if !matches!(head.kind, Kind::Update | Kind::Refresh) {
            return if leads { Verdict::Take } else { Verdict::Drop };
        }
        let is_current = own.last == Some(taken);
        if head.is_part {
            return match (leads, is_current) {
                (true, true) => Verdict::Take,
                (true, false) => Verdict::Lost,
                (false, _) => Verdict::Leave,
            };
        }
        let grows = |number| own.last.is_none_or(|last| precedes(last, number));
        let Some(number) = head.number.filter(|number| grows(*number)) else {
            let is_repeated = head.kind == Kind::Refresh && head.number.is_some() && head.number == own.last;
            return match (leads, is_current) {
                (true, true) if is_repeated => Verdict::Take,
                (_, _) if is_repeated => Verdict::Drop,
                (true, true) => Verdict::TakeAlone,
                (true, false) => Verdict::Lost,
                // The other one has it too, or not: it is taken from there alone.
                (false, _) => Verdict::Leave,
            };
        };
        if number == taken || precedes(number, taken) {
            let copy = self.recent().iter().find(|(known, _)| *known == number);
            if copy.is_none() && self.holes.iter().any(|hole| hole.has(number)) {
                return Verdict::Lost;
            }
            return match copy {
                // An image that a side sends again has the number of the last update.
                Some((_, said)) if *said != head.digest && (*said ^ head.digest) & 1 == 0 => Verdict::Differs,
                _ => Verdict::Drop,
            };
        }
        if own.standing != Standing::Joined {
            return Verdict::Hold;
        }
        if number == taken.wrapping_add(1) {
            return Verdict::Take;
        }
        if !second.is_usable() {
            // What the image of the other one has was not left out by the provider.
            let is_between = |last| precedes(taken, last) && precedes(last, number);
            let has_more = second.standing == Standing::Unproven && second.last.is_some_and(is_between);
            return if has_more { Verdict::Lost } else { Verdict::Take };
        }
        match second.waiting.front().and_then(|waiting| waiting.head.number) {
            Some(theirs) if precedes(theirs, number) => Verdict::Hold,
            Some(_) => Verdict::Take,
            None if second.is_slow => Verdict::Take,
            None => Verdict::Hold,
        }
    }

    /// What was judged of a message is done: the side has said it. Returns how many numbers it did not have that the other
    /// one had, among those remembered.
    pub(super) fn settle(&mut self, side: SideNo, head: &Head, verdict: Verdict) -> usize {
        let Some(number) = head.number.filter(|_| matches!(head.kind, Kind::Update | Kind::Refresh)) else {
            if verdict == Verdict::TakeAlone {
                self.number = None;
                self.sides[side].last = None;
            }
            return 0;
        };
        if head.sequence <= self.sides[side].after {
            return 0;
        }
        let before = self.sides[side].last.replace(number);
        let taken = self.number;
        let left_out = self.left_out(before, number);
        match verdict {
            Verdict::Take if taken.is_some() => {
                let taken = taken.unwrap_or_default();
                if !self.sides[other(side)].is_followed() {
                    // Its image will have what it has.
                    self.holes = Vec::new();
                } else if number != taken.wrapping_add(1) && precedes(taken, number) {
                    self.note_hole(Hole { from: taken, to: number, by: side as u8 });
                }
                self.number = Some(number);
                self.remember(number, head.digest);
                self.sides[side].is_slow = false;
                left_out
            }
            Verdict::TakeAlone => {
                self.number = None;
                0
            }
            Verdict::Drop if taken.is_some() => {
                let own = &mut self.sides[side];
                own.is_slow &= self.number != Some(number);
                let is_copy = self.recent().contains(&(number, head.digest));
                if is_copy && self.sides[side].standing == Standing::Unproven {
                    self.sides[side].standing = Standing::Joined;
                    self.proofs = 0;
                }
                // It has passed those of the other one, and had nothing there.
                self.holes.retain(|hole| usize::from(hole.by) == side || precedes(number, hole.to));
                if is_copy { left_out } else { 0 }
            }
            _ => 0,
        }
    }

    /// Nothing was taken between two numbers.
    fn note_hole(&mut self, hole: Hole) {
        let is_full = self.holes.len() >= HOLES_MAX;
        match self.holes.last_mut().filter(|_| is_full) {
            Some(last) => last.to = hole.to,
            None => self.holes.push(hole),
        }
    }

    /// How many of the last numbers that were taken lie between two that a side has said one after the other.
    fn left_out(&self, before: Option<u32>, number: u32) -> usize {
        let Some(before) = before.filter(|before| before.wrapping_add(1) != number) else { return 0 };
        let lies_between = |known: &&(u32, u32)| precedes(before, known.0) && precedes(known.0, number);
        self.recent().iter().filter(lies_between).count()
    }

    /// The next of the messages that wait about which something can be done, and what.
    pub(super) fn next_waiting(&mut self) -> Option<(SideNo, Waiting, Verdict)> {
        for side in [self.lead, other(self.lead)] {
            let own = &self.sides[side];
            if !matches!(own.standing, Standing::Unproven | Standing::Joined) {
                continue;
            }
            let Some(first) = own.waiting.front() else { continue };
            let verdict = self.judge(side, &first.head);
            if verdict != Verdict::Hold {
                return self.sides[side].pop().map(|waiting| (side, waiting, verdict));
            }
        }
        None
    }

    /// Until when a side waits for the other one, if one does.
    pub(super) fn waits_until(&self) -> Option<Nanos> {
        let joined = self.sides.iter().filter(|side| side.standing == Standing::Joined);
        joined.filter_map(|side| side.waiting.front()).map(|waiting| waiting.until).min()
    }

    /// The wait is over: a side for which the other one waits is slow.
    pub(super) fn give_up_waiting(&mut self) {
        for side in 0..2 {
            let waits = self.sides[side].standing == Standing::Joined && !self.sides[side].waiting.is_empty();
            let second = &mut self.sides[other(side)];
            if waits && second.waiting.is_empty() {
                second.is_slow = true;
            }
        }
    }
}
