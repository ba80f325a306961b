use crate::config::{CongestionControl, SourceConfig};
use crate::congestion::Controller;
use crate::rate::TokenBucket;
use std::time::Duration;
use units::Nanos;

/// Congestion control of a source, and what its two token buckets are made with.
pub(super) struct Pace {
    pub(super) controller: Controller,
    interval: Duration,
    depth_min: u64,
    data_bps: u64,
    repeat_bps: u64,
}

impl Pace {
    /// `None` without congestion control.
    pub(super) fn new(config: &SourceConfig, now: Nanos) -> Option<Box<Pace>> {
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

    pub(super) fn memory_bytes(&self) -> usize {
        self.controller.memory_bytes()
    }

    /// The rates of new data and of retransmissions where each datagram goes out `copies` times; none for the latter
    /// where there are none.
    pub(super) fn rates(&self, copies: u64) -> (u64, Option<u64>) {
        let all = |bps: u64, limit: u64| bps.saturating_mul(copies).min(limit);
        let data = all(self.controller.rate(), self.data_bps);
        (data, (self.repeat_bps != 0).then(|| all(self.repeat_rate(), self.repeat_bps)))
    }

    /// Sets the rate of one of the limits.
    pub(super) fn set_rate(&self, limit: &mut TokenBucket, bps: u64, now: Nanos) {
        limit.set_rate(bps, self.interval, self.depth_min, now);
    }

    /// The retransmission rate: the same part of the present rate as of the limit.
    fn repeat_rate(&self) -> u64 {
        let (rate, part) = (u128::from(self.controller.rate()), u128::from(self.repeat_bps));
        (rate * part).checked_div(self.data_bps.into()).map_or(0, |bps| bps as u64).max(1)
    }
}
