use super::{NOT_IN_REPORTS, Topic, by_sysctl, of};
use crate::change::Setting;
use crate::finding::Finding;

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "thp",
        why: "without huge pages large tables miss the translation cache, and each new page is a fault",
        story: "With `madvise` programs that ask get huge pages; with `always` all do, and the kernel may stop a program \
                to make one. `never` leaves pages of 4 KiB. Tickcast touches its windows before it needs them \
                (transport_transmission_window_prefault).",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.memory.thp, |word| match word.as_str() {
                "never" => {
                    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
                    Finding::advice("never", "madvise")
                        .change(Setting::file(file), "madvise")
                        .command(format!("echo madvise > {file}"))
                        .permanent("transparent_hugepage=madvise on the kernel's command line")
                }
                word => Finding::fine(word),
            })
        },
    },
    Topic {
        name: "thp-defrag",
        why: "a program that needs a huge page may be stopped until one is made",
        story: "With `always` a page fault compacts memory at once, which can take milliseconds. `defer+madvise` leaves \
                that to a thread of the kernel's, unless the program has asked.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.memory.thp_defrag, |word| match word.as_str() {
                "always" => {
                    let file = "/sys/kernel/mm/transparent_hugepage/defrag";
                    Finding::advice("always", "defer+madvise")
                        .change(Setting::file(file), "defer+madvise")
                        .command(format!("echo defer+madvise > {file}"))
                        .permanent("a line of /etc/tmpfiles.d: w FILE - - - - defer+madvise")
                }
                word => Finding::fine(word),
            })
        },
    },
    Topic {
        name: "huge-pages",
        why: "pages that are set aside are there at once",
        story: "Reserved huge pages (vm.nr_hugepages) serve programs that map them, such as kernel bypass. Tickcast uses \
                transparent ones.",
        reports: NOT_IN_REPORTS,
        judge: |facts| of(&facts.memory.huge_pages, |count| Finding::note(format!("{count} set aside"))),
    },
    Topic {
        name: "swappiness",
        why: "memory that was swapped out takes milliseconds to come back",
        story: "Where there is swap, a low swappiness keeps the memory of programs in place of the cache of files.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.memory.swappiness, |swappiness| match &facts.memory.swaps {
                Ok(0) => Finding::fine("there is no swap"),
                _ if *swappiness <= 10 => Finding::fine(swappiness.to_string()),
                Ok(_) => {
                    by_sysctl(Finding::advice(swappiness.to_string(), "10 or less"), "vm.swappiness", "1")
                }
                Err(why) => Finding::unknown(why),
            })
        },
    },
    Topic {
        name: "numa",
        why: "memory of another node takes twice as long",
        story: "With several nodes keep a daemon's CPUs, memory and network card on one: `numactl --cpunodebind=N \
                --membind=N`. txqueuelen and the like name the card's node.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.memory.nodes, |nodes| match nodes {
                0 | 1 => Finding::fine("one node"),
                nodes => Finding::note(format!("{nodes} nodes: keep a daemon on the node of its card"))
                    .command("numactl --cpunodebind=N --membind=N tickcast ..."),
            })
        },
    },
    Topic {
        name: "numa-balancing",
        why: "the kernel takes pages away to see who uses them",
        story: "Automatic balancing unmaps pages so as to notice who touches them. Each such fault is latency. With daemons \
                that are pinned there is nothing to balance.",
        reports: NOT_IN_REPORTS,
        judge: |facts| {
            of(&facts.memory.numa_balancing, |value| match (value, &facts.memory.nodes) {
                (0, _) => Finding::fine("off"),
                (_, Ok(0 | 1)) => Finding::fine("on, with one node"),
                _ => by_sysctl(Finding::advice("on", "off"), "kernel.numa_balancing", "0"),
            })
        },
    },
];
