//! What a performance laboratory says of the machine that its figures are of.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Machine;

/// The settings that the published reports change, and those that our own transports look at.
const SETTINGS: [&str; 16] = [
    "kernel/nmi_watchdog",
    "kernel/numa_balancing",
    "kernel/sched_rt_runtime_us",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/netdev_budget",
    "net/core/netdev_max_backlog",
    "net/core/optmem_max",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "vm/swappiness",
];

/// Words of the kernel's command line that decide who may use which CPU, and how deep it sleeps.
const BOOT_WORDS: [&str; 9] = [
    "idle=",
    "intel_idle.",
    "irqaffinity=",
    "isolcpus=",
    "mitigations=",
    "nohz_full=",
    "processor.max_cstate=",
    "rcu_nocbs=",
    "tsc=",
];

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// As the kernel calls it.
    pub name: String,
    /// Longest packet, bytes.
    pub mtu: u64,
    /// Megabits a second, where the driver says.
    pub megabits_per_second: Option<u64>,
    /// Packets that may wait to be sent.
    pub transmit_queue: u64,
    /// Driver; none for one that is made of software.
    pub driver: Option<String>,
}

/// The machine that figures were made on, as far as its kernel tells. What it does not tell is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disclosure {
    /// Model of the CPUs.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpu_count: usize,
    /// CPUs of the machine.
    pub cpus_online: String,
    /// Threads that share the core of the first CPU.
    pub threads_per_core: Option<usize>,
    /// Nodes of memory.
    pub numa_nodes: Option<usize>,
    /// Caches of the first CPU, such as `L1d 32K`, with the CPUs that share them.
    pub caches: Vec<String>,
    /// A hypervisor lies below the kernel: it may take the CPUs away at any time.
    pub is_virtual: bool,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel, up to the first dash.
    pub kernel: String,
    /// Words of its command line on CPUs and idling.
    pub boot: Vec<String>,
    /// Governor of the first CPU's frequency.
    pub governor: Option<String>,
    /// Where the kernel has its time from.
    pub clock_source: Option<String>,
    /// Use of transparent huge pages.
    pub huge_pages: Option<String>,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// Settings of the kernel (`sysctl`).
    pub settings: BTreeMap<String, String>,
}

impl Disclosure {
    /// Of this machine.
    #[must_use]
    pub fn this() -> Disclosure {
        let machine = Machine::this();
        Disclosure { cpu: machine.cpu, cpu_count: machine.cpu_count, ..Tree(PathBuf::from("/")).disclosure() }
    }

    /// The kind of machine, as figures name it.
    #[must_use]
    pub fn kind(&self) -> String {
        let machine =
            Machine { cpu: self.cpu.clone(), cpu_count: self.cpu_count, kernel: self.kernel.clone() };
        machine.to_string()
    }
}

/// The files of a machine below a root.
struct Tree(PathBuf);

