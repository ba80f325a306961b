//! What each packet does to the receiver's numbers.

use super::super::loss::Gap;
use super::super::tally;
use super::doubt::ABSURD;
use super::evidence::COPIES;
use super::transport::ReceiverTransport;
use super::{Phase, Receiver};
use crate::delivery::{DeliverySink, EndReason, NEAR, Position, WIDE_ZERO, widen};
use crate::encryption::is_encrypted;
use crate::error::{Part, WireError};
use crate::wire::lbmc;
use crate::wire::list::{NcfReason, SqnList};
use std::time::Duration;
use units::{Nanos, Sqn};

/// Where a session says nothing for so long, an end is believed that one datagram said ahead of what is missing: the wait
/// between two session messages of a source that is alive is shorter.
pub(super) const LASTING: Duration = Duration::from_millis(1_250);
/// What marks a packet, as who told the trailing edge, that is no datagram with a number of its own.
const BY_SESSION_MESSAGE: u64 = 1 << 63;
const BY_CONFIRMATION: u64 = 1 << 62;

/// A DATA datagram of either transport.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub(crate) sqn: Sqn,
    pub(crate) trail: Sqn,
    /// Whether it is a retransmission.
    pub(crate) again: bool,
    pub(crate) messages: &'a [u8],
    /// Its length with all headers.
    pub(crate) len: usize,
}

/// A datagram said that the session ends, and that may not be true.
#[derive(Clone, Copy)]
pub(super) struct EndSaid {
    t: u64,
    trail: u64,
}

/// What a datagram's number is to a receiver before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Higher than all that were heard of, or the first.
    New,
    Missing,
    /// It is here, was given up, or is older than this receiver.
    Past,
}

impl<T: ReceiverTransport> Receiver<T> {
    /// What a number is to this receiver now.
    pub(crate) fn standing(&self, sqn: Sqn) -> Standing {
        let t = widen(self.next, sqn);
        if self.phase != Phase::Live || t >= self.next {
            Standing::New
        } else if self.gaps.contains(t) {
            Standing::Missing
        } else {
            Standing::Past
        }
    }

    #[inline]
    pub(crate) fn on_data<S: DeliverySink>(
        &mut self,
        now: Nanos,
        data: Arrived<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        // A message of a topic begins with 0.
        let first = data.messages.first().copied().unwrap_or(0);
        if first | self.encryption != 0 {
            return self.on_covered_data(now, data, sink);
        }
        self.on_plain_data(now, data, sink)
    }

    /// The datagram is encrypted, or should be, or begins with something rare.
    #[inline(never)]
    fn on_covered_data<S: DeliverySink>(
        &mut self,
        now: Nanos,
        data: Arrived<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let Some(mut decryptor) = self.decryptor.take() else {
            if !is_encrypted(data.messages) {
                return self.on_plain_data(now, data, sink);
            }
            // Its number is taken: to ask for it again would not help.
            self.on_plain_data(now, Arrived { messages: &[], ..data }, sink)?;
            self.hear(now);
            return Err(WireError::NoPayloadKeys);
        };
        let plain = decryptor.open(now, data.sqn, data.messages);
        let taken = plain.and_then(|messages| self.on_plain_data(now, Arrived { messages, ..data }, sink));
        self.decryptor = Some(decryptor);
        taken
    }

    #[inline]
    fn on_plain_data<S: DeliverySink>(
        &mut self,
        now: Nanos,
        data: Arrived<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let count = lbmc::check(data.messages)?;
        let in_order = data.sqn.0 == self.next as u32 && self.gaps.are_none();
        if !in_order || self.phase != Phase::Live {
            return self.on_data_out_of_order(now, data, count, sink);
        }
        let t = self.next;
        self.next = t + 1;
        self.count_accepted(data.len);
        let position = Position { t, front: t + 1, clear_from: 0, recovered: data.again };
        self.delivery.on_datagram(position, data.messages, sink);
        if self.delivery.needs_care() {
            self.advance(now, sink);
        }
        Ok(())
    }

