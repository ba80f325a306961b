use super::source::Source;
use crate::config::{CongestionControl, SourceConfig, ns};
use crate::congestion::{Controller, Report, Verdict};
use crate::wire::extension::{SUBTYPE_PULSE, SUBTYPE_REPORT, emit_extension, find_extension};
use std::time::Duration;
use units::Nanos;

/// Congestion control of a source, and what its two token buckets are made with.
pub(crate) struct Pace {
    controller: Controller,
    interval: Duration,
    depth_min: u64,
    data_bps: u64,
    repeat_bps: u64,
}

impl Pace {
    /// `None` without congestion control.
    pub(crate) fn new(config: &SourceConfig, now: Nanos) -> Option<Box<Pace>> {
        let CongestionControl::Adaptive { minimum_rate, maximum_round_trip } = config.congestion_control
        else {
            return None;
        };
        let (limit, unit) = (config.data_rate_limit, config.datagram_max_size);
        Some(Box::new(Pace {
            controller: Controller::new(minimum_rate, limit, unit, maximum_round_trip, now),
            interval: config.rate_interval,
            depth_min: 2 * u64::from(unit),
            data_bps: limit,
            repeat_bps: config.retransmit_rate_limit,
        }))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.controller.memory_bytes()
    }

    /// The retransmission rate: the same part of the present rate as of the limit.
    fn repeat_rate(&self) -> u64 {
        let (rate, part) = (u128::from(self.controller.rate()), u128::from(self.repeat_bps));
        (rate * part).checked_div(self.data_bps.into()).map_or(0, |bps| bps as u64).max(1)
    }
}

impl<T> Source<T> {
    /// Takes what congestion control allows; without it the limits stay. The controller knows of one copy of
    /// each datagram.
    pub(crate) fn apply_rate(&mut self, now: Nanos) {
        let Some(pace) = &self.pace else { return };
        let (controller, rate, copies) = (&pace.controller, pace.controller.rate(), self.copies);
        let all = |bps: u64, limit: u64| bps.saturating_mul(copies).min(limit);
        self.data_limit.set_rate(all(rate, pace.data_bps), pace.interval, pace.depth_min, now);
        if pace.repeat_bps != 0 {
            let again = all(pace.repeat_rate(), pace.repeat_bps);
            self.repeat_limit.set_rate(again, pace.interval, pace.depth_min, now);
        }
        self.counters.rate_bits_per_second.set(rate);
        self.counters.round_trip.set(ns(controller.round_trip()));
    }

    /// How long a retransmission may take to be seen; zero without congestion control.
    pub(crate) fn repair_time(&self) -> Duration {
        // once more its half: queues grow
        self.pace.as_ref().map_or(Duration::ZERO, |p| p.controller.round_trip_long() * 3 / 2)
    }

    /// A receiver asks for so many numbers.
    pub(crate) fn note_naks(&mut self, numbers: usize) {
        if let Some(pace) = &mut self.pace {
            pace.controller.on_nak(numbers);
        }
    }

    /// Appends what congestion control says with session message `sm_sqn`, if there is congestion control, and what
    /// the receivers are asked.
    pub(crate) fn emit_pulse(&mut self, now: Nanos, sm_sqn: u32, out: &mut Vec<u8>) {
        if let Some(pace) = &mut self.pace {
            emit_extension(out, SUBTYPE_PULSE, &pace.controller.pulse(now, sm_sqn).emit());
        }
        self.inquiry.emit(out);
    }

    /// When a session message is due for congestion control, or to ask the receivers something.
    pub(crate) fn pulse_due(&self) -> Nanos {
        self.pace.as_ref().map_or(Nanos::NEVER, |p| p.controller.pulse_due()).min(self.inquiry.due())
    }

    /// Datagrams went out, new or again.
    pub(crate) fn note_sent(&mut self, bytes: u64, count: u32) {
        if let Some(pace) = &mut self.pace {
            pace.controller.on_sent(bytes, count);
        }
    }

    /// A session message of `bytes` went out, with a pulse if there is congestion control.
    pub(crate) fn pulse_sent(&mut self, now: Nanos, bytes: u64) {
        self.inquiry.sent();
        let Some(pace) = &mut self.pace else { return };
        self.data_limit.take(bytes);
        if pace.controller.on_pulse_sent(now) {
            self.apply_rate(now);
        }
    }

    /// Takes what a receiver reports; without congestion control nobody should. True if the receiver is left
    /// to its losses from now on.
    pub(crate) fn on_report(&mut self, now: Nanos, trailer: &[u8]) -> bool {
        let report = find_extension(trailer, SUBTYPE_REPORT).and_then(Report::parse);
        let (Some(pace), Some(report)) = (&mut self.pace, report) else {
            self.counters.nak_pckts_dropped.inc();
            return false;
        };
        self.counters.reports_rcved.inc();
        let verdict = pace.controller.on_report(now, &report, self.window.unsent());
        match verdict {
            Verdict::Taken { lowered } => self.counters.rate_lowered.add(u64::from(lowered)),
            Verdict::PassedOver => {
                self.counters.reports_passed_over.inc();
                return false;
            }
            Verdict::TooSlow => self.counters.receivers_too_slow.inc(),
        }
        self.apply_rate(now);
        matches!(verdict, Verdict::TooSlow)
    }
}
