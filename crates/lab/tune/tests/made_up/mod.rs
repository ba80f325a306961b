//! A made-up machine: a tree of files that looks like one, and cards that are set.
#![allow(dead_code)] // Each test uses a part of it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use net::card::{Coalescing, Rings};
use testkit::Folder;
use tickcast_tune::{Cards, Facts, Finding, Tree, judge};

pub(crate) struct MadeUp {
    pub(crate) folder: Folder,
    pub(crate) cards: MadeUpCards,
}

#[derive(Clone)]
pub(crate) struct MadeUpCards(pub(crate) Arc<Mutex<(Rings, Coalescing)>>);

impl Cards for MadeUpCards {
    fn rings(&self, _: &str) -> io::Result<Rings> {
        Ok(self.0.lock().expect("nobody panics").0)
    }

    fn set_rings(&self, _: &str, rx: u32, tx: u32) -> io::Result<()> {
        let mut state = self.0.lock().expect("nobody panics");
        if rx > state.0.rx_max {
            return Err(io::Error::other("too long"));
        }
        (state.0.rx, state.0.tx) = (rx, tx);
        Ok(())
    }

    fn coalescing(&self, _: &str) -> io::Result<Coalescing> {
        Ok(self.0.lock().expect("nobody panics").1)
    }

    fn set_coalescing(&self, _: &str, wanted: Coalescing) -> io::Result<()> {
        self.0.lock().expect("nobody panics").1 = wanted;
        Ok(())
    }
}

const CPU: &str = "sys/devices/system/cpu";

impl MadeUp {
    /// Four CPUs with a card, none of it tuned.
    pub(crate) fn new() -> MadeUp {
        let rings = Rings { rx: 256, rx_max: 8_192, tx: 256, tx_max: 1_024 };
        let coalescing = Coalescing { rx_us: 8, is_rx_adaptive: true, tx_us: 16, is_tx_adaptive: false };
        let made_up = MadeUp {
            folder: Folder::in_memory(),
            cards: MadeUpCards(Arc::new(Mutex::new((rings, coalescing)))),
        };
        let files = [
            ("proc/sys/kernel/random/boot_id", "first-start"),
            ("proc/sys/kernel/nmi_watchdog", "1\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/wmem_max", "16777216\n"),
            ("proc/sys/net/core/busy_poll", "0\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t2097152\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
            ("proc/cmdline", "quiet\n"),
            ("sys/class/net/eth0/flags", "0x1003\n"),
            ("sys/class/net/eth0/device/numa_node", "-1\n"),
            ("sys/class/net/eth0/tx_queue_len", "1000\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/lo/flags", "0x9\n"),
            ("proc/irq/9/smp_affinity_list", "0-3\n"),
            ("proc/irq/10/smp_affinity_list", "0\n"),
        ];
        files.iter().for_each(|(path, text)| made_up.put(path, text));
        made_up.put(&format!("{CPU}/online"), "0-3\n");
        made_up.put(&format!("{CPU}/isolated"), "\n");
        for cpu in 0..4 {
            made_up.put(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"), "powersave\n");
            for (state, name, latency) in [(0, "POLL", "0"), (1, "C6", "133")] {
                let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
                let files = [("name", name), ("latency", latency), ("disable", "0")];
                files.iter().for_each(|(file, text)| made_up.put(&format!("{folder}/{file}"), text));
            }
        }
        made_up
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder of our own");
        fs::write(path, text).expect("a folder of our own");
    }

    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.folder.join(path)).expect("it is there").trim().to_owned()
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::at(&self.folder).with_cards(Box::new(self.cards.clone()))
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        judge(&Facts::read(&self.tree()))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.folder
    }
}
