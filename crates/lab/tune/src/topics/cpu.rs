use super::{NOT_IN_REPORTS, Topic, by_sysctl, of};
use crate::change::Setting;
use crate::cpus::Cpus;
use crate::facts::{CpuFacts, Facts, IdleState};
use crate::finding::Finding;
use crate::tree::Told;

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "isolcpus",
        why: "other programs on the CPU of a spinning thread become latency",
        story: "The scheduler puts no program on an isolated CPU unless it is pinned there. A thread that spins there \
                is not interrupted by others. It takes at least four CPUs, so that two are left for all else.",
        reports: "RMDS-SLERT and LBM shielded CPUs 0 to 6 (`cset shield`) and left 7 to interrupts and the rest. \
                  RMDS-SUN used a processor set (`psrset`).",
        judge: |facts| isolation(&facts.cpu, "isolcpus", &facts.cpu.isolated),
    },
    Topic {
        name: "nohz_full",
        why: "the kernel's tick interrupts a spinning thread 100 to 1,000 times a second",
        story: "A CPU in nohz_full has no tick while one thread alone runs on it.",
        reports: NOT_IN_REPORTS,
        judge: |facts| isolation(&facts.cpu, "nohz_full", &facts.cpu.nohz_full),
    },
    Topic {
        name: "rcu_nocbs",
        why: "clean-up work of the kernel runs on the CPU of a spinning thread",
        story: "RCU callbacks of a CPU in rcu_nocbs are done by threads that run elsewhere.",
        reports: NOT_IN_REPORTS,
        judge: |facts| isolation(&facts.cpu, "rcu_nocbs", &facts.cpu.rcu_nocbs),
    },
    Topic {
        name: "smt",
        why: "two threads on one core take turns at its units",
        story: "With SMT two CPUs are one core. Leave the sibling of a spinning thread's CPU idle, or turn SMT off. \
                Nothing is changed here: turning CPUs off moves all that runs on them.",
        reports: NOT_IN_REPORTS,
        judge: |facts| of(&facts.cpu.siblings, |cores| smt(cores)),
    },
    Topic {
        name: "governor",
        why: "a CPU that clocks down needs time to clock up again",
        story: "The governor `performance` keeps the highest frequency. Others follow the load, which they notice late.",
        reports: NOT_IN_REPORTS,
        judge: governor,
    },
    Topic {
        name: "turbo",
        why: "turbo is faster, and slower again when other cores work",
        story: "Turbo raises the frequency while few cores work. Latency is lower with it and spreads more. Turn it off \
                for figures that repeat (`tickcast tune apply turbo`); leave it on for the lowest mean.",
        reports: NOT_IN_REPORTS,
        judge: turbo,
    },
    Topic {
        name: "c-states",
        why: "a CPU that sleeps needs time to wake up, and each blocking thread pays for it",
        story: "An idle CPU sleeps, the deeper the longer it expects to. Waking up takes from 1 us to some 100 us, on \
                virtual machines some 20 us since the host must wake the CPU up. Threads that spin never pay for it. That counts there even if the guest shows no deep state: what is measured tells. For threads that block: `[ROLE.thread] hold_cpus_awake = true` holds /dev/cpu_dma_latency at 0 while the daemon \
                runs. `apply` disables the states that take longer than 2 us to leave. Idle CPUs take more power then.",
        reports: "RMDS-SLERT and LBM turned system management interrupts off; of sleep states nothing is known.",
        judge: c_states,
    },
    Topic {
        name: "nmi-watchdog",
        why: "it takes a counter of each CPU and interrupts it",
        story: "The watchdog finds CPUs that hang, by an interrupt that nothing masks. Turn it off where latency matters \
                more than that.",
        reports: "RMDS-SLERT and LBM turned system management interrupts off, which are of that kind.",
        judge: |facts| {
            of(&facts.cpu.nmi_watchdog, |value| match value {
                0 => Finding::fine("off"),
                _ => by_sysctl(Finding::advice("on", "off"), "kernel.nmi_watchdog", "0"),
            })
        },
    },
    Topic {
        name: "rt-throttling",
        why: "a real-time thread that spins is stopped for a part of each second",
        story: "By default real-time threads have 950 ms of each second together. One that spins is stopped for the rest: \
                50 ms in which nothing is received. Without the limit (-1) such a thread keeps all others off its CPU, \
                for good: the shell, the log, the kernel's own threads there. Take the limit away only where each such \
                thread has an isolated CPU; `apply` does it only if you name it. Newer kernels (6.12 and later) use \
                another way to the same end.",
        reports: "RMDS-SLERT and LBM ran servers with real-time priorities (FIFO 55, clients 49).",
        judge: throttling,
    },
    Topic {
        name: "irq-affinity",
        why: "an interrupt on the CPU of a spinning thread holds it up",
        story: "Interrupts may go to any CPU unless they are told otherwise. Keep them off isolated CPUs, and off those \
                that running daemons are pinned to. Some interrupts cannot be moved; `apply` says which.",
        reports: "RMDS-SLERT sent all interrupts to CPU 7, and shielded the others. LBM placed them by hand, too.",
        judge: irq_affinity,
    },
    Topic {
        name: "irqbalance",
        why: "it moves interrupts, to the CPUs of spinning threads too",
        story: "irqbalance spreads interrupts over all CPUs but isolated ones. It undoes what irq-affinity sets.",
        reports: "RMDS-SLERT and LBM stopped services that were not needed, LBM some 60.",
        judge: |facts| {
            of(&facts.process.running, |_| match facts.process.runs("irqbalance") {
                false => Finding::fine("it does not run"),
                true => Finding::advice("it runs", "not where threads are pinned")
                    .command("systemctl stop irqbalance")
                    .permanent("systemctl disable --now irqbalance"),
            })
        },
    },
    Topic {
        name: "virtual-machine",
        why: "the host takes CPUs away, and the guest cannot see when",
        story: "On a virtual machine all that is advised here helps less: the host schedules the CPUs. Steal is the time \
                in which it ran something else. Ask for dedicated CPUs.",
        reports: "All five reports ran on machines of their own.",
        judge: |facts| {
            of(&facts.cpu.is_virtual, |is_virtual| match (is_virtual, &facts.cpu.steal_percent) {
                (false, _) => Finding::fine("a machine of its own"),
                (true, Ok(steal)) => Finding::note(format!("yes; steal since the start {steal:.2} %")),
                (true, Err(why)) => Finding::note(format!("yes; {why}")),
            })
        },
    },
];

