use crate::cpus::Cpus;
use crate::tree::{Told, Tree};

/// Processes that are looked at, and threads of one.
const PROCESSES_MAX: usize = 65_536;
const THREADS_MAX: usize = 256;
/// Most daemons that are described.
const DAEMONS_MAX: usize = 64;

/// This process, and others that matter.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// CPUs that this process may use.
    pub allowed: Told<Cpus>,
    /// Its group's share of the CPUs, as `cpu.max` has it: microseconds of so many; `None` for no limit.
    pub quota: Told<Option<(u64, u64)>>,
    /// What its user may have.
    pub limits: Told<Limits>,
    /// Whether it is root's.
    pub is_root: Told<bool>,
    /// How late the kernel may wake a thread so as to wake others with it, nanoseconds.
    pub timer_slack_ns: Told<u64>,
    /// Names of programs that run, of those that matter here.
    pub running: Told<Vec<String>>,
    /// The daemons of Tickcast that run.
    pub daemons: Vec<Daemon>,
}

/// Limits of a user, those in force; `None` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Limits {
    pub memlock_bytes: Option<u64>,
    pub rtprio: Option<u64>,
    pub nofile: Option<u64>,
}

/// A daemon of Tickcast.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Daemon {
    pub pid: u32,
    pub role: String,
    pub threads: Vec<DaemonThread>,
}

/// A thread of one that works for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DaemonThread {
    pub name: String,
    pub cpus: Cpus,
    /// Its real-time priority, if it has one.
    pub realtime_priority: Option<u32>,
}

/// Programs that matter: one that moves interrupts, and those that discipline clocks.
const WATCHED: [&str; 8] =
    ["irqbalance", "chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "timemaster", "tuned"];
const ROLES: [&str; 5] = ["p2ps", "source-distributor", "resolver", "feed", "demo"];

impl ProcessFacts {
    pub(super) fn read(tree: &Tree) -> ProcessFacts {
        let status = tree.text("/proc/self/status");
        let (running, daemons) = processes(tree);
        ProcessFacts {
            allowed: status.clone().and_then(|text| allowed(&text)),
            quota: quota(tree),
            limits: tree.text("/proc/self/limits").and_then(|text| limits(&text)),
            is_root: status.and_then(|text| is_root(&text)),
            timer_slack_ns: tree.number("/proc/self/timerslack_ns"),
            running,
            daemons,
        }
    }

    /// Whether a program runs.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.running.as_ref().is_ok_and(|running| running.iter().any(|one| one == name))
    }
}

fn field<'a>(status: &'a str, name: &str) -> Told<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim).ok_or_else(|| format!("the process's status has no {name}"))
}

fn allowed(status: &str) -> Told<Cpus> {
    Cpus::parse(field(status, "Cpus_allowed_list")?)
}

fn is_root(status: &str) -> Told<bool> {
    // Real, effective, saved, of files.
    let effective = field(status, "Uid")?.split_whitespace().nth(1);
    effective.map(|uid| uid == "0").ok_or_else(|| "the process's status has no effective user".to_owned())
}

/// The tightest quota of the groups that this process is in, one within the other.
fn quota(tree: &Tree) -> Told<Option<(u64, u64)>> {
    let text = tree.text("/proc/self/cgroup")?;
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    let mut path = unified.ok_or("its groups are not those of cgroup 2")?;
    let (mut tightest, mut is_known) = (None, false);
    loop {
        if let Ok(text) = tree.text(&format!("/sys/fs/cgroup{path}/cpu.max")) {
            is_known = true;
            let share = |(quota, period): (u64, u64)| quota as f64 / period.max(1) as f64;
            tightest = tightest
                .into_iter()
                .chain(parse_quota(&text)?)
                .min_by(|one, other| share(*one).total_cmp(&share(*other)));
        }
        let Some((above, _)) = path.trim_end_matches('/').rsplit_once('/') else { break };
        path = above;
    }
    // The outermost group has no such file: nothing limits it.
    if is_known || tree.has("/sys/fs/cgroup/cgroup.controllers") {
        Ok(tightest)
    } else {
        Err("there is no cpu.max of this process's groups".to_owned())
    }
}

