use std::collections::BTreeMap;

use crate::cpus::Cpus;
use crate::tree::{Told, Tree};

const CPU: &str = "/sys/devices/system/cpu";
/// More than any machine has; what is beyond is left out.
const IRQS_MAX: usize = 8_192;

/// CPUs, and what interrupts them.
#[derive(Clone, Debug)]
pub struct CpuFacts {
    /// Those that run.
    pub online: Told<Cpus>,
    /// Those that the scheduler leaves alone (`isolcpus`).
    pub isolated: Told<Cpus>,
    /// Those without a tick while one thread runs.
    pub nohz_full: Told<Cpus>,
    /// Those whose RCU callbacks others do; from the kernel's command line.
    pub rcu_nocbs: Told<Cpus>,
    /// CPUs that share a core.
    pub siblings: Told<Vec<Cpus>>,
    /// The frequency governor of each CPU.
    pub governors: Told<BTreeMap<u32, String>>,
    /// The file that turns turbo on and off, and whether it is on.
    pub turbo: Told<(&'static str, bool)>,
    /// What puts CPUs to sleep.
    pub idle_driver: Told<String>,
    /// How deeply they may.
    pub idle_states: Told<Vec<IdleState>>,
    /// Whether the device with which a process forbids it may be opened.
    pub may_hold_awake: Told<bool>,
    /// The watchdog that counts cycles of each CPU.
    pub nmi_watchdog: Told<u64>,
    /// Microseconds of each period that real-time threads may have; -1 for all.
    pub rt_runtime_us: Told<i64>,
    /// That period.
    pub rt_period_us: Told<i64>,
    /// Interrupts, each with the CPUs that it may go to.
    pub irqs: Told<Vec<(u32, Cpus)>>,
    /// Whether this is a virtual machine.
    pub is_virtual: Told<bool>,
    /// Share of the time since the start in which the host ran something else, percent.
    pub steal_percent: Told<f64>,
}

/// A way in which a CPU sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IdleState {
    pub cpu: u32,
    /// Its number, as its folder's name says it.
    pub number: u32,
    pub name: String,
    /// Microseconds to wake up.
    pub latency_us: u64,
    pub is_disabled: bool,
}

impl IdleState {
    /// The file that takes it away.
    #[must_use]
    pub fn switch(&self) -> String {
        format!("{CPU}/cpu{}/cpuidle/state{}/disable", self.cpu, self.number)
    }
}

impl CpuFacts {
    pub(super) fn read(tree: &Tree) -> CpuFacts {
        let list = |name: &str| tree.text(&format!("{CPU}/{name}")).and_then(|text| read_list(&text));
        let online = list("online");
        let each: Vec<u32> = cpus_of(tree);
        CpuFacts {
            isolated: list("isolated"),
            nohz_full: list("nohz_full"),
            rcu_nocbs: tree.text("/proc/cmdline").and_then(|line| rcu_nocbs(&line)),
            siblings: siblings(tree, &each),
            governors: governors(tree, &each),
            turbo: turbo(tree),
            idle_driver: tree.text(&format!("{CPU}/cpuidle/current_driver")),
            idle_states: idle_states(tree, &each),
            may_hold_awake: match tree.has("/dev/cpu_dma_latency") {
                true => Ok(tree.may_write("/dev/cpu_dma_latency")),
                false => Err("there is no /dev/cpu_dma_latency here".to_owned()),
            },
            nmi_watchdog: tree.number("/proc/sys/kernel/nmi_watchdog"),
            rt_runtime_us: tree.number("/proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: tree.number("/proc/sys/kernel/sched_rt_period_us"),
            irqs: irqs(tree),
            is_virtual: tree.text("/proc/cpuinfo").map(|text| is_virtual(&text)),
            steal_percent: tree.text("/proc/stat").and_then(|text| steal_percent(&text)),
            online,
        }
    }
}

/// `(null)` is how some kernels write none.
fn read_list(text: &str) -> Told<Cpus> {
    if text == "(null)" { Ok(Cpus::default()) } else { Cpus::parse(text) }
}

fn cpus_of(tree: &Tree) -> Vec<u32> {
    let names = tree.names(CPU).unwrap_or_default();
    let mut cpus: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    cpus
}

fn rcu_nocbs(line: &str) -> Told<Cpus> {
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix("rcu_nocbs=")).map_or(Ok(Cpus::default()), Cpus::parse)
}

