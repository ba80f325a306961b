use super::packets::{Pulse, Report};
use std::time::Duration;
use units::{Nanos, Sqn};

/// The source's side: the data rate, and who governs it. The law is in the documentation of the module above.
pub(crate) struct Controller {
    floor: u64,
    limit: u64,
    /// Bits per second.
    rate: u64,
    /// Bits of the longest datagram, the unit in which rates grow.
    unit: u64,
    starting: bool,
    /// What was sent before this number says nothing of the present rate.
    barrier: Option<Sqn>,
    governor: Option<Governor>,
    /// When somebody reported last.
    reported: Nanos,
    /// What was sent so far, retransmissions included.
    sent: Sent,
    /// When the law was applied last, and what was sent by then.
    applied: Nanos,
    applied_bytes: u64,
    pulsed: Nanos,
    pulsed_bytes: u64,
    /// Another one governs, and the others must hear of it.
    urgent: bool,
    pulses: [(u32, Nanos); PULSES_KEPT],
    round_trip: Duration,
    /// When it was measured last.
    measured: Nanos,
    /// Longest queueing of this window and the one before.
    delay_max_us: [u32; 2],
    delay_since: Nanos,
    /// Round trips of the last two pulses.
    last_round_trips: [Duration; 2],
    /// Since when the rate does not grow until the round trip is short again.
    draining: Option<Draining>,
    /// Round trip at which the rate falls though nothing is lost; zero for none.
    round_trip_max: Duration,
    /// Numbers NAKed since the law was applied.
    naks: u64,
    /// Reports of congestion on end at the floor.
    at_floor: u32,
    /// Receivers without a say, and until when.
    left_out: Vec<(u32, Nanos)>,
}

#[derive(Clone, Copy)]
struct Governor {
    id: u32,
    /// The end of its last report.
    end: Sqn,
    loss: u16,
    heard: Nanos,
}

#[derive(Clone, Copy, Default)]
struct Sent {
    bytes: u64,
    datagrams: u64,
}

/// The rate was lowered because of a long round trip, which was so long then.
#[derive(Clone, Copy)]
struct Draining {
    since: Nanos,
    round_trip: Duration,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The one who governs; the rate may have changed.
    Taken {
        /// The rate was lowered.
        lowered: bool,
    },
    /// Another receiver's, whose loss is less; or one without a say.
    PassedOver,
    /// The one who governs is too slow for the floor and has no say from now on.
    TooSlow,
}

const PULSES_KEPT: usize = 64;
const PULSE_EVERY_MIN: Duration = Duration::from_millis(10);
const PULSE_EVERY_MAX: Duration = Duration::from_millis(100);
/// A pulse costs about 110 bytes on the wire: 5 in 1,000, and one in 100 for a rate that begins.
const PULSE_EVERY_BYTES: u64 = 24 << 10;
const PULSE_EVERY_BYTES_STARTING: u64 = 12 << 10;
/// The one who governs and is silent for so long governs no more; without any report the NAKs do.
const SILENCE: Duration = Duration::from_secs(1);
/// A rate of the limit's 256th is what a session begins with.
const START_DIVISOR: u64 = 256;
/// A rate that begins grows by itself in this time.
const START_GROWTH: Duration = Duration::from_millis(150);
/// Datagrams by which the rate grows in a round trip.
const GROWTH_DATAGRAMS: f64 = 2.0;
/// Added to the round trip, so that on a link without delay the growth has an end.
const ROUND_TRIP_ADDED: Duration = Duration::from_millis(10);
/// A rate grows by no more than this of itself in a second: reports of a low rate are some ten milliseconds
/// apart.
const GROWTH_MAX: f64 = 4.0;
const FALL_MIN: f64 = 0.03;
const FALL_MAX: f64 = 0.2;
/// The law is applied for this time at most, however long nobody reported.
const STEP_MAX: Duration = Duration::from_millis(200);
/// Time in which the smoothed round trip follows.
const SMOOTHING: Duration = Duration::from_millis(500);
const DELAY_WINDOW: Duration = Duration::from_secs(5);
/// Queueing below this says nothing: threads wait so long for a CPU.
const DELAY_TELLS_US: u32 = 300;
const DRAINING_MAX: Duration = Duration::from_secs(1);
/// Datagrams of which a share says something.
const SHARE_COUNT_MIN: u32 = 16;
const AT_FLOOR_MAX: u32 = 5;
const LEFT_OUT_MAX: usize = 64;
const LEFT_OUT_FOR: Duration = Duration::from_secs(30);

