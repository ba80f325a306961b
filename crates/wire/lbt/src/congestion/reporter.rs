use super::packets::{Pulse, Report};
use crate::config::NakLaw;
use crate::session::backoff::first_wait;
use std::time::Duration;
use units::{Nanos, Rng, Sqn};

/// The receiver's side: measures spans of datagrams and decides when to report.
///
/// It does nothing, and costs nothing, until a pulse was heard.
pub(crate) struct Reporter {
    id: u32,
    /// How waits are drawn, so that of many that have the same to say few say it.
    law: NakLaw,
    heard: Option<Heard>,
    /// The shortest way a pulse took, of this window and the one before: the clocks' difference included.
    least_ns: [i64; 2],
    least_since: Nanos,
    /// The first number of the span, when it began, and how many were missing in it.
    first: u64,
    began: Nanos,
    lost: u64,
    /// Least queueing of the span's pulses; of the last pulse if the span had none.
    delay_us: Option<u32>,
    last_delay_us: u32,
    /// Smoothed share of missing datagrams, in 65,536ths.
    loss: u32,
    /// The same at the last pulses: the governor's loss in a pulse is so old.
    earlier: [u32; 3],
    due: Nanos,
    seldom: Nanos,
    reported: Nanos,
    /// Reports of a loss above the governor's after which another one still governed.
    in_vain: u32,
}

#[derive(Clone, Copy)]
struct Heard {
    sm_sqn: u32,
    at: Nanos,
    governs: bool,
}

/// How long the shortest way is remembered at least. A queue that many sources keep from running empty would
/// pass for a way without any, and its losses for the weather.
const LEAST_WINDOW: Duration = Duration::from_secs(60);
/// Clocks drift apart by less: the shortest way is taken to grow by one part in so many.
const DRIFT_PARTS: i64 = 10_000;
/// Wait of the one who governs from a loss to its report: reordering is over by then.
const AFTER_LOSS: Duration = Duration::from_millis(2);
/// Time between two reports, pulses aside.
const BETWEEN: Duration = Duration::from_millis(10);
/// Within this time all report when nobody governs.
const ELECTION: Duration = Duration::from_millis(250);
/// Within this time one with a higher loss reports.
const COMPLAINT: Duration = Duration::from_millis(100);
/// Doublings of that time while complaints are in vain.
const IN_VAIN_MAX: u32 = 5;
/// The same where not even pulses come through.
const IN_VAIN_UNHEARD_MAX: u32 = 1;
/// Within this time one reports whom pulses do not reach; a pulse that does settles it.
const UNHEARD: Duration = Duration::from_millis(200);
/// Loss without a pulse for so long: they are lost too, and with them who governs.
const PULSES_LOST: Duration = Duration::from_millis(300);
/// A span that is not reported ends after this time.
const SPAN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(10);
/// Time in which the smoothed loss follows.
const SMOOTHING_US: u64 = 1_000_000;

impl Reporter {
    pub(crate) fn new(id: u32, law: NakLaw) -> Reporter {
        Reporter {
            id,
            law,
            heard: None,
            least_ns: [i64::MAX; 2],
            least_since: Nanos::ZERO,
            first: 0,
            began: Nanos::ZERO,
            lost: 0,
            delay_us: None,
            last_delay_us: 0,
            loss: 0,
            earlier: [0; 3],
            due: Nanos::NEVER,
            seldom: Nanos::NEVER,
            reported: Nanos::ZERO,
            in_vain: 0,
        }
    }

