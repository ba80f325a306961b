//! What is missing: when it is asked for, and when it is given up.

use super::super::backoff::{Retries, first_wait};
use super::super::loss::{Gap, Heard, LossMap, silence};
use super::super::tally;
use super::liveness::later;
use crate::config::{NakLaw, ReceiverConfig};
use counters::table::ReliableReceiver;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Rng, Sqn};

/// Numbers in one NAK packet: what an Ethernet frame carries, a keyed code included.
pub(crate) const NAK_NUMBERS_MAX: usize = 357;
/// Numbers NAKed within one initial back-off; more than any link carries in that time.
const NAK_BURST_MAX: usize = 2_048;
/// Least time over which the burst is counted.
const NAK_BURST_SPAN_MIN: Duration = Duration::from_micros(100);

/// The missing datagrams of a session. It counts what becomes of them.
pub(super) struct Gaps {
    loss: LossMap,
    /// When what is found missing now is first NAKed: numbers found within one wait share it.
    nak_timer: Nanos,
    /// NAKs that may still be sent, and until when.
    nak_credit: usize,
    nak_credit_until: Nanos,
    /// The numbers of the NAK that is due.
    naks: Vec<Sqn>,
    /// When they last got time anew.
    pardoned: Nanos,
    law: NakLaw,
    initial: Duration,
    retries: Retries,
    suppress: Duration,
    generation: Duration,
    send_naks: bool,
    repaired: Repaired,
    counters: Arc<ReliableReceiver>,
}

/// What has become of the missing datagrams of one session; the counters are those of all sessions together.
#[derive(Clone, Copy, Default)]
pub(super) struct Repaired {
    pub(super) naks_sent: u64,
    pub(super) recovered: u64,
    pub(super) given_up: u64,
}

impl Gaps {
    pub(super) fn new(config: &ReceiverConfig, counters: Arc<ReliableReceiver>) -> Gaps {
        Gaps {
            loss: LossMap::new(config.maximum_gaps as usize, u64::from(config.maximum_missing)),
            nak_timer: Nanos::ZERO,
            nak_credit: NAK_BURST_MAX,
            nak_credit_until: Nanos::ZERO,
            naks: Vec::with_capacity(NAK_NUMBERS_MAX),
            pardoned: Nanos::ZERO,
            law: config.nak_law,
            initial: config.nak_initial_backoff_interval,
            retries: Retries::new(config.nak_backoff_interval, config.nak_generation_interval),
            suppress: config.nak_suppress_interval,
            generation: config.nak_generation_interval,
            send_naks: config.send_naks,
            repaired: Repaired::default(),
            counters,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.loss.memory_bytes() + self.naks.capacity() * size_of::<Sqn>()
    }

    /// Whether nothing is missing.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.loss.is_empty()
    }

    /// How many numbers are missing.
    pub(super) fn missing(&self) -> u64 {
        self.loss.missing()
    }

    /// Shows how many are missing.
    pub(super) fn show(&self) {
        self.counters.missing.set(self.loss.missing());
    }

    pub(super) fn repaired(&self) -> Repaired {
        self.repaired
    }

    /// The lowest missing number.
    pub(super) fn first(&self) -> Option<u64> {
        self.loss.first()
    }

    /// Whether a number is missing.
    pub(super) fn contains(&self, t: u64) -> bool {
        self.loss.contains(t)
    }

    /// The number after the highest missing one below `t`; 0 if none is missing below it.
    pub(super) fn end_below(&self, t: u64) -> u64 {
        self.loss.end_below(t)
    }

    /// The numbers from `first` to before `end` are missing, all above what was missing before.
    pub(super) fn add(&mut self, now: Nanos, first: u64, end: u64, rng: &mut Rng) {
        let due = self.first_nak_due(now, rng);
        let given_up = self.loss.add(first, end, now, due);
        self.counters.lost.add(end - first);
        self.counters.unrecovered_bound.add(given_up);
        self.repaired.given_up += given_up;
    }

    /// A number that was here is missing again; `before` is how it was missing, if it was just then.
    pub(super) fn add_again(&mut self, now: Nanos, t: u64, before: Option<Gap>, rng: &mut Rng) {
        let due = self.first_nak_due(now, rng);
        self.counters.lost.add(u64::from(self.loss.add_again(t, before, now, due)));
    }

    fn first_nak_due(&mut self, now: Nanos, rng: &mut Rng) -> Nanos {
        if !self.send_naks {
            return Nanos::NEVER;
        }
        if self.nak_timer <= now {
            self.nak_timer = now + first_wait(self.law, self.initial, rng);
        }
        self.nak_timer
    }

    /// A datagram came, `again` if it is a retransmission. How it was missing; none if it was not.
    pub(super) fn fill(&mut self, now: Nanos, t: u64, again: bool) -> Option<Gap> {
        let gap = self.loss.remove(t)?;
        tally::repaired(&self.counters, now.since(gap.detected), gap.naks, again);
        self.repaired.recovered += u64::from(again);
        if again && gap.naks > 0 {
            self.retries.on_repaired(now, gap.asked);
        }
        Some(gap)
    }

