//! The demo's line of live counters.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use counters::Registry;

/// All counters at one moment, by name; those of several sets are added up.
pub(super) struct Counts(HashMap<&'static str, u64>);

impl Counts {
    pub(super) fn read(registry: &Registry) -> Counts {
        let (mut counts, mut values) = (HashMap::new(), Vec::new());
        for registered in registry.snapshot() {
            values.clear();
            registered.set.values(&mut values);
            for (descriptor, value) in registered.set.descriptors().iter().zip(&values) {
                *counts.entry(descriptor.name).or_default() += value;
            }
        }
        Counts(counts)
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// What happened since `before`, a second on average, and what is there now; `repeats` says whether the
    /// recording begins again at its end.
    pub(super) fn line(&self, before: &Counts, interval: Duration, repeats: bool) -> String {
        let rate = |name: &str| (self.get(name) - before.get(name)) as f64 / interval.as_secs_f64();
        let position = Duration::from_nanos(self.get("feed_position")).as_secs();
        let mut line = format!("{}:{:02}", position / 60, position % 60);
        match self.get("feed_rounds_total") {
            0 => {}
            _ if !repeats => line.push_str(", the recording has ended: final images"),
            rounds => write!(line, ", round {}", rounds + 1).expect("a string takes all text"),
        }
        let lost = self.get("p2ps_messages_lost_total");
        write!(
            line,
            "  feed {:.0} updates/s | distributor {:.0}/s out | p2ps {:.0}/s in, {:.0}/s to {} clients, {} items | repaired {}, lost {lost}",
            rate("provider_updates_out_total"),
            rate("distributor_stream_messages_out_total"),
            rate("p2ps_updates_in_total"),
            rate("p2ps_updates_out_total"),
            self.get("p2ps_clients"),
            self.get("p2ps_items"),
            self.get("lbtrm_receiver_recovered_total"),
        )
        .expect("a string takes all text");
        line
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use counters::table::{Feed, PointToPoint};

    use super::*;

    #[test]
    fn the_line_has_rates_of_what_was_counted_since() {
        let (registry, feed, server) =
            (Registry::default(), Arc::new(Feed::default()), Arc::new(PointToPoint::default()));
        registry.register(&[], feed.clone());
        registry.register(&[], server.clone());
        let before = Counts::read(&registry);
        feed.position.set(75_000_000_000);
        server.updates_out.add(500);
        server.clients.set(3);
        let line = Counts::read(&registry).line(&before, Duration::from_secs(10), false);
        assert!(line.starts_with("1:15  feed 0 updates/s") && line.contains("50/s to 3 clients"), "{line}");
    }
    #[test]
    fn after_the_end_the_line_says_what_is_served_or_which_round_it_is() {
        let (registry, feed) = (Registry::default(), Arc::new(Feed::default()));
        registry.register(&[], feed.clone());
        let counts = Counts::read(&registry);
        assert!(!counts.line(&counts, Duration::from_secs(1), true).contains("round"), "the first");
        feed.position.set(346_000_000_000);
        feed.rounds.inc();
        let counts = Counts::read(&registry);
        let line = |repeats| counts.line(&counts, Duration::from_secs(1), repeats);
        assert!(
            line(false).starts_with("5:46, the recording has ended: final images  feed 0"),
            "{}",
            line(false)
        );
        assert!(line(true).starts_with("5:46, round 2  feed 0"), "{}", line(true));
    }
}