impl Controller {
    /// `floor` and `limit` in bits per second, `datagram_max` in bytes.
    pub(crate) fn new(
        floor: u64,
        limit: u64,
        datagram_max: u32,
        round_trip_max: Duration,
        now: Nanos,
    ) -> Controller {
        Controller {
            floor,
            limit,
            rate: (limit / START_DIVISOR).max(floor),
            unit: u64::from(datagram_max) * 8,
            starting: true,
            barrier: None,
            governor: None,
            reported: now,
            sent: Sent::default(),
            applied: now,
            applied_bytes: 0,
            pulsed: now,
            pulsed_bytes: 0,
            urgent: false,
            pulses: [(u32::MAX, Nanos::ZERO); PULSES_KEPT],
            round_trip: Duration::ZERO,
            measured: now,
            delay_max_us: [0; 2],
            delay_since: now,
            last_round_trips: [Duration::ZERO; 2],
            draining: None,
            round_trip_max,
            naks: 0,
            at_floor: 0,
            left_out: Vec::with_capacity(LEFT_OUT_MAX),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Controller>() + self.left_out.capacity() * size_of::<(u32, Nanos)>()
    }

    /// Bits per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    pub(crate) fn on_sent(&mut self, bytes: u64, datagrams: u32) {
        self.sent.bytes += bytes;
        self.sent.datagrams += u64::from(datagrams);
    }

    pub(crate) fn on_nak(&mut self, numbers: usize) {
        self.naks += numbers as u64;
    }

    /// When the next pulse is due: never while nothing was sent since the last.
    pub(crate) fn pulse_due(&self) -> Nanos {
        if self.urgent {
            return Nanos::ZERO;
        }
        let enough = if self.starting { PULSE_EVERY_BYTES_STARTING } else { PULSE_EVERY_BYTES };
        match self.sent.bytes - self.pulsed_bytes {
            0 => Nanos::NEVER,
            some if some < enough => self.pulsed + PULSE_EVERY_MAX,
            _ => self.pulsed + PULSE_EVERY_MIN,
        }
    }

    /// The pulse that goes out with session message `sm_sqn`.
    pub(crate) fn pulse(&mut self, now: Nanos, sm_sqn: u32) -> Pulse {
        self.pulses[sm_sqn as usize % PULSES_KEPT] = (sm_sqn, now);
        self.governor = self.governor.filter(|g| now.since(g.heard) < SILENCE);
        Pulse { governor: self.governor.map(|g| (g.id, g.loss)), sent_at: now }
    }

    /// A pulse went out. Without reports the law goes by the NAKs that came; true if the rate may have
    /// changed.
    pub(crate) fn on_pulse_sent(&mut self, now: Nanos) -> bool {
        (self.pulsed, self.pulsed_bytes, self.urgent) = (now, self.sent.bytes, false);
        if now.since(self.reported) < SILENCE || now.since(self.applied) < PULSE_EVERY_MAX {
            return false;
        }
        self.last_round_trips = [Duration::ZERO; 2];
        if self.naks == 0 {
            self.grow(now);
        } else {
            let factor = if self.starting { (1, 2) } else { (9, 10) };
            self.lower_to(self.rate * factor.0 / factor.1);
        }
        self.note_applied(now);
        true
    }

