//! Changes and their undoing, on a made-up machine.

mod made_up;

use std::fs;
use std::path::PathBuf;

use made_up::MadeUp;
use tickcast_tune::{Done, Outcome, Setting, Step, apply, plan, undo};

const RMEM: &str = "proc/sys/net/core/rmem_max";
const WATCHDOG: &str = "proc/sys/kernel/nmi_watchdog";

impl MadeUp {
    fn state(&self) -> PathBuf {
        self.root().join("var/lib/tickcast/tune.json")
    }

    fn plan(&self, names: &[&str]) -> Vec<Step> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        plan(&self.tree(), &self.findings(), &names).expect("they can be changed")
    }

    fn apply(&self, names: &[&str]) -> Done {
        apply(&self.tree(), &self.state(), &self.plan(names)).expect("the folder is ours")
    }

    fn undo(&self, force: bool) -> Done {
        undo(&self.tree(), &self.state(), force).expect("the record is whole")
    }

    /// All files that could be changed, with their content.
    fn content(&self) -> Vec<(PathBuf, String)> {
        fn collect(folder: &std::path::Path, all: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).expect("it is ours").flatten() {
                match entry.path() {
                    path if path.is_dir() => collect(&path, all),
                    path => {
                        let text = fs::read_to_string(&path).expect("it is text");
                        // A list of words is written as the one that is chosen; the kernel lists all again.
                        let text = if text.contains('[') { "never" } else { text.trim() };
                        all.push((path.clone(), text.split_whitespace().collect::<Vec<_>>().join(" ")));
                    }
                }
            }
        }
        let mut all = Vec::new();
        collect(&self.root().join("proc"), &mut all);
        collect(&self.root().join("sys"), &mut all);
        all.sort();
        all
    }
}

fn settings(done: &Done) -> Vec<String> {
    let name = |outcome: &Outcome| match outcome {
        Outcome::Set { setting, .. } | Outcome::AsBefore(setting) => setting.to_string(),
        other => panic!("{other:?}"),
    };
    done.outcomes.iter().map(name).collect()
}

#[test]
fn all_that_is_advised_is_changed_and_put_back_in_reverse() {
    let machine = MadeUp::new();
    let before = (machine.content(), *machine.cards.0.lock().expect("nobody panics"));
    let done = machine.apply(&[]);
    assert_eq!((machine.get(RMEM), machine.get(WATCHDOG)), ("33554432".to_owned(), "0".to_owned()));
    assert_eq!(machine.get("proc/sys/net/ipv4/tcp_rmem"), "4096 131072 16777216");
    assert_eq!(machine.cards.0.lock().expect("nobody panics").1.rx_us, 0);
    assert_eq!(machine.cards.0.lock().expect("nobody panics").0.rx, 256, "rings only by name");
    assert_eq!(machine.get("proc/sys/kernel/sched_rt_runtime_us"), "950000", "so is throttling");
    assert!(machine.plan(&[]).is_empty(), "all is as advised");
    let undone = machine.undo(false);
    let mut back = settings(&undone);
    back.reverse();
    assert_eq!(settings(&done), back);
    assert_eq!((machine.content(), *machine.cards.0.lock().expect("nobody panics")), before);
    assert!(!machine.state().exists());
    assert!(machine.undo(false).note.is_some_and(|note| note.contains("nothing is changed")));
}

#[test]
fn what_has_a_price_is_changed_when_it_is_named() {
    let machine = MadeUp::new();
    machine.apply(&["rings:eth0", "busy_poll"]);
    let (rings, _) = *machine.cards.0.lock().expect("nobody panics");
    assert_eq!(
        (rings.rx, rings.tx, machine.get("proc/sys/net/core/busy_poll")),
        (4_096, 1_024, "50".to_owned())
    );
    assert_eq!(machine.get(RMEM), "212992");
    let refused = |name: &str| plan(&machine.tree(), &machine.findings(), &[name.to_owned()]);
    assert!(refused("nosuch").is_err_and(|why| why.contains("there is no finding \"nosuch\"")));
    assert!(refused("isolcpus").is_err_and(|why| why.contains("isolcpus=2-3 on the kernel's command line")));
    assert!(refused("wmem_max").is_err_and(|why| why.contains("is as advised already")));
    assert!(refused("numa").is_err_and(|why| why.contains("is not known here: there is no /sys")));
}

