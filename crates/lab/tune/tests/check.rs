//! What is found on a made-up machine, and that nothing is invented.

mod made_up;

use made_up::MadeUp;
use tickcast_tune::{Facts, Finding, Level, Tree, explain, json, judge, list, report, topic, topics};

fn of<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
    let mut found = findings.iter().filter(|finding| finding.is_called(name));
    found.next().unwrap_or_else(|| panic!("{name} was not looked at"))
}

#[test]
fn a_machine_that_is_not_tuned_is_advised_on() {
    let machine = MadeUp::new();
    let findings = machine.findings();
    let advised = [
        ("isolcpus", "none", 0),
        ("governor", "powersave", 4),
        ("nmi-watchdog", "on", 1),
        ("rmem_max", "212992", 1),
        ("tcp_rmem", "4096 131072 2097152", 1),
        ("thp", "never", 1),
        ("txqueuelen:eth0", "1000", 1),
        ("rings:eth0", "rx 256 of 8192, tx 256 of 1024", 1),
        ("coalescing:eth0", "adaptive-rx=on rx-usecs=8 adaptive-tx=off tx-usecs=16", 1),
    ];
    for (name, current, changes) in advised {
        let finding = of(&findings, name);
        assert_eq!(
            (finding.level, finding.current.as_str(), finding.changes.len()),
            (Level::Advice, current, changes),
            "{name}"
        );
        assert!(finding.permanent.is_some() && finding.advised.is_some(), "{name}");
    }
    let deep = of(&findings, "c-states");
    assert!(deep.current.starts_with("C6 takes 133 us to leave") && deep.changes.len() == 4, "{deep:?}");
    assert_eq!(of(&findings, "isolcpus").advised.as_deref(), Some("2-3, where threads spin"));
    assert_eq!(of(&findings, "wmem_max").level, Level::Fine);
    assert_eq!(of(&findings, "irq-affinity").level, Level::Note, "no CPU is isolated");
}

#[test]
fn what_is_as_advised_is_fine() {
    let machine = MadeUp::new();
    let cpu = "sys/devices/system/cpu";
    machine.put(&format!("{cpu}/isolated"), "2-3\n");
    (0..4).for_each(|at| machine.put(&format!("{cpu}/cpu{at}/cpufreq/scaling_governor"), "performance\n"));
    (0..4).for_each(|at| machine.put(&format!("{cpu}/cpu{at}/cpuidle/state1/disable"), "1\n"));
    machine.put("proc/sys/net/core/rmem_max", "33554432\n");
    machine.put("proc/sys/kernel/nmi_watchdog", "0\n");
    let findings = machine.findings();
    for name in ["isolcpus", "governor", "rmem_max", "nmi-watchdog"] {
        assert_eq!(of(&findings, name).level, Level::Fine, "{name}");
    }
    assert_eq!(of(&findings, "c-states").level, Level::Note);
    let irqs = of(&findings, "irq-affinity");
    assert_eq!((irqs.level, irqs.changes.len()), (Level::Advice, 1), "one of two may go to CPUs 2-3");
    assert_eq!(irqs.changes[0].value, "0-1");
}

#[test]
fn nothing_is_known_of_an_empty_tree_and_nothing_is_invented() {
    let folder = testkit::Folder::new();
    let tree = Tree::at(&folder);
    let findings = judge(&Facts::read(&tree));
    assert_eq!(findings.iter().filter(|finding| finding.level == Level::Advice).count(), 0);
    let known: Vec<String> =
        findings.iter().filter(|finding| finding.level != Level::Unknown).map(Finding::full_name).collect();
    // What is said of processes and cards: that there are none.
    assert_eq!(known, ["daemon-affinity"], "all else cannot be read");
    assert!(findings.iter().all(|finding| finding.changes.is_empty() && !finding.current.is_empty()));
}