    /// A receiver reports; `next` is the number of the next datagram to be sent.
    pub(crate) fn on_report(&mut self, now: Nanos, report: &Report, next: Sqn) -> Verdict {
        self.left_out.retain(|(_, until)| *until > now);
        if self.left_out.iter().any(|(id, _)| *id == report.receiver) {
            return Verdict::PassedOver;
        }
        let governs = self.governor.is_none_or(|g| {
            g.id == report.receiver
                || now.since(g.heard) >= SILENCE
                || report.loss > g.loss.saturating_add(g.loss / 8)
        });
        let stale = self.governor.is_some_and(|g| g.id == report.receiver && report.end.precedes(g.end));
        let is_of_what_was_sent = !next.precedes(report.end);
        if !governs || stale || !is_of_what_was_sent {
            return Verdict::PassedOver;
        }
        self.urgent |= self.governor.is_none_or(|g| g.id != report.receiver);
        self.governor =
            Some(Governor { id: report.receiver, end: report.end, loss: report.loss, heard: now });
        self.reported = now;
        self.measure(now, report);
        let lowered = self.apply(now, report, next);
        if lowered && self.rate == self.floor {
            self.at_floor += 1;
        } else if self.rate > self.floor {
            self.at_floor = 0;
        }
        if self.at_floor < AT_FLOOR_MAX {
            return Verdict::Taken { lowered };
        }
        self.leave_out(now, report.receiver);
        Verdict::TooSlow
    }

    /// Applies the law; true if the rate was to be lowered.
    fn apply(&mut self, now: Nanos, report: &Report, next: Sqn) -> bool {
        if report.count() == 0 || self.barrier.is_some_and(|barrier| report.first.precedes(barrier)) {
            return false;
        }
        self.barrier = None;
        let congested = report.lost > 0 && self.is_congestion(report);
        // twice on end: one may have waited for a CPU
        let queued = self.last_round_trips[0].min(self.last_round_trips[1]);
        let long = !self.round_trip_max.is_zero() && queued >= self.round_trip_max;
        let draining = self.is_draining(now);
        if !congested && (!long || draining) {
            if !draining {
                self.grow(now);
            }
            self.note_applied(now);
            return false;
        }
        let very_long = long && queued >= self.round_trip_max * 2;
        let lost = f64::from(report.lost) / f64::from(report.count());
        let less = if very_long { FALL_MAX } else { self.fall().max((lost / 2.0).min(FALL_MAX)) };
        let told = report.count() >= SHARE_COUNT_MIN && (self.starting || is_heavy(report));
        let delivered = if told { self.delivered(report) } else { u64::MAX };
        self.lower_to(((self.rate as f64 * (1.0 - less)) as u64).min(delivered / 10 * 9).max(self.rate / 4));
        self.note_applied(now);
        self.barrier = Some(next);
        if long {
            self.draining = Some(Draining { since: now, round_trip: queued });
        }
        true
    }

    /// Whether the queue becomes shorter and is not yet short enough for the rate to grow.
    fn is_draining(&mut self, now: Nanos) -> bool {
        let [before, last] = self.last_round_trips;
        let (long, shortest) = (last >= self.round_trip_max * 3 / 4, before.min(last));
        let goes_on = |d: &Draining| now.since(d.since) < DRAINING_MAX && shortest <= d.round_trip;
        self.draining = self.draining.filter(|d| long && goes_on(d));
        self.draining.is_some()
    }

    /// The part by which the rate falls: a tenth for one that regains it in some hundred milliseconds, more
    /// for larger rates; by the fourth root, so that the falls of many that share a link still make an end of
    /// what they have grown by.
    fn fall(&self) -> f64 {
        let ordinary = self.additive() * 1.5;
        (0.1 * (self.rate as f64 / ordinary).sqrt().sqrt()).clamp(FALL_MIN, FALL_MAX)
    }

    fn lower_to(&mut self, rate: u64) {
        self.rate = rate.max(self.floor);
        self.starting = false;
    }