#[test]
fn a_second_apply_keeps_the_first_value() {
    let machine = MadeUp::new();
    machine.apply(&["rmem_max"]);
    // Somebody lowers it, and it is applied again.
    machine.put(RMEM, "1000\n");
    machine.apply(&["rmem_max", "nmi-watchdog"]);
    assert_eq!(machine.undo(false).outcomes.len(), 2);
    assert_eq!((machine.get(RMEM), machine.get(WATCHDOG)), ("212992".to_owned(), "1".to_owned()));
}

#[test]
fn what_somebody_else_has_changed_is_left_alone_unless_it_is_forced() {
    let machine = MadeUp::new();
    machine.apply(&["rmem_max", "nmi-watchdog"]);
    machine.put(RMEM, "5\n");
    let done = machine.undo(false);
    let setting: Setting = "/proc/sys/net/core/rmem_max".parse().expect("one of ours");
    let foreign = Outcome::Foreign {
        setting,
        before: "212992".to_owned(),
        left: "33554432".to_owned(),
        now: "5".to_owned(),
    };
    assert!(done.outcomes.contains(&foreign), "{done:?}");
    assert_eq!((machine.get(RMEM), machine.get(WATCHDOG)), ("5".to_owned(), "1".to_owned()));
    assert!(machine.state().exists(), "it can still be forced");
    machine.undo(true);
    assert_eq!(machine.get(RMEM), "212992");
    assert!(!machine.state().exists());
}

/// Whenever the program ends, the record is on the disk: any number of its settings may be changed.
#[test]
fn a_crash_in_the_middle_of_apply_is_undone() {
    let machine = MadeUp::new();
    let before = machine.content();
    let steps = machine.plan(&[]);
    machine.apply(&[]);
    let record = fs::read(machine.state()).expect("it is there");
    for changed in 0..=steps.len() {
        for (at, step) in steps.iter().enumerate() {
            let value = if at < changed { &step.change.value } else { &step.before };
            step.change.setting.write(&machine.tree(), value).expect("it is ours");
        }
        fs::write(machine.state(), &record).expect("it is ours");
        assert_eq!(settings(&machine.undo(false)).len(), steps.len());
        assert_eq!(machine.content(), before, "{changed} were changed");
    }
}

#[test]
fn a_setting_that_cannot_be_written_leaves_the_others_to_be_changed() {
    let machine = MadeUp::new();
    let mut steps = machine.plan(&["rmem_max", "rings:eth0", "nmi-watchdog"]);
    let of_rings = steps.iter_mut().find(|step| matches!(step.change.setting, Setting::Rings(_)));
    of_rings.expect("it is planned").change.value = "rx=99999 tx=1".to_owned();
    let done = apply(&machine.tree(), &machine.state(), &steps).expect("the folder is ours");
    let failed: Vec<&Outcome> =
        done.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Failed(..))).collect();
    assert_eq!((failed.len(), done.outcomes.len()), (1, 3));
    assert_eq!((machine.get(RMEM), machine.get(WATCHDOG)), ("33554432".to_owned(), "0".to_owned()));
    assert_eq!(machine.undo(false).outcomes.len(), 2, "what was not changed is not put back");
}

#[test]
fn after_another_start_of_the_machine_nothing_is_put_back() {
    let machine = MadeUp::new();
    machine.apply(&["rmem_max"]);
    machine.put("proc/sys/kernel/random/boot_id", "second-start");
    machine.put(RMEM, "7\n");
    let done = machine.undo(false);
    assert!(done.outcomes.is_empty() && done.note.is_some_and(|note| note.contains("started anew")));
    assert_eq!((machine.get(RMEM), machine.state().exists()), ("7".to_owned(), false));
    // Nor does what was recorded before it count for a new change.
    machine.apply(&["rmem_max"]);
    machine.put("proc/sys/kernel/random/boot_id", "third-start");
    machine.put(RMEM, "8\n");
    assert!(machine.apply(&["rmem_max"]).note.is_some());
    machine.undo(false);
    assert_eq!(machine.get(RMEM), "8");
}