    #[inline(never)]
    fn on_data_out_of_order<S: DeliverySink>(
        &mut self,
        now: Nanos,
        data: Arrived<'_>,
        count: u32,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let recovered = data.again;
        if self.phase == Phase::Waiting && recovered && !self.late_start {
            // somebody else's past: the first original sets the start
            self.counters.before_start.inc();
            return Ok(());
        }
        self.begin(data.sqn, data.trail);
        let t = widen(self.next, data.sqn);
        let mut before = None;
        if t >= self.next {
            if !self.raise_to(now, t, data.sqn)? {
                self.end(EndReason::Restarted, sink);
                return Ok(());
            }
            self.evidence.raise(now, self.next, t);
            self.next = t + 1;
        } else {
            let was_certain = self.is_certain(t);
            if t + 1 < self.next {
                self.evidence.bear_out(t + 1);
            }
            before = self.gaps.fill(now, t, recovered);
            if before.is_none() {
                tally::unwanted(&self.counters, t < self.base);
                self.duplicates += u64::from(t >= self.base);
                if !recovered && was_certain && self.doubt.is_settled(now, self.next, t + 1) {
                    self.end_run(t + 1, sink);
                    return Ok(());
                }
                self.give_up_below(widen(t, data.trail), t);
                self.advance(now, sink);
                return Ok(());
            }
            if !recovered {
                self.reporter.on_late();
                if t + 1 == self.next {
                    self.doubt.refute();
                }
            }
        }
        self.count_accepted(data.len);
        self.give_up_below(widen(t, data.trail), t);
        // what became final by giving up goes before this datagram, what this datagram completes goes after
        // it
        self.deliver_below(t, now, sink);
        self.make_room(now, t, data.messages.len(), count, sink);
        let is_answer = before.is_some_and(|gap| gap.is_doubted && gap.naks > 0 && recovered);
        if self.end_said.is_some_and(|said| said.t == t) || self.delivery.ended_at() == Some(t) {
            self.refute_end(now, t);
        }
        self.delivery.expect_answer(is_answer);
        let position = Position { t, front: self.front(), clear_from: self.gaps.end_below(t), recovered };
        self.delivery.on_datagram(position, data.messages, sink);
        self.delivery.expect_answer(false);
        if self.delivery.ended_at() == Some(t) {
            let is_in_place = self.front() >= t && t + 1 == self.next;
            self.end_said = Some(EndSaid { t, trail: widen(t, data.trail) });
            if is_answer || is_in_place {
                self.believe_end();
            } else {
                self.delivery.doubt_end(t);
            }
        }
        self.ask_again(now, before.map(|gap| (t, gap)));
        self.advance(now, sink);
        Ok(())
    }

    pub(crate) fn on_session_message<S: DeliverySink>(
        &mut self,
        now: Nanos,
        lead: Sqn,
        trail: Sqn,
        sink: &mut S,
    ) -> Result<(), WireError> {
        self.counters.sms_rcved.inc();
        self.begin(lead.next(), trail);
        let end = widen(self.next, lead) + 1;
        if end > self.next {
            if !self.raise_to(now, end, lead)? {
                self.end(EndReason::Restarted, sink);
                return Ok(());
            }
            self.evidence.raise(now, self.next, end);
            self.next = end;
        } else if end == self.next {
            self.doubt.refute();
            if self.evidence.is_past_copies(now) {
                self.evidence.settle(end);
                if self.end_said.is_some_and(|said| said.t + 1 == end) {
                    self.believe_end();
                }
            }
        } else if self.is_certain(end) && self.doubt.is_settled(now, self.next, end) {
            self.end_run(end, sink);
            return Ok(());
        }
        self.give_up_below(widen(self.next, trail), BY_SESSION_MESSAGE | end);
        self.advance(now, sink);
        Ok(())
    }

