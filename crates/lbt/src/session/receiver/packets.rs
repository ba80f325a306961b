//! What each packet does to the receiver's numbers.

use super::super::backoff::first_wait;
use super::super::tally;
use super::doubt::{ABSURD, NEAR};
use super::{Phase, Receiver};
use crate::delivery::{EndReason, Place, Sink, WIDE_ZERO, widen};
use crate::encryption::is_encrypted;
use crate::error::{Part, WireError};
use crate::wire::lbmc;
use crate::wire::list::{NcfReason, SqnList};
use units::{Nanos, Sqn};

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

/// What a datagram's number is to a receiver before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Higher than all that were heard of, or the first.
    New,
    Missing,
    /// It is here, was given up, or is older than this receiver.
    Past,
}

impl<T> Receiver<T> {
    /// What a number is to this receiver now.
    pub(crate) fn standing(&self, sqn: Sqn) -> Standing {
        let t = widen(self.next, sqn);
        if self.phase != Phase::Live || t >= self.next {
            Standing::New
        } else if self.loss.contains(t) {
            Standing::Missing
        } else {
            Standing::Past
        }
    }

    #[inline]
    pub(crate) fn on_data<S: Sink>(
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
    fn on_covered_data<S: Sink>(
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
            self.heard = now;
            return Err(WireError::NoPayloadKeys);
        };
        let plain = decryptor.open(now, data.sqn, data.messages);
        let taken = plain.and_then(|messages| self.on_plain_data(now, Arrived { messages, ..data }, sink));
        self.decryptor = Some(decryptor);
        taken
    }

    #[inline]
    fn on_plain_data<S: Sink>(
        &mut self,
        now: Nanos,
        data: Arrived<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let count = lbmc::check(data.messages)?;
        let in_order = data.sqn.0 == self.next as u32 && self.loss.is_empty();
        if !in_order || self.phase != Phase::Live {
            return self.on_data_out_of_order(now, data, count, sink);
        }
        let t = self.next;
        self.next = t + 1;
        self.count_accepted(data.len);
        let place = Place { t, front: t + 1, clear_from: 0, recovered: data.again };
        self.delivery.on_datagram(place, data.messages, sink);
        if self.delivery.ended_at().is_some() {
            self.advance(sink);
        }
        Ok(())
    }

    #[inline(never)]
    fn on_data_out_of_order<S: Sink>(
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
        if t >= self.next {
            if !self.raise_to(now, t, data.sqn)? {
                self.end(EndReason::Restarted, sink);
                return Ok(());
            }
            self.next = t + 1;
        } else {
            match self.loss.remove(t) {
                Some(gap) => {
                    tally::repaired(&self.counters, now.since(gap.detected), gap.naks, recovered);
                    self.repair.recovered += u64::from(recovered);
                    if !recovered {
                        self.reporter.on_late();
                    } else if gap.naks > 0 {
                        self.retries.on_repaired(now, gap.asked);
                    }
                }
                None => {
                    tally::unwanted(&self.counters, t < self.base);
                    self.repair.duplicates += u64::from(t >= self.base);
                    if !recovered && self.doubt.is_settled(now, self.next, t + 1) {
                        self.end(EndReason::Restarted, sink);
                        return Ok(());
                    }
                    self.give_up_below(widen(t, data.trail));
                    self.advance(sink);
                    return Ok(());
                }
            }
        }
        self.count_accepted(data.len);
        self.give_up_below(widen(t, data.trail));
        // what became final by giving up goes before this datagram, what this datagram completes goes after
        // it
        self.delivery.on_front(self.front().min(t), sink);
        self.make_room(t, data.messages.len(), count, sink);
        let place = Place { t, front: self.front(), clear_from: self.loss.end_below(t), recovered };
        self.delivery.on_datagram(place, data.messages, sink);
        self.advance(sink);
        Ok(())
    }