impl Tree {
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.0.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Names in a directory, in order.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn disclosure(&self) -> Disclosure {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let siblings = self.text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
        let nodes = self.names("sys/devices/system/node");
        let nodes = nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(is_number)).count();
        let release = self.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let boot = self.text("proc/cmdline").unwrap_or_default();
        let is_told = |word: &&str| BOOT_WORDS.iter().any(|begins| word.starts_with(begins));
        let huge_pages = self.text("sys/kernel/mm/transparent_hugepage/enabled");
        Disclosure {
            cpu: String::new(),
            cpu_count: 0,
            cpus_online: self.text("sys/devices/system/cpu/online").unwrap_or_default(),
            threads_per_core: siblings.as_deref().and_then(count_of_list),
            numa_nodes: (nodes > 0).then_some(nodes),
            caches: self.caches(),
            is_virtual: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            memory_bytes: self.text("proc/meminfo").and_then(|text| memory_bytes(&text)),
            kernel: release.split('-').next().unwrap_or_default().to_owned(),
            boot: boot.split_whitespace().filter(is_told).map(str::to_owned).collect(),
            governor: self.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: self.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            huge_pages: huge_pages.and_then(|text| chosen(&text)),
            interfaces: self.interfaces(),
            settings: SETTINGS.iter().filter_map(|name| self.setting(name)).collect(),
        }
    }

    fn setting(&self, name: &str) -> Option<(String, String)> {
        let value = self.text(&format!("proc/sys/{name}"))?;
        Some((name.replace('/', "."), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    fn caches(&self) -> Vec<String> {
        let at = "sys/devices/system/cpu/cpu0/cache";
        let cache = |index: &String| {
            let of = |what: &str| self.text(&format!("{at}/{index}/{what}"));
            let kind = match of("type")?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            let shared = of("shared_cpu_list").map(|cpus| format!(" (CPUs {cpus})")).unwrap_or_default();
            Some(format!("L{}{kind} {}{shared}", of("level")?, of("size")?))
        };
        let names = self.names(at);
        names.iter().filter(|name| name.starts_with("index")).filter_map(cache).collect()
    }

    fn interfaces(&self) -> Vec<Interface> {
        let at = "sys/class/net";
        let interface = |name: String| {
            let of = |what: &str| self.text(&format!("{at}/{name}/{what}"));
            let number = |what: &str| of(what).and_then(|text| text.parse().ok());
            let driver = fs::read_link(self.0.join(format!("{at}/{name}/device/driver"))).ok();
            let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
            Interface {
                mtu: number("mtu").unwrap_or(0),
                megabits_per_second: number("speed"),
                transmit_queue: number("tx_queue_len").unwrap_or(0),
                driver,
                name,
            }
        };
        self.names(at).into_iter().map(interface).collect()
    }

    /// What the kernel counts of packets and of CPUs.
    fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let snmp = self.text("proc/net/snmp").unwrap_or_default();
        let lines: Vec<&str> = snmp.lines().collect();
        // Lines come in pairs: the names, the values.
        for pair in lines.chunks_exact(2) {
            let (names, values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
            let mut both = names.zip(values);
            let Some((protocol, _)) = both.next().filter(|(name, _)| ["Udp:", "Tcp:"].contains(name)) else {
                continue;
            };
            let protocol = protocol.trim_end_matches(':').to_lowercase();
            let numbers = both.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
            counters.extend(numbers.map(|(name, value)| (format!("{protocol}.{name}"), value)));
        }
        let stat = self.text("proc/stat").unwrap_or_default();
        // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
        let steal =
            stat.lines().find_map(|line| line.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok());
        counters.extend(steal.map(|ticks| ("cpu.steal_ticks".to_owned(), ticks)));
        let softnet = self.text("proc/net/softnet_stat").unwrap_or_default();
        let dropped =
            softnet.lines().filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok());
        counters.insert("softnet.dropped".to_owned(), dropped.sum());
        counters
    }
}

/// What the kernel of this machine counts: datagrams and segments by protocol (`udp.RcvbufErrors`), packets that it dropped
/// before any socket (`softnet.dropped`), and time that its hypervisor took (`cpu.steal_ticks`, hundredths of a second).
#[must_use]
pub fn system_counters() -> BTreeMap<String, u64> {
    Tree(PathBuf::from("/")).counters()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many numbers a list such as `0-3,8` has.
fn count_of_list(list: &str) -> Option<usize> {
    list.split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                last.checked_sub(first)?.checked_add(1)
            }
            None => part.parse().ok().map(|_: usize| 1),
        })
        .sum()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The word in brackets of several.
fn chosen(words: &str) -> Option<String> {
    words.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).map(str::to_owned)
}

