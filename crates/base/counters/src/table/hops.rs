use crate::{Counter, CounterSet, Descriptor, Histogram, counters};

counters! {
    /// How long updates took over one hop, which the label `hop` names: `/metrics` shows these as one histogram, `hop_latency_seconds`.
    struct HopLatency(TABLE "hop_latency") {
        at_most_1us: Total, "updates", "Updates that took at most 1 us.";
        at_most_2us: Total, "updates", "Updates that took at most 2 us, and more than 1 us.";
        at_most_4us: Total, "updates", "Updates that took at most 4 us, and more than 2 us.";
        at_most_8us: Total, "updates", "Updates that took at most 8 us, and more than 4 us.";
        at_most_16us: Total, "updates", "Updates that took at most 16 us, and more than 8 us.";
        at_most_32us: Total, "updates", "Updates that took at most 32 us, and more than 16 us.";
        at_most_64us: Total, "updates", "Updates that took at most 64 us, and more than 32 us.";
        at_most_128us: Total, "updates", "Updates that took at most 128 us, and more than 64 us.";
        at_most_256us: Total, "updates", "Updates that took at most 256 us, and more than 128 us.";
        at_most_512us: Total, "updates", "Updates that took at most 512 us, and more than 256 us.";
        at_most_1024us: Total, "updates", "Updates that took at most 1024 us, and more than 512 us.";
        at_most_2048us: Total, "updates", "Updates that took at most 2048 us, and more than 1024 us.";
        at_most_4096us: Total, "updates", "Updates that took at most 4096 us, and more than 2048 us.";
        at_most_8192us: Total, "updates", "Updates that took at most 8192 us, and more than 4096 us.";
        at_most_16384us: Total, "updates", "Updates that took at most 16384 us, and more than 8192 us.";
        at_most_32768us: Total, "updates", "Updates that took at most 32768 us, and more than 16384 us.";
        at_most_65536us: Total, "updates", "Updates that took at most 65536 us, and more than 32768 us.";
        at_most_131072us: Total, "updates", "Updates that took at most 131072 us, and more than 65536 us.";
        at_most_262144us: Total, "updates", "Updates that took at most 262144 us, and more than 131072 us.";
        at_most_524288us: Total, "updates", "Updates that took at most 524288 us, and more than 262144 us.";
        at_most_1048576us: Total, "updates", "Updates that took at most 1048576 us, and more than 524288 us.";
        above_all: Total, "updates", "Updates that took longer, 1.05 s and more.";
        sum_ns: Total, "ns", "The sum of what they took.";
    }
}

/// Upper bounds of all buckets but the last, in seconds: powers of two of a microsecond.
const BOUNDS: [&str; HopLatency::BUCKETS - 1] = [
    "0.000001", "0.000002", "0.000004", "0.000008", "0.000016", "0.000032", "0.000064", "0.000128",
    "0.000256", "0.000512", "0.001024", "0.002048", "0.004096", "0.008192", "0.016384", "0.032768",
    "0.065536", "0.131072", "0.262144", "0.524288", "1.048576",
];

impl HopLatency {
    /// How many buckets there are; the last one has no bound.
    pub const BUCKETS: usize = 22;

    /// Upper bound of a bucket in microseconds; `None` of the last one.
    #[must_use]
    pub fn bound_us(bucket: usize) -> Option<u64> {
        (bucket + 1 < Self::BUCKETS).then(|| 1 << bucket)
    }

    /// Counts that each of `count` updates took so many nanoseconds.
    #[inline]
    pub fn observe(&self, ns: u64, count: u64) {
        // The power of two that is not less than the time in microseconds.
        let us = ns.div_ceil(1_000).max(1);
        let bucket = (u64::BITS - (us - 1).leading_zeros()) as usize;
        self.bucket(bucket).add(count);
        self.sum_ns.add(ns.wrapping_mul(count));
    }

    fn bucket(&self, bucket: usize) -> &Counter {
        match bucket {
            0 => &self.at_most_1us,
            1 => &self.at_most_2us,
            2 => &self.at_most_4us,
            3 => &self.at_most_8us,
            4 => &self.at_most_16us,
            5 => &self.at_most_32us,
            6 => &self.at_most_64us,
            7 => &self.at_most_128us,
            8 => &self.at_most_256us,
            9 => &self.at_most_512us,
            10 => &self.at_most_1024us,
            11 => &self.at_most_2048us,
            12 => &self.at_most_4096us,
            13 => &self.at_most_8192us,
            14 => &self.at_most_16384us,
            15 => &self.at_most_32768us,
            16 => &self.at_most_65536us,
            17 => &self.at_most_131072us,
            18 => &self.at_most_262144us,
            19 => &self.at_most_524288us,
            20 => &self.at_most_1048576us,
            _ => &self.above_all,
        }
    }

    /// How many updates are in each bucket.
    #[must_use]
    pub fn counts(&self) -> [u64; Self::BUCKETS] {
        std::array::from_fn(|bucket| self.bucket(bucket).get())
    }
}

impl CounterSet for HopLatency {
    fn descriptors(&self) -> &'static [Descriptor] {
        Self::TABLE
    }

    fn values(&self, into: &mut Vec<u64>) {
        self.append_values(into);
    }

    fn histogram(&self) -> Option<Histogram> {
        Some(Histogram {
            name: "hop_latency_seconds",
            meaning: "How long updates took over a hop, by hop stamps (source_distributor.hop_stamps).",
            bounds: &BOUNDS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_bucket_of_the_next_power_of_two() {
        let latency = HopLatency::default();
        for (ns, bucket) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (4_000, 2),
            (1_000_000, 10),
            (1_048_576_000, 20),
            (1_048_576_001, 21),
            (u64::MAX, 21),
        ] {
            let before = latency.counts();
            latency.observe(ns, 3);
            let after = latency.counts();
            let moved: Vec<usize> = (0..HopLatency::BUCKETS).filter(|at| after[*at] != before[*at]).collect();
            assert_eq!((moved, after[bucket] - before[bucket]), (vec![bucket], 3), "{ns}");
        }
    }

    #[test]
    fn the_values_are_a_count_for_each_bound_one_for_the_rest_and_the_sum() {
        let latency = HopLatency::default();
        latency.observe(5_000, 2);
        let mut values = Vec::new();
        latency.values(&mut values);
        assert_eq!(values.len(), BOUNDS.len() + 2);
        assert_eq!((values[3], values[22], values.iter().sum::<u64>()), (2, 10_000, 10_002));
        for (bucket, bound) in BOUNDS.iter().enumerate() {
            let seconds: f64 = bound.parse().expect("a number");
            assert_eq!(Some((seconds * 1e6).round() as u64), HopLatency::bound_us(bucket));
            assert!(
                HopLatency::TABLE[bucket]
                    .name
                    .starts_with(&format!("hop_latency_at_most_{}us", 1_u64 << bucket))
            );
        }
        assert_eq!(HopLatency::bound_us(21), None);
    }
}