    /// When a report is due.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.due.min(self.seldom)
    }

    /// A session message with a pulse came; `next` is the number after the highest one heard of.
    pub(crate) fn on_pulse(&mut self, now: Nanos, sm_sqn: u32, pulse: &Pulse, next: u64, rng: &mut Rng) {
        // an old one, replayed or overtaken, tells nothing
        if self.heard.is_some_and(|h| sm_sqn.wrapping_sub(h.sm_sqn).cast_signed() < 0) {
            return;
        }
        if self.heard.is_none() {
            (self.first, self.began, self.lost) = (next, now, 0);
            self.seldom = now + SELDOM + SELDOM.mul_f64(rng.unit());
        }
        self.measure_delay(now, pulse);
        let governs = pulse.governor.is_some_and(|(id, _)| id == self.id);
        self.heard = Some(Heard { sm_sqn, at: now, governs });
        if governs {
            self.in_vain = 0;
            self.due = now;
            return;
        }
        if now.since(self.began) >= SPAN {
            self.end_span(now, next);
        }
        self.earlier = [self.earlier[1], self.earlier[2], self.loss];
        let within = match pulse.governor {
            None => ELECTION,
            Some((_, loss)) if self.is_clearly_above(u32::from(loss)) => {
                COMPLAINT * (1 << self.in_vain.min(IN_VAIN_MAX))
            }
            Some(_) => {
                self.in_vain = 0;
                self.due = Nanos::NEVER;
                return;
            }
        };
        if self.due == Nanos::NEVER {
            self.due = now + first_wait(self.law, within, rng);
        }
    }

    fn is_clearly_above(&self, loss: u32) -> bool {
        self.earlier.iter().all(|&own| own > loss + loss / 4 + 64)
    }

    /// How much longer than the shortest way this pulse took.
    fn measure_delay(&mut self, now: Nanos, pulse: &Pulse) {
        let way_ns = now.0.wrapping_sub(pulse.sent_at.0).cast_signed();
        if now.since(self.least_since) >= LEAST_WINDOW {
            (self.least_ns, self.least_since) = ([i64::MAX, self.least_ns[0]], now);
        }
        let since_ns = self.heard.map_or(0, |h| now.since(h.at).as_nanos() as i64);
        let grown = self.least_ns.map(|least_ns| least_ns.saturating_add(since_ns / DRIFT_PARTS));
        self.least_ns = [grown[0].min(way_ns), grown[1]];
        let least_ns = self.least_ns[0].min(self.least_ns[1]);
        let delay_us = u32::try_from(way_ns.saturating_sub(least_ns) / 1_000).unwrap_or(u32::MAX);
        self.last_delay_us = delay_us;
        self.delay_us = Some(self.delay_us.map_or(delay_us, |d| d.min(delay_us)));
    }

    /// Datagrams were found missing.
    pub(crate) fn on_loss(&mut self, now: Nanos, count: u64, rng: &mut Rng) {
        self.lost += count;
        let Some(heard) = self.heard else { return };
        if heard.governs {
            self.due = self.due.min((now + AFTER_LOSS).max(self.reported + BETWEEN));
        } else if self.due == Nanos::NEVER && now.since(heard.at) >= PULSES_LOST {
            let within = UNHEARD * (1 << self.in_vain.min(IN_VAIN_UNHEARD_MAX));
            self.due = now + first_wait(self.law, within, rng);
        }
    }

    /// A datagram that was found missing was only late.
    pub(crate) fn on_late(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// The report that is due, if there is anything to report on.
    pub(crate) fn report(&mut self, now: Nanos, next: u64) -> Option<Report> {
        let heard = self.heard?;
        if now < self.due() {
            return None;
        }
        (self.due, self.seldom, self.reported) = (Nanos::NEVER, now + SELDOM + SELDOM / 2, now);
        self.in_vain = if heard.governs { 0 } else { self.in_vain.saturating_add(1) };
        let (first, began, lost) = (self.first, self.began, self.lost);
        let delay_us = self.delay_us.unwrap_or(self.last_delay_us);
        self.end_span(now, next);
        let count = next.saturating_sub(first);
        Some(Report {
            loss: self.loss.min(u32::from(u16::MAX)) as u16,
            receiver: self.id,
            pulse: heard.sm_sqn,
            held_us: micros(now.since(heard.at)),
            first: Sqn(first as u32),
            end: Sqn(next as u32),
            lost: u32::try_from(lost.min(count)).unwrap_or(u32::MAX),
            span_us: micros(now.since(began)),
            delay_us,
        })
    }

    fn end_span(&mut self, now: Nanos, next: u64) {
        let count = next.saturating_sub(self.first);
        let span_us = u64::from(micros(now.since(self.began)));
        if let Some(share) = (self.lost.min(count) << 16).checked_div(count) {
            let (weight, old) = (span_us.min(SMOOTHING_US), u64::from(self.loss));
            self.loss = ((share * weight + old * (SMOOTHING_US - weight)) / SMOOTHING_US) as u32;
        }
        (self.first, self.began, self.lost, self.delay_us) = (next, now, 0, None);
    }
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 77;
    const LAW: NakLaw = NakLaw::Weighted { group_size: 50 };
    const MS: Duration = Duration::from_millis(1);

    fn pulse(at_ms: u64, governor: Option<(u32, u16)>) -> Pulse {
        Pulse { governor, sent_at: Nanos::ZERO + MS * at_ms as u32 }
    }

    fn at(ms: u64) -> Nanos {
        Nanos::ZERO + MS * ms as u32
    }

    fn reporter() -> (Reporter, Rng) {
        (Reporter::new(ME, LAW), Rng::new(1))
    }

    #[test]
    fn without_pulses_nothing_is_ever_due() {
        let _repeat = testkit::repeat!();
        let (mut r, _) = reporter();
        r.on_loss(at(1), 5, &mut Rng::new(1));
        assert_eq!((r.due(), r.report(at(100), 10)), (Nanos::NEVER, None));
    }

    #[test]
    fn the_one_who_governs_reports_each_pulse_and_soon_after_a_loss() {
        let (mut r, mut rng) = reporter();
        r.on_pulse(at(0), 1, &pulse(0, Some((ME, 0))), 100, &mut rng);
        assert!(r.report(at(0), 100).is_some());
        r.on_pulse(at(20), 2, &pulse(20, Some((ME, 0))), 150, &mut rng);
        let report = r.report(at(20), 150).expect("a pulse");
        assert_eq!((report.first, report.end, report.lost, report.pulse), (Sqn(100), Sqn(150), 0, 2));
        assert_eq!((report.span_us, report.held_us), (20_000, 0));
        r.on_loss(at(40), 3, &mut rng);
        assert_eq!(r.due(), at(42));
        let report = r.report(at(42), 200).expect("a loss");
        assert_eq!((report.lost, report.count(), report.held_us), (3, 50, 22_000));
        assert!(report.loss > 0);
        r.on_loss(at(43), 1, &mut rng);
        assert_eq!(r.due(), at(52), "not all the time");
        r.on_late();
        assert_eq!(r.report(at(52), 210).map(|r| r.lost), Some(0), "it was only late");
    }

    #[test]
    fn queueing_is_what_a_pulse_takes_beyond_the_shortest_whatever_the_clocks_differ() {
        for offset_ms in [0, 5_000_000] {
            let (mut r, mut rng) = reporter();
            let mut delays = Vec::new();
            for (sent, arrives) in [(0, 7), (20, 25), (40, 52), (60, 90)] {
                let now = at(arrives + offset_ms);
                r.on_pulse(now, 0, &pulse(sent, Some((ME, 0))), 0, &mut rng);
                delays.push(r.report(now, 0).expect("it governs").delay_us);
            }
            assert_eq!(delays, [0, 0, 6_997, 24_993], "less what clocks may drift");
        }
    }

    #[test]
    fn the_shortest_way_is_forgotten_so_that_clocks_may_drift() {
        let (mut r, mut rng) = reporter();
        let mut delay = 0;
        for second in 0..240 {
            let (sent, now) = (second * 1_000, at(second * 1_000 + 5 + second));
            r.on_pulse(now, 0, &pulse(sent, Some((ME, 0))), 0, &mut rng);
            delay = r.report(now, 0).expect("it governs").delay_us;
        }
        assert!(delay <= 120_000, "{delay}");
    }

    #[test]
    fn one_with_less_loss_than_the_governor_is_silent_and_one_with_more_complains_ever_more_seldom() {
        let (mut r, mut rng) = reporter();
        let (mut reports, mut next) = (Vec::new(), 0);
        for ms in 0..4_000 {
            if ms % 20 == 0 {
                next += 50;
                r.on_loss(at(ms), 5, &mut rng);
                let governor_loss = if ms < 2_000 { 60_000 } else { 10 };
                r.on_pulse(at(ms), 0, &pulse(ms, Some((1, governor_loss))), next, &mut rng);
            }
            reports.extend(r.report(at(ms), next).map(|_| ms));
        }
        let (silent, complaining) = reports.split_at(reports.partition_point(|&ms| ms < 2_000));
        assert_eq!(silent, [0; 0]);
        assert!((4..20).contains(&complaining.len()), "{complaining:?}");
    }

    #[test]
    fn one_that_loses_the_pulses_too_reports_without_them() {
        let (mut r, mut rng) = reporter();
        r.on_pulse(at(0), 0, &pulse(0, Some((1, 0))), 0, &mut rng);
        let mut reports = 0;
        for ms in 1..2_000 {
            r.on_loss(at(ms), 1, &mut rng);
            reports += u32::from(r.report(at(ms), ms).is_some());
        }
        assert!((4..40).contains(&reports), "{reports}");
    }

    #[test]
    fn when_nobody_governs_all_report_within_the_time_of_an_election() {
        testkit::for_each_seed!(0..50, |seed| {
            let mut r = Reporter::new(ME, LAW);
            r.on_pulse(at(5), 0, &pulse(0, None), 0, &mut Rng::new(seed));
            assert!(r.due() <= at(5) + ELECTION, "{:?}", r.due());
        });
    }

    #[test]
    fn everybody_reports_now_and_then() {
        let (mut r, mut rng) = reporter();
        let mut reports = 0;
        for second in 0..60 {
            r.on_pulse(at(second * 1_000), 0, &pulse(0, Some((1, 0))), 0, &mut rng);
            reports += u32::from(r.report(at(second * 1_000), 0).is_some());
        }
        assert!((2..=6).contains(&reports), "{reports}");
    }
}