    /// A datagram had come, and is missing no more if it was.
    pub(super) fn withdraw(&mut self, t: u64) {
        if self.loss.remove(t).is_some() {
            self.counters.out_of_order.inc();
        }
    }

    /// The source will not send a number again now.
    pub(super) fn put_off(&mut self, t: u64) {
        self.loss.put_off(t, self.suppress);
    }

    /// The source refuses to send a number again: it is given up if it was asked for.
    pub(super) fn refuse(&mut self, t: u64) {
        if self.loss.refuse(t) {
            self.counters.unrecovered_ncf.inc();
            self.repaired.given_up += 1;
        }
    }

    /// Gives up what the source has no more.
    pub(super) fn give_up_below(&mut self, trail: u64) {
        let count = self.loss.give_up_below(trail);
        self.counters.unrecovered_txw.add(count);
        self.repaired.given_up += count;
    }

    /// Gives up what was missing for too long and lies below `proven`; the source was last heard at `heard`.
    pub(super) fn give_up_older(&mut self, now: Nanos, heard: Heard, proven: u64) {
        let is_hasty = units::planted(units::Bug::GivesUpAtOnce);
        let generation = if is_hasty { Duration::ZERO } else { self.generation };
        let count = self.loss.give_up_older(now, generation, heard, proven);
        self.counters.unrecovered_tmo.add(count);
        self.repaired.given_up += count;
    }

    /// Gives up the lowest range.
    pub(super) fn give_up_first(&mut self) {
        let count = self.loss.give_up_first();
        self.counters.unrecovered_bound.add(count);
        self.repaired.given_up += count;
    }

    /// The session is over: nothing below `next` is missing any more.
    pub(super) fn give_up_all(&mut self, next: u64) {
        let count = self.loss.give_up_below(next);
        self.counters.unrecovered_end.add(count);
        self.repaired.given_up += count;
        self.counters.missing.set(0);
    }

    /// A range that was given up, each once.
    pub(super) fn next_given_up(&mut self) -> Option<(u64, u64)> {
        self.loss.next_given_up()
    }

    /// The number after the highest that was given up.
    pub(super) fn given_up_end(&self) -> u64 {
        self.loss.given_up_end()
    }

    /// A moment before which no NAK is due.
    #[inline]
    pub(super) fn nak_due(&self) -> Nanos {
        self.loss.next_due()
    }

    /// The numbers of the next NAK, if one is due; empty if none is.
    pub(super) fn next_naks(&mut self, now: Nanos, rng: &mut Rng) -> &[Sqn] {
        self.naks.clear();
        if now < self.loss.next_due() {
            return &self.naks;
        }
        if now >= self.nak_credit_until {
            self.nak_credit = NAK_BURST_MAX;
            self.nak_credit_until = now + self.initial.max(NAK_BURST_SPAN_MIN);
        }
        let count_max = self.nak_credit.min(NAK_NUMBERS_MAX);
        let wait = self.retries.draw(self.law, rng);
        self.loss.collect_due(now, wait, count_max, &mut self.naks);
        if !self.naks.is_empty() {
            self.nak_credit -= self.naks.len();
            self.counters.nak_pckts_sent.inc();
            self.counters.naks_sent.add(self.naks.len() as u64);
            self.repaired.naks_sent += self.naks.len() as u64;
        }
        &self.naks
    }

    /// When a NAK is due, or something below `proven` is to be given up; the source was last heard at `heard`.
    pub(super) fn due(&self, heard: Heard, proven: u64) -> Nanos {
        let mut nak = self.loss.next_due();
        if self.nak_credit == 0 {
            nak = nak.max(self.nak_credit_until);
        }
        nak.min(self.loss.next_give_up(self.generation, heard, proven))
    }

    /// This process was stopped: what is missing gets half of the generation interval. Who is always late gets no more
    /// time than that.
    pub(super) fn pardon(&mut self, now: Nanos) {
        if now >= self.pardoned + self.generation * 2 {
            self.pardoned = now;
            self.loss.count_from(self.half_time(now));
        }
    }

    /// The source is heard, and was last heard at `before`. If it was silent meanwhile, it has not seen what it was asked
    /// for: what is missing gets half of the generation interval, once.
    #[inline]
    pub(super) fn hear(&mut self, now: Nanos, before: Nanos) {
        if !self.loss.is_empty() {
            self.hear_missing(now, before);
        }
    }

    #[cold]
    #[inline(never)]
    fn hear_missing(&mut self, now: Nanos, before: Nanos) {
        if now >= before + silence(self.generation) {
            self.loss.prolong(self.half_time(now));
        }
    }

    /// From when on the time of what has half of it to go counts.
    fn half_time(&self, now: Nanos) -> Nanos {
        later(now, self.generation / 2, self.generation)
    }
}
