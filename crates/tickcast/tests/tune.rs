//! `tickcast tune` on a made-up machine and in a network namespace of its own; daemons with real-time priorities.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use testkit::Folder;
use testkit::watchdog::Patience;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tickcast");

fn tune(words: &[&str], root: &Path) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("tune").args(words).arg("--root").arg(root).stdin(Stdio::null());
    command.output().expect("the program was built")
}

fn machine() -> Folder {
    let folder = Folder::new();
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "a-start"),
        ("proc/sys/net/core/rmem_max", "212992"),
        ("proc/sys/kernel/nmi_watchdog", "1"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
        fs::write(path, text).expect("it is ours");
    }
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn findings_are_shown_explained_and_told_by_the_exit_status() {
    let root = machine();
    let shown = tune(&["check"], &root);
    assert_eq!(shown.status.code(), Some(3), "{shown:?}");
    let told = text(&shown.stdout);
    assert!(told.contains("rmem_max\n  now       212992\n") && told.contains("2 to change, "), "{told}");
    let object: Value = serde_json::from_slice(&tune(&["check", "--json"], &root).stdout).expect("JSON");
    assert_eq!(object["advised"], 2);
    let explained = tune(&["explain", "rmem_max"], &root);
    assert!(explained.status.success() && text(&explained.stdout).contains("In the published reports"));
    assert!(text(&tune(&["explain"], &root).stdout).contains("c-states"));
    for wrong in
        [&["explain", "nosuch"][..], &["apply", "nosuch"], &["apply", "isolcpus"], &["check", "--nosuch"]]
    {
        assert_eq!(tune(wrong, &root).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(tune(&["check"], &root.join("nosuch")).status.code(), Some(2));
}

#[test]
fn settings_are_changed_when_somebody_agrees_and_put_back() {
    let root = machine();
    let value = || fs::read_to_string(root.join("proc/sys/net/core/rmem_max")).expect("it is there");
    let planned = tune(&["apply", "--dry-run", "--json"], &root);
    let object: Value = serde_json::from_slice(&planned.stdout).expect("JSON");
    assert_eq!((planned.status.code(), &object["would_change"][0]["before"]), (Some(0), &Value::from("1")));
    let asked = tune(&["apply"], &root);
    assert_eq!((asked.status.code(), value()), (Some(1), "212992".to_owned()), "nobody agrees");
    assert!(text(&asked.stderr).contains("212992 -> 33554432"), "{asked:?}");
    assert!(tune(&["apply", "--yes"], &root).status.success());
    assert_eq!(value(), "33554432");
    assert_eq!(tune(&["check"], &root).status.code(), Some(0), "nothing is left to be advised");
    fs::write(root.join("proc/sys/net/core/rmem_max"), "5").expect("it is ours");
    let left_alone = tune(&["undo"], &root);
    assert!(
        left_alone.status.code() == Some(3) && text(&left_alone.stdout).contains("somebody has set 5 since")
    );
    assert!(tune(&["undo", "--force"], &root).status.success());
    assert_eq!(value(), "212992");
    assert!(text(&tune(&["undo"], &root).stdout).contains("nothing is changed that could be undone"));
}

/// The kernel's own settings, of a network namespace that goes with the test.
#[test]
fn a_kernel_setting_of_a_namespace_is_changed_and_put_back() {
    let folder = Folder::new();
    let script = format!(
        "set -e; s=/proc/sys/net/ipv4/tcp_rmem; echo '4096 131072 1000000' > $s; \
         {PROGRAM} tune apply --yes tcp_rmem --state {state} >&2; cat $s; \
         {PROGRAM} tune undo --state {state} >&2; cat $s",
        state = folder.text("tune.json")
    );
    let unshare =
        |words: &[&str]| Command::new("unshare").arg("-n").args(words).stdin(Stdio::null()).output();
    if !unshare(&["true"]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user may not make a network namespace, or there is no unshare(1)");
        return;
    }
    let output = unshare(&["sh", "-c", &script]).expect("it is there");
    let values = text(&output.stdout).replace('\t', " ");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(values, "4096 131072 16777216\n4096 131072 1000000\n");
}

/// A daemon that is stopped however the test ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daemon(role: &str, sets: &[&str]) -> Daemon {
    let mut command = Command::new(PROGRAM);
    command.arg(role).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sets.iter().for_each(|set| _ = command.args(["--set", set]));
    Daemon(command.spawn().expect("the program was built"))
}

/// The real-time priority of each thread, by its name; 0 for none.
fn priorities(pid: u32) -> Vec<(String, u32)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |task: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (begin, end) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = end.split_whitespace().collect();
        // Fields 40 and 41 of proc_pid_stat(5); the policy SCHED_FIFO is 1.
        let priority = if fields.get(38) == Some(&"1") { fields.get(37)?.parse().ok()? } else { 0 };
        Some((begin.split_once('(')?.1.to_owned(), priority))
    };
    tasks.filter_map(of).collect()
}