    /// Bits per second that came through in the span of the report; no less than nothing is known.
    fn delivered(&self, report: &Report) -> u64 {
        let datagram_bytes = self.sent.bytes.checked_div(self.sent.datagrams).unwrap_or(0);
        let bits = u128::from(report.count() - report.lost) * u128::from(datagram_bytes) * 8;
        let per_second = (bits * 1_000_000).checked_div(report.span_us.into());
        per_second.map_or(u64::MAX, |bps| u64::try_from(bps).unwrap_or(u64::MAX))
    }

    fn is_congestion(&self, report: &Report) -> bool {
        let longest = self.delay_max_us[0].max(self.delay_max_us[1]);
        let queued = longest >= DELAY_TELLS_US && report.delay_us >= longest / 3;
        queued || is_heavy(report)
    }

    /// Raises the rate for the time since the law was applied, if it was used.
    fn grow(&mut self, now: Nanos) {
        let since = now.since(self.applied).min(STEP_MAX).as_secs_f64();
        let used = (self.sent.bytes - self.applied_bytes) as f64 * 8.0;
        let rate = self.rate as f64;
        if used < rate * since * 0.75 {
            return;
        }
        let per_second = if self.starting {
            rate / START_GROWTH.as_secs_f64()
        } else {
            (self.additive() * rate).sqrt().min(rate * GROWTH_MAX) * self.room()
        };
        self.rate = ((rate + per_second * since) as u64).min(self.limit);
        self.starting &= self.rate < self.limit;
    }

    /// How much of the longest round trip is left: rates grow less the closer they are to it. All sources of a
    /// link see the same, and slow down together before their reports can tell them that it was too much.
    fn room(&self) -> f64 {
        if self.round_trip_max.is_zero() {
            return 1.0;
        }
        1.0 - self.last_round_trips[1].div_duration_f64(self.round_trip_max).min(1.0)
    }

    /// By how much a rate would grow in a second, were it by a few datagrams each round trip: what sources
    /// that share a link have in common.
    fn additive(&self) -> f64 {
        let round_trip = (self.round_trip + ROUND_TRIP_ADDED).as_secs_f64();
        GROWTH_DATAGRAMS * self.unit as f64 / (round_trip * round_trip)
    }

    fn measure(&mut self, now: Nanos, report: &Report) {
        if let Some((_, sent_at)) = self.pulses.iter().find(|(sm_sqn, _)| *sm_sqn == report.pulse) {
            let held = Duration::from_micros(report.held_us.into());
            let took = now.since(*sent_at).saturating_sub(held);
            // by time, not by report, so that sources that get more reports know nothing else than the others
            let weight = if self.round_trip.is_zero() { SMOOTHING } else { now.since(self.measured) };
            let weight = weight.min(SMOOTHING).as_secs_f64() / SMOOTHING.as_secs_f64();
            self.round_trip = self.round_trip.mul_f64(1.0 - weight) + took.mul_f64(weight);
            self.measured = now;
            self.last_round_trips = [self.last_round_trips[1], took];
        }
        if now.since(self.delay_since) >= DELAY_WINDOW {
            (self.delay_max_us, self.delay_since) = ([0, self.delay_max_us[0]], now);
        }
        self.delay_max_us[0] = self.delay_max_us[0].max(report.delay_us);
    }

    fn note_applied(&mut self, now: Nanos) {
        (self.applied, self.applied_bytes, self.naks) = (now, self.sent.bytes, 0);
    }

    fn leave_out(&mut self, now: Nanos, receiver: u32) {
        if self.left_out.len() == LEFT_OUT_MAX {
            self.left_out.remove(0);
        }
        self.left_out.push((receiver, now + LEFT_OUT_FOR));
        (self.governor, self.at_floor, self.barrier) = (None, 0, None);
    }

    /// Smoothed round trip of a pulse and its report; zero before the first.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// What a round trip may take now.
    pub(crate) fn round_trip_long(&self) -> Duration {
        self.round_trip.max(self.last_round_trips[1])
    }
}

/// Whether an eighth is lost: that is congestion with or without a queue.
fn is_heavy(report: &Report) -> bool {
    report.count() >= SHARE_COUNT_MIN && report.lost > report.count() / 8
}
