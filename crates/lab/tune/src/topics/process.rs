use super::{NOT_IN_REPORTS, Topic, of};
use crate::facts::{DaemonThread, Facts, Limits};
use crate::finding::Finding;

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "cpus-allowed",
        why: "a process can use only the CPUs that its group and its mask allow",
        story: "A container or `taskset` may leave a process fewer CPUs than the machine has. Threads that spin need one \
                each.",
        reports: "RMDS-SLERT started each server with `taskset` on a core of its own.",
        judge: |facts| {
            of(&facts.process.allowed, |allowed| {
                let all =
                    facts.cpu.online.as_ref().map_or_else(|_| "?".to_owned(), |online| online.to_string());
                Finding::note(format!("{allowed} of {all}"))
            })
        },
    },
    Topic {
        name: "cpu-quota",
        why: "a group that has used its share stands still for the rest of the period",
        story: "cpu.max gives a control group so many microseconds of each period, 100 ms as a rule. A thread that spins \
                uses them up and is then stopped for tens of milliseconds. Give latency-critical containers whole CPUs \
                (cpuset) and no quota.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.process.quota, |quota| match quota {
                None => Finding::fine("no limit"),
                Some((quota, period)) => {
                    Finding::advice(format!("{quota} us of each {period} us"), "no limit")
                        .permanent("CPUQuota= of systemd unset; of a container no --cpus, but --cpuset-cpus")
                }
            })
        },
    },
    Topic {
        name: "daemon-affinity",
        why: "a thread that moves between CPUs leaves its caches behind",
        story: "[ROLE.thread] cpu keeps the thread of a role on a CPU, p2ps.shard_cpus those of shards. Give each spinning \
                thread a CPU of its own, near (under one cache) to those it talks to: `tickcast bench jitter --cpus A,B`.",
        reports: "RMDS-SLERT kept the four P2PSs on CPUs 0, 2, 4, 6 and transports on 1, 3, 5. RMDS-SUN bound each thread \
                  (`pbind`). LBM kept publishers on 1 and 2, observers on 6.",
        judge: daemon_affinity,
    },
    Topic {
        name: "timer-slack",
        why: "the kernel wakes a thread that waits up to 50 us late",
        story: "A timer of an ordinary thread may fire late by the slack, so that several fire at once. Threads that spin, \
                and those with a real-time priority, have none. It belongs to a process: there is nothing to be set for \
                the machine.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.process.timer_slack_ns, |slack| {
                Finding::note(format!("{slack} ns in this process, as started from here"))
            })
        },
    },
    Topic {
        name: "realtime",
        why: "an ordinary thread waits for others that share its CPU",
        story: "[ROLE.thread] realtime_priority (SCHED_FIFO) lets a thread run before all ordinary ones. A thread that \
                blocks gains a sooner wake-up. One that spins keeps all others off its CPU: docs/tuning.md says when that \
                is sound. It takes root, CAP_SYS_NICE, or LimitRTPRIO.",
        reports: "RMDS-SLERT: `chrt -f 55` for servers, 49 for clients. RMDS-SUN: class FX, priority 60.",
        judge: |facts| {
            of(&facts.process.limits, |limits| match (limits.rtprio, &facts.process.is_root) {
                (_, Ok(true)) => Finding::note("root may take any real-time priority"),
                (Some(0), _) => Finding::note("this user may take none").permanent(
                    "LimitRTPRIO=99 of systemd, or: USER - rtprio 99 in /etc/security/limits.conf",
                ),
                (limit, _) => Finding::note(format!("this user may take one up to {}", limit.unwrap_or(99))),
            })
        },
    },
    Topic {
        name: "memlock",
        why: "memory for AF_XDP and shared with cards must be locked",
        story: "A limit of locked memory keeps AF_XDP and kernel bypass from their buffers. Root has no limit.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            limit(facts, |limits| limits.memlock_bytes, 64 << 20, "bytes", "memlock", "LimitMEMLOCK=infinity")
        },
    },
    Topic {
        name: "nofile",
        why: "each connection takes a descriptor",
        story: "A daemon raises its limit as far as the hard limit allows, and warns if its connections do not fit.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            limit(facts, |limits| limits.nofile, 1_024, "descriptors", "nofile", "LimitNOFILE=65536")
        },
    },
];

fn limit(
    facts: &Facts,
    of_limits: fn(&Limits) -> Option<u64>,
    wanted: u64,
    unit: &str,
    word: &str,
    systemd: &str,
) -> Vec<Finding> {
    of(&facts.process.limits, |limits| match of_limits(limits) {
        None => Finding::fine("no limit"),
        Some(limit) if limit >= wanted => Finding::fine(format!("{limit} {unit}")),
        Some(limit) if facts.process.is_root == Ok(true) && word == "memlock" => {
            Finding::fine(format!("{limit} {unit}, and root may lock more"))
        }
        Some(limit) => Finding::advice(format!("{limit} {unit}"), format!("at least {wanted}"))
            .command(format!("ulimit (of the shell that starts the daemon), {word}"))
            .permanent(format!("{systemd} of systemd, or {word} in /etc/security/limits.conf")),
    })
}

fn daemon_affinity(facts: &Facts) -> Vec<Finding> {
    if facts.process.daemons.is_empty() {
        return vec![Finding::note("no daemon of Tickcast runs here")];
    }
    let judge = |daemon: &crate::facts::Daemon| {
        let describe = |thread: &DaemonThread| {
            let priority =
                thread.realtime_priority.map_or(String::new(), |priority| format!(", FIFO {priority}"));
            format!("{} on {}{priority}", thread.name, thread.cpus)
        };
        let current = daemon.threads.iter().map(describe).collect::<Vec<String>>().join("; ");
        let subject = format!("{}-{}", daemon.role, daemon.pid);
        let finding = match daemon.threads.iter().all(|thread| thread.cpus.len() == 1) {
            true => Finding::fine(current),
            false => Finding::advice(current, "each thread on a CPU of its own, where there are enough")
                .permanent("[ROLE.thread] cpu, p2ps.shard_cpus, in the daemon's configuration"),
        };
        finding.of(&subject)
    };
    facts.process.daemons.iter().map(judge).collect()
}