fn parse_quota(text: &str) -> Told<Option<(u64, u64)>> {
    let odd = || format!("cpu.max is {text:?}");
    let (quota, period) = text.split_once(' ').ok_or_else(odd)?;
    let period = period.parse().map_err(|_| odd())?;
    if quota == "max" { Ok(None) } else { Ok(Some((quota.parse().map_err(|_| odd())?, period))) }
}

fn limits(text: &str) -> Told<Limits> {
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let soft = line.and_then(|line| line.split_whitespace().next());
        match soft {
            Some("unlimited") => Ok(None),
            Some(number) => number.parse().map(Some).map_err(|_| format!("{name} is {number:?}")),
            None => Err(format!("the process's limits have no {name}")),
        }
    };
    Ok(Limits {
        memlock_bytes: limit("Max locked memory")?,
        rtprio: limit("Max realtime priority")?,
        nofile: limit("Max open files")?,
    })
}

fn processes(tree: &Tree) -> (Told<Vec<String>>, Vec<Daemon>) {
    let names = match tree.names("/proc") {
        Ok(names) => names,
        Err(why) => return (Err(why), Vec::new()),
    };
    let (mut running, mut daemons) = (Vec::new(), Vec::new());
    for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()).take(PROCESSES_MAX) {
        // One that has ended meanwhile is none.
        let Ok(name) = tree.text(&format!("/proc/{pid}/comm")) else { continue };
        if WATCHED.contains(&name.as_str()) && !running.contains(&name) {
            running.push(name);
        } else if name == "tickcast" && daemons.len() < DAEMONS_MAX {
            daemons.extend(daemon(tree, pid));
        }
    }
    (Ok(running), daemons)
}

fn daemon(tree: &Tree, pid: u32) -> Option<Daemon> {
    let command = tree.text(&format!("/proc/{pid}/cmdline")).ok()?;
    let role = command.split('\0').nth(1).filter(|role| ROLES.contains(role))?;
    let threads = tree.names(&format!("/proc/{pid}/task")).ok()?;
    let threads = threads.iter().take(THREADS_MAX).filter_map(|tid| thread(tree, pid, tid)).collect();
    Some(Daemon { pid, role: role.to_owned(), threads })
}

/// A thread, if it works for clients: the others wait most of the time, and may run anywhere.
fn thread(tree: &Tree, pid: u32, tid: &str) -> Option<DaemonThread> {
    let file = |what: &str| tree.text(&format!("/proc/{pid}/task/{tid}/{what}")).ok();
    let name = file("comm")?;
    let works = ["tickcast", "p2ps", "source-dist", "messaging"].iter().any(|begin| name.starts_with(begin));
    let cpus = allowed(&file("status")?).ok()?;
    let realtime_priority = realtime_priority(&file("stat")?);
    works.then_some(DaemonThread { name, cpus, realtime_priority })
}

/// Of the line in `stat`: fields 40 and 41 are priority and policy, where 1 is SCHED_FIFO and 2 SCHED_RR.
fn realtime_priority(stat: &str) -> Option<u32> {
    // The name may have spaces and brackets in it.
    let mut behind_name = stat.rsplit_once(')')?.1.split_whitespace().skip(37);
    let (priority, policy) = (behind_name.next()?, behind_name.next()?);
    matches!(policy, "1" | "2").then(|| priority.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_quotas_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max locked memory         8388608              unlimited            bytes\n\
                    Max realtime priority     0                    0\n\
                    Max open files            unlimited            unlimited            files\n";
        let limits = limits(text).expect("all are there");
        assert_eq!(limits, Limits { memlock_bytes: Some(8 << 20), rtprio: Some(0), nofile: None });
        assert!(super::limits("Max open files x\n").is_err());
        assert_eq!(
            (parse_quota("max 100000"), parse_quota("50000 100000")),
            (Ok(None), Ok(Some((50_000, 100_000))))
        );
        assert!(parse_quota("").is_err() && parse_quota("x y").is_err());
    }

    #[test]
    fn a_priority_is_that_of_a_realtime_policy() {
        let stat = |priority, policy| {
            let before = "0 ".repeat(37);
            format!("12 (a ) name) {before}{priority} {policy} 0 0")
        };
        assert_eq!(realtime_priority(&stat(49, 1)), Some(49));
        assert_eq!((realtime_priority(&stat(0, 0)), realtime_priority("12 (x) R 1")), (None, None));
    }
}
