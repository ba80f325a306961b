//! When datagrams go out: rate limits, congestion control, session messages of a silent session; and what went out.

use super::inquiry::Inquiry;
use super::pace::Pace;
use super::silence::SessionMessageSchedule;
use super::window::{Run, Window};
use crate::config::{SourceConfig, ns};
use crate::congestion::{Report, Verdict};
use crate::presence::Answer;
use crate::rate::TokenBucket;
use crate::wire::extension::{SUBTYPE_PULSE, SUBTYPE_REPORT, emit_extension, find_extension};
use counters::table::ReliableSource;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;
use units::{Nanos, Sqn};

/// What one session has sent; the counters are those of all sessions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotals {
    /// Datagrams sent for the first time; of LBT-RU once for each client.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams sent again.
    pub retransmissions: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
}

/// What a source may send at which time.
pub struct Transmitter {
    data_limit: TokenBucket,
    repeat_limit: TokenBucket,
    /// The rate, if congestion control moves it.
    pace: Option<Box<Pace>>,
    /// What it asks its receivers, and what they answer.
    inquiry: Inquiry,
    /// How often each datagram goes out.
    copies: u64,
    schedule: SessionMessageSchedule,
    run_count_max: u32,
    run_bytes_max: u64,
    sent: SentTotals,
    /// When a receiver last asked for something.
    asked: Nanos,
    counters: Arc<ReliableSource>,
}

impl Transmitter {
    pub(super) fn new(config: &SourceConfig, now: Nanos, counters: Arc<ReliableSource>) -> Transmitter {
        let depth_min = 2 * u64::from(config.datagram_max_size);
        let bucket = |bps| TokenBucket::new(bps, config.rate_interval, depth_min, now);
        let mut transmitter = Transmitter {
            data_limit: bucket(config.data_rate_limit),
            repeat_limit: bucket(config.retransmit_rate_limit),
            pace: Pace::new(config, now),
            inquiry: Inquiry::default(),
            copies: 1,
            schedule: SessionMessageSchedule::new(
                config.sm_minimum_interval,
                config.sm_maximum_interval,
                now,
            ),
            run_count_max: config.transmit_run_maximum_count,
            run_bytes_max: u64::from(config.transmit_run_maximum_bytes.max(config.datagram_max_size)),
            sent: SentTotals::default(),
            asked: Nanos::ZERO,
            counters,
        };
        transmitter.apply_rate(now);
        transmitter
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pace.as_ref().map_or(0, |p| p.memory_bytes()) + self.inquiry.memory_bytes()
    }

    /// What went out.
    pub(super) fn totals(&self) -> SentTotals {
        self.sent
    }

    /// What is counted of the session.
    #[inline]
    pub(crate) fn counters(&self) -> &ReliableSource {
        &self.counters
    }

    /// From when on new data may go out.
    pub(crate) fn data_due(&self, window: &Window) -> Nanos {
        if window.unsent_count() == 0 {
            return Nanos::NEVER;
        }
        self.data_due_of(window.len_of(window.unsent()))
    }

    /// From when on `len` bytes of new data may go out.
    pub(crate) fn data_due_of(&self, len: u64) -> Nanos {
        self.data_limit.ready_at(len)
    }

    /// From when on a retransmission of `len` bytes may go out.
    pub(crate) fn repeat_due(&self, len: u64) -> Nanos {
        self.repeat_limit.ready_at(len).max(self.data_limit.ready_at(len))
    }

    /// The unsent datagrams that may go out now.
    pub(crate) fn next_data(&mut self, now: Nanos, window: &Window) -> Option<Run> {
        let count_max = window.unsent_count().min(self.run_count_max);
        if count_max == 0 {
            return None;
        }
        window.run(window.unsent(), count_max, self.data_bytes_max(now))
    }

    /// Datagrams of one run.
    pub(crate) fn run_count_max(&self) -> u32 {
        self.run_count_max
    }

    /// Bytes of new data that the limit allows now.
    pub(crate) fn data_room(&mut self, now: Nanos) -> u64 {
        self.data_limit.available(now)
    }

    /// Bytes of retransmissions that their limit allows now.
    pub(crate) fn repeat_room(&mut self, now: Nanos) -> u64 {
        self.repeat_limit.available(now)
    }

    /// Bytes of one run of new data.
    pub(crate) fn data_bytes_max(&mut self, now: Nanos) -> u64 {
        self.data_room(now).min(self.run_bytes_max)
    }

    /// Bytes of one run of retransmissions.
    pub(crate) fn repeat_bytes_max(&mut self, now: Nanos) -> u64 {
        self.repeat_room(now).min(self.data_bytes_max(now))
    }

    /// Counts new datagrams that went out.
    pub(crate) fn data_went_out(&mut self, now: Nanos, count: u32, bytes: u64) {
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.msgs_sent.add(u64::from(count));
        self.counters.bytes_sent.add(bytes);
        self.sent.datagrams += u64::from(count);
        self.sent.bytes += bytes;
    }

