//! What a machine says of itself, read once. Nothing is judged here, and nothing invented: what cannot be read says why.

mod cpu;
mod network;
mod process;

pub use cpu::{CpuFacts, IdleState};
pub(crate) use cpu::{NO_TURBO, governor_file, irq_file};
pub use network::{Interface, NetworkFacts};
pub use process::{Daemon, DaemonThread, Limits, ProcessFacts};

use net::timekeeping::Discipline;

use crate::tree::{Told, Tree};

/// All of it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Facts {
    pub cpu: CpuFacts,
    pub memory: MemoryFacts,
    pub network: NetworkFacts,
    pub process: ProcessFacts,
    pub clock: ClockFacts,
}

/// Memory.
#[derive(Clone, Debug)]
pub struct MemoryFacts {
    /// Transparent huge pages: the word that is chosen.
    pub thp: Told<String>,
    /// What the kernel does for a huge page when there is none at hand.
    pub thp_defrag: Told<String>,
    /// Huge pages that are set aside.
    pub huge_pages: Told<u64>,
    /// Partitions and files that memory is swapped to.
    pub swaps: Told<usize>,
    /// How readily it is.
    pub swappiness: Told<u64>,
    /// Nodes with memory of their own.
    pub nodes: Told<usize>,
    /// Whether the kernel moves memory between nodes by itself.
    pub numa_balancing: Told<u64>,
}

/// Clocks.
#[derive(Clone, Debug)]
pub struct ClockFacts {
    /// What the kernel reads the time from.
    pub source: Told<String>,
    /// What it could read it from.
    pub sources: Told<String>,
    /// Who disciplines the clock.
    pub discipline: Told<Discipline>,
    /// Clocks of cards.
    pub ptp_devices: Vec<String>,
}

impl Facts {
    /// Reads them.
    #[must_use]
    pub fn read(tree: &Tree) -> Facts {
        Facts {
            cpu: CpuFacts::read(tree),
            memory: MemoryFacts::read(tree),
            network: NetworkFacts::read(tree),
            process: ProcessFacts::read(tree),
            clock: ClockFacts::read(tree),
        }
    }
}

impl MemoryFacts {
    fn read(tree: &Tree) -> MemoryFacts {
        let chosen = |path: &str| tree.text(path).map(|text| chosen(&text).to_owned());
        let nodes = tree.names("/sys/devices/system/node").map(|names| {
            let is_node =
                |name: &&String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
            names.iter().filter(is_node).count()
        });
        MemoryFacts {
            thp: chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
            thp_defrag: chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
            huge_pages: tree.number("/proc/sys/vm/nr_hugepages"),
            // The first line is a heading.
            swaps: tree.text("/proc/swaps").map(|text| text.lines().skip(1).count()),
            swappiness: tree.number("/proc/sys/vm/swappiness"),
            nodes,
            numa_balancing: tree.number("/proc/sys/kernel/numa_balancing"),
        }
    }
}

impl ClockFacts {
    fn read(tree: &Tree) -> ClockFacts {
        let source = "/sys/devices/system/clocksource/clocksource0";
        let discipline = match tree.is_own() {
            true => Discipline::now().map_err(|error| format!("the kernel does not say: {error}")),
            false => Err("a tree of files has no clock".to_owned()),
        };
        ClockFacts {
            source: tree.text(&format!("{source}/current_clocksource")),
            sources: tree.text(&format!("{source}/available_clocksource")),
            discipline,
            ptp_devices: tree.names("/sys/class/ptp").unwrap_or_default(),
        }
    }
}

/// The word in brackets, where a file lists all and marks the one that is chosen.
#[must_use]
pub(crate) fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}