    pub(crate) fn on_session_message<S: Sink>(
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
            self.next = end;
        } else if end == self.next {
            self.doubt.refute();
        } else if self.doubt.is_settled(now, self.next, end) {
            self.end(EndReason::Restarted, sink);
            return Ok(());
        }
        self.give_up_below(widen(self.next, trail));
        self.advance(sink);
        Ok(())
    }

    pub(crate) fn on_ncf<S: Sink>(
        &mut self,
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
                self.loss.put_off(t, self.suppress);
            } else if self.loss.give_up(t) {
                self.counters.unrecovered_ncf.inc();
                self.repair.given_up += 1;
            }
        }
        self.give_up_below(widen(self.next, trail));
        self.advance(sink);
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
        self.base = match self.resume.map(|next| widen(first, next)) {
            // More than may be missing is not asked for.
            Some(next) if next <= first => {
                next.max(widen(first, trail)).max(first.saturating_sub(self.jump_max))
            }
            _ if self.late_start => widen(first, trail),
            _ => first,
        };
        if self.resume.is_some_and(|next| widen(first, next) > first) {
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
                let (found, limit) = (stated.0, self.next as u32);
                return Err(WireError::Inconsistent { part: Part::LbtrmData, found, limit });
            }
            if jump > ABSURD {
                return Ok(false);
            }
        }
        if jump > 0 {
            let due = self.first_nak_due(now);
            let given_up = self.loss.add(self.next, end, now, due);
            self.counters.lost.add(jump);
            self.reporter.on_loss(now, jump, &mut self.rng);
            self.counters.unrecovered_bound.add(given_up);
            self.repair.given_up += given_up;
        }
        Ok(true)
    }

    /// An original came whose number was here before, or was given up; by a network that is not the first to bring it.
    pub(crate) fn on_copy<S: Sink>(&mut self, now: Nanos, sqn: Sqn, sink: &mut S) {
        if self.doubt.is_settled(now, self.next, widen(self.next, sqn) + 1) {
            self.end(EndReason::Restarted, sink);
        }
    }

    fn first_nak_due(&mut self, now: Nanos) -> Nanos {
        if !self.send_naks {
            return Nanos::NEVER;
        }
        if self.nak_timer <= now {
            self.nak_timer = now + first_wait(self.law, self.initial, &mut self.rng);
        }
        self.nak_timer
    }

    fn give_up_below(&mut self, trail: u64) {
        let count = self.loss.give_up_below(trail.min(self.next));
        self.counters.unrecovered_txw.add(count);
        self.repair.given_up += count;
    }

    /// Gives up the oldest gaps until datagram `t` can be held, or nothing before it is missing.
    fn make_room<S: Sink>(&mut self, t: u64, len: usize, count: u32, sink: &mut S) {
        while self.loss.first().is_some_and(|first| first < t) && !self.delivery.has_room(len, count) {
            let given_up = self.loss.give_up_first();
            self.counters.unrecovered_bound.add(given_up);
            self.repair.given_up += given_up;
            self.delivery.on_front(self.front().min(t), sink);
        }
    }

    /// The lowest number that is neither here nor given up.
    fn front(&self) -> u64 {
        self.loss.first().unwrap_or(self.next)
    }

    /// Delivers what became final, and ends the session if the source said so and all before that is settled.
    pub(super) fn advance<S: Sink>(&mut self, sink: &mut S) {
        let front = self.front();
        self.counters.missing.set(self.loss.missing());
        self.delivery.on_front(front, sink);
        if self.delivery.ended_at().is_some_and(|t| t < front) {
            self.end(EndReason::Ended, sink);
        }
    }

    pub(crate) fn end<S: Sink>(&mut self, reason: EndReason, sink: &mut S) {
        let count = self.loss.give_up_below(self.next);
        self.counters.unrecovered_end.add(count);
        self.repair.given_up += count;
        self.counters.missing.set(0);
        self.phase = Phase::Ended;
        self.end_reason = Some(reason);
        self.delivery.end_session(reason, self.loss.given_up_end(), sink);
    }

    fn count_accepted(&mut self, len: usize) {
        self.repair.bytes += len as u64;
        self.counters.msgs_rcved.inc();
        self.counters.bytes_rcved.add(len as u64);
    }
}