/// CPUs that are left for all else.
const FOR_THE_REST: usize = 2;

fn isolation(cpu: &CpuFacts, word: &str, told: &Told<Cpus>) -> Vec<Finding> {
    of(told, |cpus| {
        if !cpus.is_empty() {
            return Finding::fine(cpus.to_string());
        }
        match &cpu.online {
            Ok(online) if online.len() >= 2 * FOR_THE_REST => {
                let advised = online.behind(FOR_THE_REST);
                let permanent =
                    format!("{word}={advised} on the kernel's command line, then start the machine anew");
                Finding::advice("none", format!("{advised}, where threads spin")).permanent(permanent)
            }
            Ok(online) => {
                Finding::note(format!("none; with {} CPUs there is nothing to spare", online.len()))
            }
            Err(why) => Finding::unknown(why),
        }
    })
}

fn smt(cores: &[Cpus]) -> Finding {
    let pairs: Vec<String> = cores.iter().filter(|core| core.len() > 1).map(Cpus::to_string).collect();
    match pairs.len() {
        0 => Finding::fine("each CPU is a core"),
        _ => Finding::note(format!("CPUs that share a core: {}", pairs.join("; ")))
            .command("echo off > /sys/devices/system/cpu/smt/control")
            .permanent("nosmt on the kernel's command line"),
    }
}

fn governor(facts: &Facts) -> Vec<Finding> {
    of(&facts.cpu.governors, |governors| {
        let mut kinds: Vec<&str> = governors.values().map(String::as_str).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds == ["performance"] {
            return Finding::fine("performance");
        }
        let mut finding = Finding::advice(kinds.join(", "), "performance")
            .command("cpupower frequency-set -g performance")
            .permanent("cpufreq.default_governor=performance on the kernel's command line");
        for (cpu, _) in governors.iter().filter(|(_, governor)| *governor != "performance") {
            finding = finding.change(Setting::file(crate::facts::governor_file(*cpu)), "performance");
        }
        finding
    })
}

fn turbo(facts: &Facts) -> Vec<Finding> {
    of(&facts.cpu.turbo, |(file, is_on)| {
        if !is_on {
            return Finding::note("off: figures repeat");
        }
        let value = if *file == crate::facts::NO_TURBO { "1" } else { "0" };
        Finding::note("on: fast, and less even")
            .change(Setting::file(*file), value)
            .command(format!("echo {value} > {file}"))
            .by_name()
    })
}