fn siblings(tree: &Tree, cpus: &[u32]) -> Told<Vec<Cpus>> {
    let mut cores: Vec<Cpus> = Vec::new();
    for cpu in cpus {
        let core = tree.text(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"));
        // A CPU that is off has none.
        let Ok(core) = core.and_then(|text| Cpus::parse(&text)) else { continue };
        if !cores.contains(&core) {
            cores.push(core);
        }
    }
    if cores.is_empty() { Err(format!("{CPU}/cpu*/topology does not say it")) } else { Ok(cores) }
}

fn governors(tree: &Tree, cpus: &[u32]) -> Told<BTreeMap<u32, String>> {
    let governor = |cpu: &u32| Some((*cpu, tree.text(&governor_file(*cpu)).ok()?));
    let governors: BTreeMap<u32, String> = cpus.iter().filter_map(governor).collect();
    let none = "no frequency can be set here (no cpufreq driver, as on most virtual machines)";
    if governors.is_empty() { Err(none.to_owned()) } else { Ok(governors) }
}

/// The file of a CPU's governor.
pub(crate) fn governor_file(cpu: u32) -> String {
    format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")
}

const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
/// Of Intel's driver, the other way round.
pub(crate) const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";

fn turbo(tree: &Tree) -> Told<(&'static str, bool)> {
    if let Ok(no_turbo) = tree.number::<u32>(NO_TURBO) {
        return Ok((NO_TURBO, no_turbo == 0));
    }
    let boost = tree.number::<u32>(BOOST);
    boost
        .map(|boost| (BOOST, boost != 0))
        .map_err(|_| "this machine does not say whether it has turbo".to_owned())
}

fn idle_states(tree: &Tree, cpus: &[u32]) -> Told<Vec<IdleState>> {
    let mut states = Vec::new();
    for cpu in cpus {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle");
        for name in tree.names(&folder).unwrap_or_default() {
            let Some(number) = name.strip_prefix("state").and_then(|number| number.parse().ok()) else {
                continue;
            };
            let file = |what: &str| format!("{folder}/{name}/{what}");
            states.push(IdleState {
                cpu: *cpu,
                number,
                name: tree.text(&file("name"))?,
                latency_us: tree.number(&file("latency"))?,
                is_disabled: tree.number::<u32>(&file("disable"))? != 0,
            });
        }
    }
    let none = "the kernel shows no idle states here (no cpuidle driver)";
    if states.is_empty() { Err(none.to_owned()) } else { Ok(states) }
}

fn irqs(tree: &Tree) -> Told<Vec<(u32, Cpus)>> {
    let names = tree.names("/proc/irq")?;
    let numbers = names.iter().filter_map(|name| name.parse().ok()).take(IRQS_MAX);
    let affinity = |irq: u32| {
        let text = tree.text(&irq_file(irq)).ok()?;
        Some((irq, Cpus::parse(&text).ok()?))
    };
    Ok(numbers.filter_map(affinity).collect())
}

/// The file with the CPUs that an interrupt may go to.
pub(crate) fn irq_file(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn steal_percent(stat: &str) -> Told<f64> {
    let odd = || "/proc/stat does not say it".to_owned();
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).ok_or_else(odd)?;
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are counted in user.
    let all: u64 = ticks.iter().take(8).fold(0, |sum, ticks| sum.saturating_add(*ticks));
    let steal = ticks.get(7).ok_or_else(odd)?;
    if all == 0 { Err(odd()) } else { Ok(*steal as f64 * 100.0 / all as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say_is_understood() {
        assert_eq!(
            rcu_nocbs("quiet rcu_nocbs=2-3 isolcpus=1").map(|cpus| cpus.to_string()),
            Ok("2-3".into())
        );
        assert_eq!(rcu_nocbs("quiet").map(|cpus| cpus.is_empty()), Ok(true));
        assert_eq!(read_list("(null)").map(|cpus| cpus.is_empty()), Ok(true));
        assert!(is_virtual("processor: 0\nflags\t: fpu hypervisor tsc\n") && !is_virtual("flags : fpu tsc"));
        assert_eq!(steal_percent("cpu  40 0 10 40 0 0 0 10 0 0\n"), Ok(10.0));
        assert!(
            steal_percent("cpu 1 2 3").is_err()
                && steal_percent("").is_err()
                && steal_percent("cpu  0").is_err()
        );
    }
}