#[test]
fn settings_of_another_network_namespace_are_not_touched() {
    let machine = MadeUp::new();
    let namespace = machine.root().join("proc/self/ns/net");
    fs::create_dir_all(namespace.parent().expect("it has one")).expect("it is ours");
    std::os::unix::fs::symlink("net:[1]", &namespace).expect("it is ours");
    machine.apply(&["rmem_max"]);
    fs::remove_file(&namespace).expect("it is there");
    std::os::unix::fs::symlink("net:[2]", &namespace).expect("it is ours");
    let why = undo(&machine.tree(), &machine.state(), true).expect_err("another one");
    assert!(why.contains("in another network namespace (net:[1], here is net:[2])"), "{why}");
    machine.put(RMEM, "9\n");
    assert!(apply(&machine.tree(), &machine.state(), &machine.plan(&["rmem_max"])).is_err());
    assert_eq!(machine.get(RMEM), "9");
}

#[test]
fn a_record_that_is_none_is_refused_and_writes_nothing() {
    let machine = MadeUp::new();
    machine.apply(&["rmem_max"]);
    let good = fs::read_to_string(machine.state()).expect("it is there");
    let bad = [
        String::new(),
        "{}".to_owned(),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("/proc/sys/net/core/rmem_max", "/etc/passwd"),
        good.replace("/proc/sys/net/core/rmem_max", "/proc/sys/../../etc/passwd"),
        good.replace("212992", "1\\n2"),
        good.replace("212992", &"9".repeat(5_000)),
        good.replace("\"before\"", "\"later\""),
    ];
    for text in bad {
        assert_ne!(text, good);
        fs::write(machine.state(), &text).expect("it is ours");
        let why = undo(&machine.tree(), &machine.state(), true).expect_err("it is no record");
        assert!(why.contains("is no record of settings: "), "{why}");
        assert!(apply(&machine.tree(), &machine.state(), &machine.plan(&["nmi-watchdog"])).is_err());
    }
    assert_eq!((machine.get(RMEM), machine.get(WATCHDOG)), ("33554432".to_owned(), "1".to_owned()));
}

/// Root must not write where somebody else's link leads.
#[test]
fn a_link_in_place_of_the_new_record_or_the_lock_is_not_followed() {
    let machine = MadeUp::new();
    let (victim, steps) = (machine.root().join("victim"), machine.plan(&["rmem_max"]));
    fs::write(&victim, "precious").expect("it is ours");
    fs::create_dir_all(machine.state().parent().expect("it has one")).expect("it is ours");
    for name in ["new", "lock"] {
        let link = machine.state().with_extension(name);
        // The lock of the first turn.
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&victim, &link).expect("it is ours");
        assert!(apply(&machine.tree(), &machine.state(), &steps).is_err(), "{name}");
        fs::remove_file(&link).expect("it is there");
    }
    let precious = fs::read_to_string(&victim).expect("it is there");
    assert_eq!((precious.as_str(), machine.get(RMEM)), ("precious", "212992".to_owned()));
}

#[test]
fn one_program_at_a_time_changes_settings() {
    let machine = MadeUp::new();
    let steps = machine.plan(&["rmem_max"]);
    let lock = machine.state().with_extension("lock");
    fs::create_dir_all(lock.parent().expect("it has one")).expect("it is ours");
    let held = fs::File::create(lock).expect("it is ours");
    held.try_lock().expect("nobody has it");
    let why = apply(&machine.tree(), &machine.state(), &steps).expect_err("it is locked");
    assert!(why.contains("another program changes settings now"), "{why}");
    assert_eq!(machine.get(RMEM), "212992");
}