/// States that are left sooner are no matter.
const AWAKE_WITHIN_US: u64 = 2;

fn c_states(facts: &Facts) -> Vec<Finding> {
    let cpu = &facts.cpu;
    of(&cpu.idle_states, |states| {
        let is_deep = |state: &&IdleState| state.latency_us > AWAKE_WITHIN_US;
        let deep: Vec<&IdleState> =
            states.iter().filter(|state| is_deep(state) && !state.is_disabled).collect();
        let driver = cpu.idle_driver.as_deref().unwrap_or("unknown driver");
        let Some(deepest) = deep.iter().max_by_key(|state| state.latency_us) else {
            return Finding::note(format!(
                "no state takes longer than {AWAKE_WITHIN_US} us to leave ({driver}); hold_cpus_awake may help all the same"
            ));
        };
        let hold = match &cpu.may_hold_awake {
            Ok(true) => "this user may hold /dev/cpu_dma_latency".to_owned(),
            Ok(false) => "this user may not open /dev/cpu_dma_latency".to_owned(),
            Err(why) => why.clone(),
        };
        let current = format!("{} takes {} us to leave ({driver}); {hold}", deepest.name, deepest.latency_us);
        let mut finding = Finding::advice(current, "awake while a daemon blocks")
            .command("[ROLE.thread] hold_cpus_awake = true, or: cpupower idle-set -D 2")
            .permanent("[ROLE.thread] hold_cpus_awake = true, in the daemon's configuration");
        for state in deep {
            finding = finding.change(Setting::file(state.switch()), "1");
        }
        finding
    })
}

fn throttling(facts: &Facts) -> Vec<Finding> {
    let cpu = &facts.cpu;
    of(&cpu.rt_runtime_us, |runtime| {
        let period = *cpu.rt_period_us.as_ref().unwrap_or(&1_000_000);
        if *runtime < 0 || *runtime >= period {
            return Finding::note("off: a real-time thread that spins keeps all others off its CPU");
        }
        let threads = facts.process.daemons.iter().flat_map(|daemon| &daemon.threads);
        let realtime = threads.filter(|thread| thread.realtime_priority.is_some()).count();
        let current = format!("{runtime} us of each {period} us");
        let finding = match realtime {
            0 => Finding::note(format!("{current}; no daemon that runs has a real-time priority")),
            count => Finding::advice(
                format!("{current}; threads of daemons with a real-time priority: {count}"),
                "-1 if these spin on isolated CPUs",
            ),
        };
        by_sysctl(finding, "kernel.sched_rt_runtime_us", "-1").by_name()
    })
}

fn irq_affinity(facts: &Facts) -> Vec<Finding> {
    let (Ok(online), Ok(isolated)) = (&facts.cpu.online, &facts.cpu.isolated) else {
        return vec![Finding::unknown("the kernel does not say which CPUs there are")];
    };
    let threads = facts.process.daemons.iter().flat_map(|daemon| &daemon.threads);
    let pinned = threads.filter(|thread| thread.cpus.len() == 1);
    let busy = pinned.fold(isolated.clone(), |busy, thread| busy.or(&thread.cpus));
    let rest = online.without(&busy);
    of(&facts.cpu.irqs, |irqs| {
        if busy.is_empty() || rest.is_empty() {
            return Finding::note(format!(
                "{} interrupts; no CPU is isolated or has a pinned daemon",
                irqs.len()
            ));
        }
        let near: Vec<&(u32, Cpus)> = irqs.iter().filter(|(_, cpus)| !cpus.and(&busy).is_empty()).collect();
        if near.is_empty() {
            return Finding::fine(format!("none of {} interrupts goes to CPUs {busy}", irqs.len()));
        }
        let current = format!("{} of {} interrupts may go to CPUs {busy}", near.len(), irqs.len());
        let mut finding = Finding::advice(current, format!("CPUs {rest} alone"))
            .command(format!("for f in /proc/irq/*/smp_affinity_list; do echo {rest} > $f; done"))
            .permanent(format!("irqaffinity={rest} on the kernel's command line"));
        for (irq, _) in near {
            finding = finding.change(Setting::file(crate::facts::irq_file(*irq)), rest.to_string());
        }
        finding
    })
}