fn may_take_priorities() -> bool {
    let tried = std::thread::spawn(|| net::affinity::set_realtime_priority(1).is_ok());
    let may = tried.join().expect("it does not panic");
    if !may {
        eprintln!("skipped: this user may not take real-time priorities");
    }
    may
}

#[test]
fn threads_of_daemons_have_the_priority_that_is_configured_and_their_helpers_have_none() {
    if !may_take_priorities() {
        return;
    }
    let p2ps =
        ["p2ps.thread.realtime_priority=7", "p2ps.shards=2", "p2ps.rssl_port=0", "p2ps.websocket_port=0"];
    let distributor = ["source_distributor.thread.realtime_priority=5", "source_distributor.provider_port=0"];
    let resolver =
        ["resolver.thread.realtime_priority=9", "resolver.port=0", "resolver.thread.hold_cpus_awake=true"];
    let resolver = if Path::new(net::CpusAwake::DEVICE).exists() { &resolver[..] } else { &resolver[..2] };
    let expected: [(&str, &[&str], u32, &[&str]); 3] = [
        ("p2ps", &p2ps, 7, &["p2ps-shard-0", "p2ps-shard-1", "tickcast"]),
        ("source-distributor", &distributor, 5, &["tickcast"]),
        ("resolver", resolver, 9, &["tickcast"]),
    ];
    for (role, sets, priority, names) in expected {
        let daemon = daemon(role, &[sets, &["admin.port=0", "admin.counters_directory="]].concat());
        let pid = daemon.0.id();
        let patience = Patience::new();
        loop {
            let found = priorities(pid);
            let mut before: Vec<&str> =
                found.iter().filter(|(_, one)| *one == priority).map(|(name, _)| name.as_str()).collect();
            before.sort_unstable();
            let is_started = found.iter().any(|(name, _)| name == "admin");
            if is_started && before == names {
                let others = found.iter().filter(|(_, one)| *one != 0).count();
                assert_eq!(others, names.len(), "{role}: {found:?}");
                break;
            }
            assert!(patience.lasts(), "{role}: {found:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if sets.iter().any(|set| set.contains("hold_cpus_awake")) {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
            let held = files.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|to| to == Path::new(net::CpusAwake::DEVICE))
            });
            assert!(held, "{role} holds {}", net::CpusAwake::DEVICE);
        }
    }
}

#[test]
fn threads_that_would_take_all_cpus_are_refused() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus > 64 {
        println!("left out: a server has at most 64 shards, which leave some of {cpus} CPUs");
        return;
    }
    let sets = [
        "p2ps.thread.wait=spin".to_owned(),
        "p2ps.thread.realtime_priority=1".to_owned(),
        format!("p2ps.shards={}", cpus.clamp(2, 64)),
        "p2ps.rssl_port=0".to_owned(),
        "p2ps.websocket_port=0".to_owned(),
    ];
    let mut command = Command::new(PROGRAM);
    command.arg("p2ps").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    sets.iter().for_each(|set| _ = command.args(["--set", set]));
    let mut daemon = Daemon(command.spawn().expect("the program was built"));
    let errors = BufReader::new(daemon.0.stderr.take().expect("it is piped"));
    let said = errors.lines().map_while(Result::ok).find(|line| line.contains("threads would spin"));
    assert!(said.is_some_and(|said| said.contains("p2ps.shard_cpus, p2ps.thread: ")));
    assert_eq!(daemon.0.wait().expect("it ends").code(), Some(2));
}