    pub(crate) fn on_ncf<S: DeliverySink>(
        &mut self,
        now: Nanos,
        reason: NcfReason,
        trail: Sqn,
        numbers: SqnList<'_>,
        sink: &mut S,
    ) {
        let counters = &self.counters;
        let counter = match reason {
            NcfReason::DoNotRetry => &counters.ncfs_do_not_retry,
            NcfReason::Ignored => &counters.ncfs_ignored,
            NcfReason::RetransmitDelay => &counters.ncfs_rx_delay,
            NcfReason::Shed => &counters.ncfs_shed,
            NcfReason::Unknown(_) => &counters.ncfs_unknown,
        };
        counter.add(numbers.len() as u64);
        for sqn in numbers.iter() {
            let t = widen(self.next, sqn);
            if reason != NcfReason::DoNotRetry {
                self.gaps.put_off(t);
            } else {
                self.gaps.refuse(t);
            }
        }
        self.give_up_below(widen(self.next, trail), BY_CONFIRMATION);
        self.advance(now, sink);
    }

    /// Begins at `first`, or at the trailing edge for a late start, if the session has not begun.
    fn begin(&mut self, first: Sqn, trail: Sqn) {
        if self.phase != Phase::Waiting {
            return;
        }
        if self.runs.begin(self.resume) {
            // It was listened for since before its begin.
            self.resume = Some(Sqn(0));
            self.delivery.resume_all();
        }
        if self.runs.current.is_some() {
            self.delivery.expect_one_run();
        }
        let first = WIDE_ZERO + u64::from(first.0);
        let resumed = self.resume.map(|next| widen(first, next));
        let is_past = resumed.is_some_and(|next| next > first);
        self.base = match resumed {
            // More than may be missing is not asked for.
            Some(next) if !is_past => next.max(widen(first, trail)).max(first.saturating_sub(self.jump_max)),
            // It comes late, or a stranger repeats it: the source has one run, and goes on where it was.
            Some(next) if self.delivery.expects_one_run() => next,
            _ if self.late_start => widen(first, trail),
            _ => first,
        };
        if is_past && !self.delivery.expects_one_run() {
            // Numbers that were heard before come again: it is another run of the source.
            self.resume = None;
            self.delivery.resume_none();
        }
        self.next = self.base;
        self.phase = Phase::Live;
        let from_zero = self.base as u32 == 0 && trail == Sqn(0);
        self.delivery.begin_session(self.base, from_zero);
    }

    /// Everything from the next number to before `end` was sent and has not arrived; false if that cannot be, and
    /// the source has begun anew.
    ///
    /// A jump that is not near is believed when packets go on from there, so that a few stray ones do not make the
    /// receiver deaf to the session.
    fn raise_to(&mut self, now: Nanos, end: u64, stated: Sqn) -> Result<bool, WireError> {
        let jump = end - self.next;
        if jump > NEAR {
            if !self.doubt.is_settled(now, self.next, end) {
                self.probe(now, jump);
                let (found, limit) = (stated.0, self.next as u32);
                return Err(WireError::Inconsistent { part: Part::LbtrmData, found, limit });
            }
            if jump > ABSURD {
                return Ok(false);
            }
        }
        self.miss(now, end);
        Ok(true)
    }

    /// An original came whose number was here before, or was given up; by a network that is not the first to bring it.
    pub(crate) fn on_copy<S: DeliverySink>(&mut self, now: Nanos, sqn: Sqn, sink: &mut S) {
        let end = widen(self.next, sqn) + 1;
        if self.doubt.is_settled(now, self.next, end) {
            self.end_run(end, sink);
        }
    }

    /// Numbers that were passed, up to `end`, are believed: the source has begun anew. Or it has not, and goes on with
    /// what never came and was given up, as numbers far ahead were believed before that were not its own.
    #[cold]
    fn end_run<S: DeliverySink>(&mut self, end: u64, sink: &mut S) {
        self.goes_on = self.delivery.goes_on_from(end).map(|first| Sqn(first as u32));
        self.end(EndReason::Restarted, sink);
    }

