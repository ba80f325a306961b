//! Whether the threads of a daemon leave CPUs to others. One that spins with a real-time priority keeps its CPU for good:
//! where each CPU has such a thread, nobody can log in to stop it.

use std::collections::BTreeSet;

use daemon::ThreadConfig;

use crate::config::RootConfig;
use crate::failure::Failure;

/// A thread that never gives its CPU to an ordinary one.
struct Hog {
    key: &'static str,
    cpu: Option<u32>,
}

/// Refuses priorities with which the machine would stand still, and warns of those that need care. `name` is the daemon's.
pub(crate) fn check(name: &str, config: &RootConfig) -> Result<(), Failure> {
    let hogs = hogs(name, config);
    if hogs.is_empty() {
        return Ok(());
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(why) = unsound(&hogs, cpus) {
        return Err(Failure::Config(why));
    }
    if let Some(hog) = hogs.iter().find(|hog| hog.cpu.is_none()) {
        let key = hog.key;
        tracing::warn!(
            "{key}: a thread spins with a real-time priority and is kept on no CPU: set its CPU (docs/tuning.md)"
        );
    }
    let runtime = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default();
    if runtime.trim().parse().is_ok_and(|us: i64| us >= 0) {
        let runtime_us = runtime.trim();
        tracing::warn!(
            runtime_us,
            "kernel.sched_rt_runtime_us stops threads that spin with a real-time priority for a part of each second (docs/tuning.md)"
        );
    }
    Ok(())
}

fn hogs(name: &str, config: &RootConfig) -> Vec<Hog> {
    let one = |key, thread: &ThreadConfig| thread.hogs_its_cpu().then_some(Hog { key, cpu: thread.cpu });
    let distributor = one("source_distributor.thread", &config.source_distributor.thread);
    match name {
        "source-distributor" => distributor.into_iter().collect(),
        "resolver" => one("resolver.thread", &config.resolver.thread).into_iter().collect(),
        "p2ps" => {
            let p2ps = &config.p2ps;
            let upstream = distributor.filter(|_| !p2ps.upstream.is_empty());
            let main = one("p2ps.thread", &p2ps.thread);
            let shards = if p2ps.shard_count() > 1 && main.is_some() { p2ps.shard_count() } else { 0 };
            let shard =
                |at: u32| Hog { key: "p2ps.shard_cpus", cpu: p2ps.shard_cpus.get(at as usize).copied() };
            upstream.into_iter().chain(main).chain((0..shards).map(shard)).collect()
        }
        _ => Vec::new(),
    }
}

fn unsound(hogs: &[Hog], cpus: usize) -> Option<String> {
    let keys: BTreeSet<&str> = hogs.iter().map(|hog| hog.key).collect();
    let keys = keys.into_iter().collect::<Vec<&str>>().join(", ");
    if hogs.len() >= cpus {
        return Some(format!(
            "{keys}: {} threads would spin with a real-time priority, and this process may use {cpus} CPUs: at least one has \
             to be left. Take fewer, leave realtime_priority out, or wait = \"block\" (docs/tuning.md)",
            hogs.len()
        ));
    }
    let mut taken = BTreeSet::new();
    let twice = hogs.iter().filter_map(|hog| hog.cpu).find(|cpu| !taken.insert(*cpu))?;
    Some(format!(
        "{keys}: two threads would spin on CPU {twice} with a real-time priority: the second one would never run \
         (docs/tuning.md)"
    ))
}

#[cfg(test)]
mod tests {
    use daemon::WaitConfig;

    use super::*;

    fn spinning(cpu: Option<u32>) -> ThreadConfig {
        let wait = WaitConfig::Spin;
        ThreadConfig { wait, cpu, realtime_priority: Some(10), ..ThreadConfig::default() }
    }

    #[test]
    fn as_many_spinning_realtime_threads_as_cpus_or_two_on_one_are_refused() {
        let mut config = RootConfig::default();
        config.p2ps.thread = spinning(Some(1));
        (config.p2ps.shards, config.p2ps.shard_cpus) = (2, vec![2, 3]);
        config.source_distributor.thread = spinning(None);
        let found = hogs("p2ps", &config);
        assert_eq!(found.iter().map(|hog| hog.cpu).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
        assert!(unsound(&found, 4).is_none());
        let said = unsound(&found, 3).expect("none is left");
        assert!(said.starts_with("p2ps.shard_cpus, p2ps.thread: 3 threads would spin"), "{said}");
        config.p2ps.shard_cpus = vec![2, 1];
        assert!(unsound(&hogs("p2ps", &config), 4).is_some_and(|said| said.contains("on CPU 1 ")));
        assert_eq!(hogs("source-distributor", &config).len(), 1);
        config.p2ps.thread.wait = WaitConfig::Block;
        assert!(hogs("p2ps", &config).is_empty() && hogs("feed", &config).is_empty());
    }
}
