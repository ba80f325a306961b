//! What several workloads are told alike: how long and how often, how large, on which CPUs.

use clap::Args;

use crate::error::BenchError;

/// How long and how often.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunOptions {
    /// Runs of which the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Prints one JSON object a line in place of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long a run may be told to last.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "0.001 to 86400".to_owned())
}

/// The CPU that a process is kept on; none if it is left to the system.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Cpu {
    #[arg(long)]
    cpu: Option<usize>,
}

impl Cpu {
    pub(crate) fn on(cpu: Option<usize>) -> Cpu {
        Cpu { cpu }
    }

    pub(crate) fn enter(self) -> Result<(), BenchError> {
        Ok(self.cpu.map_or(Ok(()), net::affinity::pin_to_cpu)?)
    }

    pub(crate) fn number(self) -> Option<usize> {
        self.cpu
    }

    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        self.cpu.map_or_else(Vec::new, |cpu| vec!["--cpu".to_owned(), cpu.to_string()])
    }
}

/// What a message of the workloads may have: the stamp of the observer at least, and it fits a datagram.
pub(crate) fn message_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(measure::STAMP_BYTES as i64..=1400)
}

/// The same where a message may go in fragments.
pub(crate) fn long_message_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(measure::STAMP_BYTES as i64..=65_536)
}

/// UDP payload of a datagram.
pub(crate) fn datagram_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(500..=net::udp::PAYLOAD_MAX_BYTES as i64)
}

/// The CPUs of two ends.
pub(crate) fn two_cpus(cpus: &[usize]) -> Result<[usize; 2], BenchError> {
    let differ = |cpus: &[usize; 2]| cpus[0] != cpus[1];
    let two = cpus.try_into().ok().filter(differ);
    two.ok_or_else(|| BenchError::new(format!("--cpus: two that differ, not {cpus:?}; both ends spin")))
}
