//! What each packet does to the receiver's numbers.

use super::super::backoff::first_wait;
use super::super::tally;
use super::{Phase, Receiver, SessionKey};
use crate::delivery::{EndReason, Place, Sink, WIDE_ZERO, widen};
use crate::error::{Part, WireError};
use crate::wire::lbmc;
use crate::wire::lbtrm::{Data, Ncf, NcfReason, Packet, SessionMessage};
use std::net::SocketAddrV4;
use units::{Nanos, Sqn};

impl Receiver {
    #[inline]
    pub(super) fn take<S: Sink>(
        &mut self,
        now: Nanos,
        from: SocketAddrV4,
        datagram: &[u8],
        sink: &mut S,
    ) -> Result<(), WireError> {
        let packet = Packet::parse(datagram)?;
        let key = SessionKey { source: *from.ip(), session: packet.session() };
        if key != self.key || self.phase == Phase::Ended {
            let (found, limit) = (key.session.session_id, self.key.session.session_id);
            return Err(WireError::Inconsistent { part: Part::LbtrmHeader, found, limit });
        }
        match packet {
            Packet::Data(data) => self.on_data(now, &data, datagram.len(), sink)?,
            Packet::SessionMessage(sm) => self.on_session_message(now, &sm, sink)?,
            Packet::Ncf(ncf) => self.on_ncf(&ncf, sink),
            Packet::Nak(_) => {
                let (found, limit) = (u32::from(datagram[0]), 0);
                return Err(WireError::Unsupported { part: Part::LbtrmType, found, limit });
            }
        }
        self.heard = now;
        Ok(())
    }

    #[inline]
    fn on_data<S: Sink>(
        &mut self,
        now: Nanos,
        data: &Data<'_>,
        len: usize,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let count = lbmc::check(data.messages)?;
        let in_order = data.sqn.0 == self.next as u32 && self.loss.is_empty();
        if !in_order || self.phase != Phase::Live {
            return self.on_data_out_of_order(now, data, len, count, sink);
        }
        let t = self.next;
        self.next = t + 1;
        self.count_accepted(len);
        let place = Place { t, front: t + 1, clear_from: 0, recovered: data.is_retransmission() };
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
        data: &Data<'_>,
        len: usize,
        count: u32,
        sink: &mut S,
    ) -> Result<(), WireError> {
        let recovered = data.is_retransmission();
        if self.phase == Phase::Waiting && recovered && !self.late_start {
            // somebody else's past: the first original sets the start
            self.counters.before_start.inc();
            return Ok(());
        }
        self.begin(data.sqn, data.trail_sqn);
        let t = widen(self.next, data.sqn);
        if t >= self.next {
            self.raise_to(now, t, data.sqn)?;
            self.next = t + 1;
        } else {
            match self.loss.remove(t) {
                Some(gap) => tally::repaired(&self.counters, now.since(gap.detected), gap.naks, recovered),
                None => {
                    tally::unwanted(&self.counters, t < self.base);
                    self.give_up_below(widen(t, data.trail_sqn));
                    self.advance(sink);
                    return Ok(());
                }
            }
        }
        self.count_accepted(len);
        self.give_up_below(widen(t, data.trail_sqn));
        // what became final by giving up goes before this datagram, what this datagram completes goes after
        // it
        self.delivery.on_front(self.front().min(t), sink);
        self.make_room(t, data.messages.len(), count, sink);
        let place = Place { t, front: self.front(), clear_from: self.loss.end_below(t), recovered };
        self.delivery.on_datagram(place, data.messages, sink);
        self.advance(sink);
        Ok(())
    }

    fn on_session_message<S: Sink>(
        &mut self,
        now: Nanos,
        sm: &SessionMessage<'_>,
        sink: &mut S,
    ) -> Result<(), WireError> {
        self.counters.sms_rcved.inc();
        self.begin(sm.lead_sqn.next(), sm.trail_sqn);
        let end = widen(self.next, sm.lead_sqn) + 1;
        if end > self.next {
            self.raise_to(now, end, sm.lead_sqn)?;
            self.next = end;
        }
        self.give_up_below(widen(self.next, sm.trail_sqn));
        self.advance(sink);
        Ok(())
    }

    fn on_ncf<S: Sink>(&mut self, ncf: &Ncf<'_>, sink: &mut S) {
        let counters = &self.counters;
        let counter = match ncf.reason {
            NcfReason::DoNotRetry => &counters.ncfs_do_not_retry,
            NcfReason::Ignored => &counters.ncfs_ignored,
            NcfReason::RetransmitDelay => &counters.ncfs_rx_delay,
            NcfReason::Shed => &counters.ncfs_shed,
            NcfReason::Unknown(_) => &counters.ncfs_unknown,
        };
        counter.add(ncf.numbers.len() as u64);
        for sqn in ncf.numbers.iter() {
            let t = widen(self.next, sqn);
            if ncf.reason != NcfReason::DoNotRetry {
                self.loss.put_off(t, self.suppress);
            } else if self.loss.give_up(t) {
                self.counters.unrecovered_ncf.inc();
            }
        }
        self.give_up_below(widen(self.next, ncf.trail_sqn));
        self.advance(sink);
    }

    /// Begins at `first`, or at the trailing edge for a late start, if the session has not begun.
    fn begin(&mut self, first: Sqn, trail: Sqn) {
        if self.phase != Phase::Waiting {
            return;
        }
        let first = WIDE_ZERO + u64::from(first.0);
        self.base = if self.late_start { widen(first, trail) } else { first };
        self.next = self.base;
        self.phase = Phase::Live;
        let from_zero = self.base as u32 == 0 && trail == Sqn(0);
        self.delivery.begin_session(self.base, from_zero);
    }

    /// Everything from the next number to before `end` was sent and has not arrived.
    ///
    /// A jump beyond the bound on missing numbers is believed when a second packet agrees with it, so that
    /// one stray packet does not make the receiver deaf to the session.
    fn raise_to(&mut self, now: Nanos, end: u64, stated: Sqn) -> Result<(), WireError> {
        let jump = end - self.next;
        if jump > self.jump_max {
            let agrees = |s: u64| (s..=s + self.jump_max).contains(&end);
            if !self.suspect.replace(end).is_some_and(agrees) {
                let (found, limit) = (stated.0, self.next as u32);
                return Err(WireError::Inconsistent { part: Part::LbtrmData, found, limit });
            }
        }
        self.suspect = None;
        if jump > 0 {
            let due = self.first_nak_due(now);
            let given_up = self.loss.add(self.next, end, now, due);
            self.counters.lost.add(jump);
            self.counters.unrecovered_bound.add(given_up);
        }
        Ok(())
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
    }

    /// Gives up the oldest gaps until datagram `t` can be held, or nothing before it is missing.
    fn make_room<S: Sink>(&mut self, t: u64, len: usize, count: u32, sink: &mut S) {
        while self.loss.first().is_some_and(|first| first < t) && !self.delivery.has_room(len, count) {
            let given_up = self.loss.give_up_first();
            self.counters.unrecovered_bound.add(given_up);
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

    pub(super) fn end<S: Sink>(&mut self, reason: EndReason, sink: &mut S) {
        let count = self.loss.give_up_below(self.next);
        self.counters.unrecovered_end.add(count);
        self.counters.missing.set(0);
        self.phase = Phase::Ended;
        self.delivery.end_session(reason, self.loss.given_up_end(), sink);
    }

    fn count_accepted(&self, len: usize) {
        self.counters.msgs_rcved.inc();
        self.counters.bytes_rcved.add(len as u64);
    }
}