/// Whether a path leads to a directory that holds nothing, or to nothing.
pub(super) fn is_empty_or_absent(path: &Path) -> std::io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files.
    struct Made(PathBuf);

    impl Made {
        fn new(name: &str, files: &[(&str, &str)]) -> Made {
            let root = std::env::temp_dir().join(format!("disclosure-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("in a directory")).expect("made");
                fs::write(path, text).expect("written");
            }
            Made(root)
        }

        fn tree(&self) -> Tree {
            Tree(self.0.clone())
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_is_told_as_its_kernel_has_it() {
        let cpu = "sys/devices/system/cpu";
        let files = [
            ("proc/cpuinfo", "flags : fpu hypervisor tsc\n"),
            ("proc/meminfo", "MemTotal:       1024 kB\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-rt7-host\n"),
            ("proc/cmdline", "root=/dev/sda secret=1 isolcpus=2-3 nohz_full=2-3\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/node/node0/cpulist", "0-3"),
            ("sys/devices/system/node/online", "0"),
            ("sys/class/net/eth0/mtu", "9000\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/eth0/tx_queue_len", "5000\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
        ];
        let cache = |what: &str, value| (format!("{cpu}/cpu0/cache/index0/{what}"), value);
        let caches = [
            cache("type", "Data"),
            cache("level", "1"),
            cache("size", "32K"),
            cache("shared_cpu_list", "0-1"),
        ];
        let topology = (format!("{cpu}/cpu0/topology/thread_siblings_list"), "0,2-3");
        let made = caches.iter().chain([&topology]).map(|(path, text)| (path.as_str(), *text));
        let made = Made::new("all", &files.into_iter().chain(made).collect::<Vec<_>>());
        let told = made.tree().disclosure();
        assert!(told.is_virtual);
        assert_eq!((told.kernel.as_str(), told.memory_bytes), ("6.1.0", Some(1 << 20)));
        assert_eq!(told.boot, ["isolcpus=2-3", "nohz_full=2-3"], "nothing else of the command line");
        assert_eq!(told.settings["net.ipv4.tcp_rmem"], "4096 131072 6291456");
        assert_eq!((told.huge_pages.as_deref(), told.numa_nodes), (Some("madvise"), Some(1)));
        assert_eq!((told.caches, told.threads_per_core), (vec!["L1d 32K (CPUs 0-1)".to_owned()], Some(3)));
        let [eth0, lo] = &told.interfaces[..] else { panic!("{:?}", told.interfaces) };
        assert_eq!((eth0.mtu, eth0.megabits_per_second, eth0.transmit_queue), (9_000, Some(10_000), 5_000));
        assert_eq!((lo.mtu, lo.megabits_per_second, &lo.driver), (65_536, None, &None));
    }

    #[test]
    fn what_a_machine_does_not_tell_is_left_out() {
        let made = Made::new("none", &[("proc/cpuinfo", "")]);
        assert_eq!(made.tree().disclosure(), Disclosure::default());
        assert_eq!(Disclosure::this().cpu_count, Machine::this().cpu_count);
        for list in ["", "a", "3-1", "1-", "0-18446744073709551615"] {
            assert_eq!(count_of_list(list), None, "{list}");
        }
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let snmp =
            "Ip: Forwarding\nIp: 1\nUdp: InDatagrams RcvbufErrors\nUdp: 10 3\nTcp: RetransSegs\nTcp: -1\n";
        let softnet = "0001 0000000a 0 0\n0002 00000001 0 0\n";
        let files = [
            ("proc/net/snmp", snmp),
            ("proc/stat", "cpu  1 2 3 4 5 6 7 8 9\ncpu0 1\n"),
            ("proc/net/softnet_stat", softnet),
        ];
        let made = Made::new("counters", &files);
        let expected = [
            ("cpu.steal_ticks", 8),
            ("softnet.dropped", 11),
            ("udp.InDatagrams", 10),
            ("udp.RcvbufErrors", 3),
        ];
        assert_eq!(made.tree().counters(), expected.map(|(name, value)| (name.to_owned(), value)).into());
    }
}