#[test]
fn files_with_anything_in_them_never_panic() {
    let odd = [
        "",
        "\n",
        "-",
        "x",
        "0-",
        "99999999999999999999",
        "[",
        "]",
        "[]",
        "0x",
        "cpu ",
        "a\0b",
        "4294967296",
        "-1",
    ];
    let machine = MadeUp::new();
    testkit::for_each_seed!(0..100, |seed: u64| {
        let paths = [
            "proc/cmdline",
            "proc/sys/kernel/nmi_watchdog",
            "proc/sys/net/ipv4/tcp_rmem",
            "proc/stat",
            "proc/swaps",
            "proc/self/status",
            "proc/self/limits",
            "proc/self/cgroup",
            "proc/cpuinfo",
            "proc/net/snmp",
            "sys/devices/system/cpu/online",
            "sys/devices/system/cpu/isolated",
            "proc/irq/9/smp_affinity_list",
            "sys/class/net/eth0/flags",
            "sys/class/net/eth0/tx_queue_len",
            "proc/net/softnet_stat",
            "sys/devices/system/cpu/cpu1/cpuidle/state1/latency",
            "sys/kernel/mm/transparent_hugepage/enabled",
        ];
        for (at, path) in paths.iter().enumerate() {
            let draw = (seed * 31 + at as u64 + 1).wrapping_mul(6_364_136_223_846_793_005);
            machine.put(path, odd[(draw >> 33) as usize % odd.len()]);
        }
        let (tree, findings) = (machine.tree(), machine.findings());
        assert!(!report(&tree, &findings).is_empty() && json(&tree, &findings)["findings"].is_array());
    });
}

#[test]
fn daemons_that_run_are_found_with_their_threads() {
    let machine = MadeUp::new();
    machine.put("proc/7/comm", "tickcast\n");
    machine.put("proc/7/cmdline", "tickcast\0p2ps\0--set\0x\0");
    let rest = "0 ".repeat(37);
    for (tid, name, cpus, policy) in [("7", "tickcast", "2", "49 1"), ("8", "admin", "0-3", "0 0")] {
        machine.put(&format!("proc/7/task/{tid}/comm"), name);
        machine.put(&format!("proc/7/task/{tid}/status"), &format!("Name:\tx\nCpus_allowed_list:\t{cpus}\n"));
        machine.put(&format!("proc/7/task/{tid}/stat"), &format!("{tid} ({name}) {rest}{policy} 0\n"));
    }
    machine.put("proc/8/comm", "irqbalance\n");
    let findings = machine.findings();
    let daemon = of(&findings, "daemon-affinity:p2ps-7");
    assert_eq!((daemon.level, daemon.current.as_str()), (Level::Fine, "tickcast on 2, FIFO 49"));
    assert_eq!(of(&findings, "irqbalance").level, Level::Advice);
    let throttling = of(&findings, "rt-throttling");
    assert!(throttling.level == Level::Advice && throttling.by_name_only, "{throttling:?}");
    assert_eq!(of(&findings, "irq-affinity").changes.len(), 1, "CPU 2 is taken");
}

#[test]
fn each_topic_is_explained_and_shown() {
    let machine = MadeUp::new();
    let (tree, findings) = (machine.tree(), machine.findings());
    let (text, object) = (report(&tree, &findings), json(&tree, &findings));
    for one in topics() {
        let told = explain(&tree, topic(one.name).expect("it is one"), &findings);
        assert!(told.contains(one.why) && told.contains("In the published reports"), "{told}");
        assert!(told.lines().count() >= 5 && list().contains(one.why));
        let shown = findings.iter().filter(|finding| finding.name == one.name);
        assert!(
            shown.map(|finding| assert!(text.contains(&finding.full_name()))).count() > 0,
            "{}",
            one.name
        );
    }
    let advised = findings.iter().filter(|finding| finding.level == Level::Advice).count();
    assert_eq!(object["advised"], advised);
    assert_eq!(object["findings"].as_array().map(Vec::len), Some(findings.len()));
}

#[test]
fn the_page_names_each_topic() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/tuning.md");
    let page = std::fs::read_to_string(page).expect("it is in the repository");
    let missing: Vec<&str> =
        topics().map(|topic| topic.name).filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert_eq!(missing, [""; 0]);
}