    /// New datagrams passed that nobody was there to get.
    pub(crate) fn data_passed(&mut self, bytes: u64) {
        self.data_limit.take(bytes);
    }

    /// Counts retransmissions that went out.
    pub(crate) fn repeats_went_out(&mut self, now: Nanos, count: u32, bytes: u64) {
        self.repeat_limit.take(bytes);
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.rxs_sent.add(u64::from(count));
        self.counters.rx_bytes_sent.add(bytes);
        self.sent.retransmissions += u64::from(count);
        self.sent.retransmitted_bytes += bytes;
    }

    /// Shows how full the window is.
    pub(crate) fn show_window(&self, window: &Window) {
        self.counters.rctlr_data_msgs.set(u64::from(window.unsent_count()));
        self.counters.txw_msgs.set(u64::from(window.count()));
        self.counters.txw_bytes.set(window.live_bytes());
    }

    /// Everything may go out at once from now on.
    pub(super) fn lift_data_limit(&mut self, now: Nanos) {
        self.data_limit = TokenBucket::new(0, Duration::ZERO, 0, now);
    }

    /// When a session message is due after silence.
    pub(crate) fn silence_due(&self) -> Nanos {
        self.schedule.due()
    }

    /// The number of the next session message.
    pub(crate) fn sm_sqn(&self) -> u32 {
        self.schedule.sm_sqn()
    }

    /// Silence begins anew: something went out, or somebody came who is to hear of the session soon.
    pub(crate) fn begin_silence(&mut self, now: Nanos) {
        self.schedule.on_datagram(now);
    }

    /// Session messages come every `wait` from now on.
    pub(super) fn hurry(&mut self, now: Nanos, wait: Duration) {
        self.schedule.hurry(now, wait);
    }

    /// A session message of `bytes`, all copies together, went out, with a pulse if there is congestion control.
    pub(crate) fn session_message_went_out(&mut self, now: Nanos, bytes: u64) {
        self.schedule.on_session_message(now);
        self.inquiry.sent();
        let Some(pace) = &mut self.pace else { return };
        self.data_limit.take(bytes);
        if pace.controller.on_pulse_sent(now) {
            self.apply_rate(now);
        }
    }

    /// How often each datagram goes out.
    pub(crate) fn copies(&self) -> u64 {
        self.copies
    }

    /// What congestion control allows to one receiver is allowed to each of `copies`.
    pub(crate) fn set_copies(&mut self, now: Nanos, copies: u64) {
        self.copies = copies;
        self.apply_rate(now);
    }

    /// Takes what congestion control allows; without it the limits stay. The controller knows of one copy of
    /// each datagram.
    fn apply_rate(&mut self, now: Nanos) {
        let Some(pace) = &self.pace else { return };
        let (data_bps, repeat_bps) = pace.rates(self.copies);
        pace.set_rate(&mut self.data_limit, data_bps, now);
        if let Some(repeat_bps) = repeat_bps {
            pace.set_rate(&mut self.repeat_limit, repeat_bps, now);
        }
        self.counters.rate_bits_per_second.set(pace.controller.rate());
        self.counters.round_trip.set(ns(pace.controller.round_trip()));
    }

    /// When a receiver last asked for a retransmission; zero if none ever did.
    pub(super) fn last_asked(&self) -> Nanos {
        self.asked
    }

    /// A receiver asks for so many numbers. Returns how long a retransmission may take to be seen; zero without
    /// congestion control.
    pub(crate) fn on_nak(&mut self, now: Nanos, numbers: usize) -> Duration {
        self.asked = now;
        let Some(pace) = &mut self.pace else { return Duration::ZERO };
        pace.controller.on_nak(numbers);
        // once more its half: queues grow
        pace.controller.round_trip_long() * 3 / 2
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

    /// What the receivers are asked, and what they answer.
    pub(super) fn inquiry(&mut self) -> &mut Inquiry {
        &mut self.inquiry
    }

    /// Takes what a NAK of no numbers says, if that is an answer.
    pub(crate) fn on_answer(&mut self, from: SocketAddrV4, trailer: &[u8]) -> bool {
        let Some(answer) = Answer::find(trailer) else { return false };
        if !self.inquiry.take(from, answer) {
            self.counters.nak_pckts_dropped.inc();
        }
        true
    }

    /// Tells congestion control of datagrams that went out, new or again.
    pub(crate) fn note_sent(&mut self, bytes: u64, count: u32) {
        if let Some(pace) = &mut self.pace {
            pace.controller.on_sent(bytes, count);
        }
    }

    /// Takes what a receiver reports; without congestion control nobody should. True if the receiver is left
    /// to its losses from now on.
    pub(crate) fn on_report(&mut self, now: Nanos, trailer: &[u8], unsent: Sqn) -> bool {
        let report = find_extension(trailer, SUBTYPE_REPORT).and_then(Report::parse);
        let (Some(pace), Some(report)) = (&mut self.pace, report) else {
            self.counters.nak_pckts_dropped.inc();
            return false;
        };
        self.counters.reports_rcved.inc();
        let verdict = pace.controller.on_report(now, &report, unsent);
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
