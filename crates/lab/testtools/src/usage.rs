//! What the process takes: processor time and memory.

use net::clock;
use units::Nanos;

/// Processor time and memory since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// All threads together, percent: 100 is one core.
    pub cpu_percent: f64,
    /// Memory that is resident, MiB.
    pub memory_mib: f64,
}

/// Looks again and again, and keeps the greatest, the least and the mean.
#[derive(Clone, Debug)]
pub struct UsageWatch {
    cpu: Nanos,
    at: Nanos,
    samples: Vec<Usage>,
}

/// More looks than this, five seconds apart, are days: the mean is then that of the first ones.
const SAMPLES_MAX: usize = 100_000;

impl UsageWatch {
    /// Counts from now on.
    #[must_use]
    pub fn new() -> UsageWatch {
        UsageWatch { cpu: clock::process_cpu(), at: clock::monotonic(), samples: Vec::new() }
    }

    /// What was taken since the last look.
    pub fn look(&mut self) -> Usage {
        let (cpu, at) = (clock::process_cpu(), clock::monotonic());
        let wall_ns = at.since(self.at).as_nanos().max(1) as f64;
        let usage = Usage {
            cpu_percent: cpu.since(self.cpu).as_nanos() as f64 / wall_ns * 100.0,
            memory_mib: resident_kib() as f64 / 1024.0,
        };
        (self.cpu, self.at) = (cpu, at);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(usage);
        }
        usage
    }

    /// (greatest, least, mean) of what `part` says of each look; zeros before the first one.
    #[must_use]
    pub fn range(&self, part: impl Fn(&Usage) -> f64) -> (f64, f64, f64) {
        let values = self.samples.iter().map(part);
        let count = self.samples.len().max(1) as f64;
        let (mut max, mut min, mut sum) = (0.0, f64::INFINITY, 0.0);
        for value in values {
            (max, min, sum) = (f64::max(max, value), f64::min(min, value), sum + value);
        }
        (max, if self.samples.is_empty() { 0.0 } else { min }, sum / count)
    }

    /// How often it was looked.
    #[must_use]
    pub fn count(&self) -> usize {
        self.samples.len()
    }
}

impl Default for UsageWatch {
    fn default() -> Self {
        UsageWatch::new()
    }
}

/// Resident memory of this process, KiB; 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_in_the_processor_time_and_memory_is_there() {
        let mut watch = UsageWatch::new();
        let begin = clock::process_cpu();
        while clock::process_cpu().since(begin).as_millis() < 20 {}
        let usage = watch.look();
        assert!(usage.cpu_percent > 0.0 && usage.memory_mib > 0.5, "{usage:?}");
        let (max, min, mean) = watch.range(|usage| usage.memory_mib);
        assert_eq!(
            (max, min, mean, watch.count()),
            (usage.memory_mib, usage.memory_mib, usage.memory_mib, 1)
        );
        assert_eq!(UsageWatch::new().range(|usage| usage.cpu_percent), (0.0, 0.0, 0.0));
    }
}
