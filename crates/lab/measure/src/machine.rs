use std::fs;

use serde::Serialize;

/// The kind of machine a figure was made on.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Machine {
    pub cpu: String,
    pub cpu_count: usize,
    pub kernel: String,
}

impl Machine {
    /// This machine, as its kernel describes it.
    #[must_use]
    pub fn this() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|(_, m)| m.to_owned()));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.unwrap_or_else(|| "unknown CPU".to_owned()),
            cpu_count: std::thread::available_parallelism().map_or(0, usize::from),
            // The release up to the first dash: the rest names a build, not a kind.
            kernel: kernel.trim().split('-').next().unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cores ({}), Linux {}", self.cpu_count, self.cpu, self.kernel)
    }
}