    /// Whether more than one packet tells that a number was sent; while nothing is missing, all that came before do.
    fn is_certain(&self, t: u64) -> bool {
        self.gaps.are_none() || t < self.evidence.certain()
    }

    /// The source has nothing below `trail` any more, packet `by` says.
    fn give_up_below(&mut self, trail: u64, by: u64) {
        self.gaps.give_up_below(self.evidence.on_trail(trail, by));
    }

    /// The session ends, as was said: nothing follows that could bear out what that says of the rest.
    #[cold]
    pub(super) fn believe_end(&mut self) {
        let Some(EndSaid { t, trail }) = self.end_said.take() else { return };
        self.gaps.withdraw(t);
        self.delivery.end_at(t);
        self.evidence.settle(self.next);
        self.evidence.settle_trail(trail, t);
        self.give_up_below(trail, t);
    }

    /// A datagram comes under the number of one that said the session's end: that may have been forged, with all that came
    /// in it.
    #[cold]
    fn refute_end(&mut self, now: Nanos, t: u64) {
        self.end_said = None;
        self.delivery.go_on();
        // To look at all that waits has its price: not for each of a flood.
        if now >= self.end_refuted {
            self.end_refuted = now + COPIES;
            self.delivery.set_aside(t);
        }
    }

    /// Gives up the oldest gaps until datagram `t` can be held, or nothing before it is missing.
    fn make_room<S: DeliverySink>(&mut self, now: Nanos, t: u64, len: usize, count: u32, sink: &mut S) {
        while self.gaps.first().is_some_and(|first| first < t) && !self.delivery.has_room(len, count) {
            self.gaps.give_up_first();
            self.deliver_below(t, now, sink);
        }
    }

    /// The lowest number that is neither here nor given up.
    fn front(&self) -> u64 {
        self.gaps.first().unwrap_or(self.next)
    }

    /// Delivers what became final before `t`.
    fn deliver_below<S: DeliverySink>(&mut self, t: u64, now: Nanos, sink: &mut S) {
        self.tell_given_up();
        self.delivery.on_front(self.front().min(t), sink);
        if self.delivery.needs_care() {
            self.ask_again(now, None);
        }
    }

    fn tell_given_up(&mut self) {
        while let Some((first, end)) = self.gaps.next_given_up() {
            self.delivery.give_up(first, end);
            self.delivery.note_word(self.evidence.certain(), self.next.saturating_sub(1));
        }
    }

    /// Datagrams that are not believed are missing again. One of them was missing before, as it says.
    fn ask_again(&mut self, now: Nanos, before: Option<(u64, Gap)>) {
        while let Some(t) = self.delivery.next_doubted() {
            if t < self.base || t >= self.next {
                continue;
            }
            if self.gaps.are_none() {
                self.evidence.settle(self.next);
            }
            let before = before.filter(|(of, _)| *of == t).map(|(_, gap)| gap);
            self.gaps.add_again(now, t, before, &mut self.rng);
        }
        self.delivery.cared();
    }

    /// Delivers what became final, and ends the session if the source said so and all before that is settled.
    pub(super) fn advance<S: DeliverySink>(&mut self, now: Nanos, sink: &mut S) {
        if self.delivery.needs_care() {
            self.ask_again(now, None);
        }
        self.deliver_below(u64::MAX, now, sink);
        let front = self.front();
        self.gaps.show();
        if self.delivery.ended_at().is_some_and(|t| t < front) {
            self.end(EndReason::Ended, sink);
        }
    }

    pub(crate) fn end<S: DeliverySink>(&mut self, reason: EndReason, sink: &mut S) {
        self.gaps.give_up_all(self.next);
        self.phase = Phase::Ended;
        self.end_reason = Some(reason);
        self.tell_given_up();
        self.delivery.end_session(reason, self.gaps.given_up_end(), sink);
    }

    fn count_accepted(&mut self, len: usize) {
        self.bytes += len as u64;
        self.counters.msgs_rcved.inc();
        self.counters.bytes_rcved.add(len as u64);
    }
}
