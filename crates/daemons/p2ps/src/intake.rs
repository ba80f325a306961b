//! What waits of the backbone's messages, shown and told to operators.

use std::sync::Arc;
use std::time::Duration;

use counters::table::PointToPoint as Counters;
use market::Intake;
use serde_json::{Value, json};
use tracing::{info, warn};
use units::Nanos;

/// Tells when a server falls behind, loses messages for that, and has caught up.
pub(crate) struct IntakeWatch {
    counters: Arc<Counters>,
    shown_bytes: usize,
    /// Since when it has been told that the server is behind, and how long the oldest message had waited at most.
    behind: Option<(Nanos, Duration)>,
    /// How many had been dropped when it was told last, and when that may be told again.
    dropped: u64,
    report_dropped_at: Nanos,
}

/// It is told that the server is behind when messages have waited for so long.
const BEHIND: Duration = Duration::from_millis(500);
/// Dropped messages are told as often as this.
const DROPPED_EVERY: Duration = Duration::from_secs(10);

impl IntakeWatch {
    pub(crate) fn new(counters: Arc<Counters>) -> IntakeWatch {
        IntakeWatch { counters, shown_bytes: 0, behind: None, dropped: 0, report_dropped_at: Nanos::ZERO }
    }

    /// To be called in each turn.
    #[inline]
    pub(crate) fn look(&mut self, now: Nanos, intake: &Intake) {
        if intake.bytes() != 0 || self.shown_bytes != 0 || intake.dropped() != self.dropped {
            self.look_closer(now, intake);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_closer(&mut self, now: Nanos, intake: &Intake) {
        let (bytes, delay) = (intake.bytes(), intake.delay(now));
        self.shown_bytes = bytes;
        self.counters.intake_bytes.set(bytes as u64);
        self.counters.intake_delay_ns.set(delay.as_nanos() as u64);
        self.report_dropped(now, intake.dropped());
        match &mut self.behind {
            None if delay >= BEHIND => {
                let delay_ms = delay.as_millis() as u64;
                warn!(bytes, delay_ms, "behind the source distributors: their messages wait");
                self.behind = Some((now, delay));
            }
            Some((since, _)) if bytes == 0 => {
                let (seconds, delay_ms) = (now.since(*since).as_secs(), self.worst_ms());
                info!(seconds, delay_ms, "no longer behind the source distributors");
                self.behind = None;
            }
            Some((_, worst)) => *worst = delay.max(*worst),
            None => {}
        }
    }

    fn worst_ms(&self) -> u64 {
        self.behind.map_or(0, |(_, worst)| worst.as_millis() as u64)
    }

    fn report_dropped(&mut self, now: Nanos, dropped: u64) {
        self.counters.intake_dropped.add(dropped - self.counters.intake_dropped.get());
        if dropped > self.dropped && now >= self.report_dropped_at {
            warn!(
                messages = dropped - self.dropped,
                "messages of source distributors are dropped, since p2ps.intake_max_bytes wait: their items get new images (lines about gaps say whose)"
            );
            self.dropped = dropped;
            self.report_dropped_at = now + DROPPED_EVERY;
        }
    }
}

/// What waits, for status pages.
pub(crate) fn describe(now: Nanos, intake: &Intake) -> Value {
    json!({
        "bytes": intake.bytes(),
        "delay_ms": intake.delay(now).as_millis() as u64,
        "dropped": intake.dropped(),
    })
}

#[cfg(test)]
mod tests {
    use market::IntakeConfig;
    use market::p2ps::SourceId;

    use super::*;

    #[test]
    fn what_was_dropped_is_counted_and_told_though_the_same_turn_has_emptied_the_intake() {
        let mut intake = Intake::new(IntakeConfig { bytes_max: 1_000, rate_limit: 0 });
        let counters = Arc::<Counters>::default();
        let mut watch = IntakeWatch::new(Arc::clone(&counters));
        let mut now = Nanos(1);
        let mut turn = |intake: &mut Intake, watch: &mut IntakeWatch, messages: usize| {
            now += Duration::from_millis(1);
            (0..messages).for_each(|_| intake.keep(now, SourceId(1), &[0; 92]));
            while intake.hand_on(|_| {}) {}
            watch.look(now, intake);
        };
        turn(&mut intake, &mut watch, 25);
        assert_eq!((counters.intake_dropped.get(), watch.dropped), (15, 15));
        turn(&mut intake, &mut watch, 20);
        assert_eq!((counters.intake_dropped.get(), watch.dropped), (25, 15), "told every ten seconds");
        watch.look(Nanos(1) + DROPPED_EVERY * 2, &intake);
        assert_eq!(watch.dropped, 25, "and in the end");
    }
}
