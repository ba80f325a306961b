use super::{NOT_IN_REPORTS, Topic, by_sysctl, of};
use crate::change::{Setting, coalescing_text};
use crate::facts::{Facts, Interface};
use crate::finding::Finding;
use crate::tree::Told;

const SOCKETS_IN_REPORTS: &str =
    "All RMDS reports: socket buffers of 8 to 16 MB. LBM: receive buffers of 8 MB.";

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "rmem_max",
        why: "datagrams of a burst that find no room in the socket are lost",
        story: "It bounds the receive buffer that a program may ask for. Ours ask for 8 MiB \
                (lbtrm.receiver_socket_buffer_bytes), with the preset `throughput` for 32 MiB. The kernel counts what a \
                packet takes in its memory, so a buffer holds less of small datagrams. As root our multicast sockets pass over the \
                bound.",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| {
            let errors = match &facts.network.rcvbuf_errors {
                Ok(errors) => format!("; datagrams lost for want of room since the start: {errors}"),
                Err(_) => String::new(),
            };
            at_least(facts, "core/rmem_max", 8 << 20, &(32 << 20).to_string(), &errors)
        },
    },
    Topic {
        name: "wmem_max",
        why: "a sender of bursts waits, or drops, when its buffer is full",
        story: "It bounds the send buffer that a program may ask for.",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| at_least(facts, "core/wmem_max", 8 << 20, &(32 << 20).to_string(), ""),
    },
    Topic {
        name: "rmem_default",
        why: "a program that asks for no receive buffer gets this one",
        story: "Our sockets ask for what they need. Other programs on the machine, and multicast receivers of other \
                software among them, may not. `apply` raises it only if you name it: every socket may take that much then.",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| default_buffer(facts, "core/rmem_default"),
    },
    Topic {
        name: "wmem_default",
        why: "a program that asks for no send buffer gets this one",
        story: "As rmem_default, for sending.",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| default_buffer(facts, "core/wmem_default"),
    },
    Topic {
        name: "udp_mem",
        why: "datagrams are lost when all sockets together have too many waiting",
        story: "Three numbers of pages: below the first nobody is limited, beyond the third nothing more is taken. The \
                kernel sets them by the machine's memory. Nothing is advised unless the third is below the buffers of some \
                receivers, 256 MiB.",
        reports: NOT_IN_REPORTS,
        judge: udp_mem,
    },
    Topic {
        name: "tcp_rmem",
        why: "a TCP connection that is received from grows to this",
        story: "Three values: the least, the first, the most. The kernel grows the buffer up to the third by itself.",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| tcp(facts, "ipv4/tcp_rmem"),
    },
    Topic {
        name: "tcp_wmem",
        why: "a TCP client that is slow for a moment is buffered up to this",
        story: "Three values: the least, the first, the most. What does not fit waits in the server's own backlog \
                (backlog_max_bytes).",
        reports: SOCKETS_IN_REPORTS,
        judge: |facts| tcp(facts, "ipv4/tcp_wmem"),
    },
    Topic {
        name: "netdev_max_backlog",
        why: "packets that come faster than a CPU takes them are lost",
        story: "The queue of each CPU before the protocols; used by loopback, veth, and cards whose packets are spread by \
                software.",
        reports: "The RMDS reports set eight values of sockets by sysctl; buffers were 8 to 16 MB.",
        judge: |facts| {
            let drops = match &facts.network.backlog_drops {
                Ok(drops) => format!("; packets lost there since the start: {drops}"),
                Err(_) => String::new(),
            };
            at_least(facts, "core/netdev_max_backlog", 5_000, "10000", &drops)
        },
    },
    Topic {
        name: "somaxconn",
        why: "clients that connect all at once wait here, or have to try again",
        story: "Connections that no server has accepted yet. After an outage all clients come back at once.",
        reports: NOT_IN_REPORTS,
        judge: |facts| at_least(facts, "core/somaxconn", 4_096, "16384", ""),
    },
    Topic {
        name: "busy_poll",
        why: "a thread that blocks gets a packet when the card's interrupt has come",
        story: "With busy polling, a thread that is about to block asks the card itself for so many microseconds \
                (net.core.busy_read for reads, busy_poll for epoll). It saves the interrupt and takes CPU time. It works \
                with real cards alone, and threads that spin do not need it. `apply` sets it only if you name it.",
        reports: "Kernel bypass (VMA, OpenOnload) did the same and more in the reports.",
        judge: |facts| {
            let mut findings = busy(facts, "core/busy_poll");
            findings.extend(busy(facts, "core/busy_read"));
            findings
        },
    },
    Topic {
        name: "igmp_max_memberships",
        why: "a socket cannot join more groups than that",
        story: "Sessions in many groups need many memberships; ours have a socket for each group and network.",
        reports: NOT_IN_REPORTS,
        judge: |facts| at_least(facts, "ipv4/igmp_max_memberships", 20, "200", ""),
    },
    Topic {
        name: "txqueuelen",
        why: "a burst that the card does not take at once waits here, or is lost",
        story: "The queue of packets before a card.",
        reports: "RMDS reports: 5,000.",
        judge: |facts| cards(facts, txqueuelen),
    },
    Topic {
        name: "rings",
        why: "packets that come while no CPU looks wait in the card's ring, or are lost",
        story: "A longer ring holds a longer burst. Many cards lose their link for a second when it is changed: `apply` \
                changes it only if you name it (`rings:eth0`).",
        reports: NOT_IN_REPORTS,
        judge: |facts| cards(facts, rings),
    },
    Topic {
        name: "coalescing",
        why: "a card that waits for more packets delivers the first one late",
        story: "Each interrupt costs CPU time, so cards wait some microseconds for more packets. For the lowest latency \
                set rx-usecs to 0 and adaptive-rx to off; at high rates CPUs have more interrupts to serve then.",
        reports: "The card of SFN and LBM was used with kernel bypass, which polls.",
        judge: |facts| cards(facts, coalescing),
    },
    Topic {
        name: "mtu",
        why: "longer datagrams carry more messages for the same work",
        story: "The preset `throughput` sends datagrams of 8,972 bytes, which want an MTU of 9,000 on the whole path. \
                Nothing is changed here: switches and all hosts must agree.",
        reports: "LBM: 1,500 for latency, 9,000 for throughput. RMDS-TEAK: 4,000.",
        judge: |facts| {
            cards(facts, |one| match &one.mtu {
                Ok(mtu) => Finding::note(format!("{mtu}")),
                Err(why) => Finding::unknown(why),
            })
        },
    },
];

/// How a setting below /proc/sys/net is called.
fn dotted(name: &str) -> String {
    format!("net.{}", name.replace('/', "."))
}

fn number(facts: &Facts, name: &str) -> Told<u64> {
    let text = facts.network.sysctl(name)?;
    text.parse().map_err(|_| format!("{} is no number: {text:?}", dotted(name)))
}

fn at_least(facts: &Facts, name: &str, enough: u64, value: &str, more: &str) -> Vec<Finding> {
    of(&number(facts, name), |now| match *now >= enough {
        true => Finding::fine(format!("{now}{more}")),
        false => by_sysctl(
            Finding::advice(format!("{now}{more}"), format!("at least {enough}")),
            &dotted(name),
            value,
        ),
    })
}

/// Most that a TCP connection buffers, at least.
const TCP_MAX: u64 = 4 << 20;

/// A setting of three numbers.
fn three(facts: &Facts, name: &str) -> Told<[u64; 3]> {
    let text = facts.network.sysctl(name)?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    <[u64; 3]>::try_from(numbers).map_err(|_| format!("{} has not three numbers: {text:?}", dotted(name)))
}

fn tcp(facts: &Facts, name: &str) -> Vec<Finding> {
    of(&three(facts, name), |[least, first, most]| {
        let now = format!("{least} {first} {most}");
        if *most >= TCP_MAX {
            return Finding::fine(now);
        }
        let value = format!("{least} {first} {}", 16 << 20);
        by_sysctl(Finding::advice(now, format!("the last one at least {TCP_MAX}")), &dotted(name), &value)
    })
}

fn default_buffer(facts: &Facts, name: &str) -> Vec<Finding> {
    of(&number(facts, name), |now| match *now {
        now if now >= 8 << 20 => Finding::fine(now.to_string()),
        now => by_sysctl(Finding::note(now.to_string()), &dotted(name), &(8 << 20).to_string()).by_name(),
    })
}

/// Pages of 4 KiB that datagrams may take together, at least: 256 MiB.
const UDP_PAGES: u64 = 65_536;

fn udp_mem(facts: &Facts) -> Vec<Finding> {
    of(&three(facts, "ipv4/udp_mem"), |[low, pressure, most]| {
        let now = format!("{low} {pressure} {most} pages");
        if *most >= UDP_PAGES {
            return Finding::fine(now);
        }
        let value = format!("{low} {pressure} {UDP_PAGES}");
        by_sysctl(
            Finding::advice(now, format!("the last one at least {UDP_PAGES}")),
            "net.ipv4.udp_mem",
            &value,
        )
    })
}

fn busy(facts: &Facts, name: &str) -> Vec<Finding> {
    let of_cards = facts.network.interfaces.as_ref().is_ok_and(|all| all.iter().any(|one| one.is_card));
    let found = of(&number(facts, name), |now| match now {
        0 if of_cards => by_sysctl(Finding::note("off"), &dotted(name), "50").by_name(),
        0 => Finding::note("off; there is no card here that could be polled"),
        now => Finding::note(format!("{now} us")),
    });
    let subject = name.rsplit('/').next().unwrap_or(name);
    found.into_iter().map(|finding| finding.of(subject)).collect()
}

fn cards(facts: &Facts, judge: fn(&Interface) -> Finding) -> Vec<Finding> {
    match &facts.network.interfaces {
        Ok(all) if all.iter().any(|one| one.is_card) => {
            all.iter().filter(|one| one.is_card).map(|one| judge(one).of(&one.name)).collect()
        }
        Ok(_) => vec![Finding::note("there is no network card here")],
        Err(why) => vec![Finding::unknown(why)],
    }
}

/// As the reports had it.
const TXQUEUELEN: u32 = 5_000;

fn txqueuelen(one: &Interface) -> Finding {
    let file = format!("/sys/class/net/{}/tx_queue_len", one.name);
    let node = match one.numa_node {
        Ok(node) if node >= 0 => format!(" (its card is at node {node})"),
        _ => String::new(),
    };
    match &one.txqueuelen {
        Ok(now) if *now >= TXQUEUELEN => Finding::fine(format!("{now}{node}")),
        Ok(now) => Finding::advice(format!("{now}{node}"), TXQUEUELEN.to_string())
            .change(Setting::file(&file), TXQUEUELEN.to_string())
            .command(format!("ip link set {} txqueuelen {TXQUEUELEN}", one.name))
            .permanent("TransmitQueueLength=5000 in a .link file of systemd"),
        Err(why) => Finding::unknown(why),
    }
}

/// Long enough for bursts.
const RING: u32 = 4_096;

fn rings(one: &Interface) -> Finding {
    let rings = match &one.rings {
        Ok(rings) => rings,
        Err(why) => return Finding::unknown(why),
    };
    let missed = match &one.missed {
        Ok(missed) => format!("; packets lost in the card since the start: {missed}"),
        Err(_) => String::new(),
    };
    let now = format!("rx {} of {}, tx {} of {}{missed}", rings.rx, rings.rx_max, rings.tx, rings.tx_max);
    let [rx, tx] =
        [(rings.rx, rings.rx_max), (rings.tx, rings.tx_max)].map(|(now, max)| now.max(RING.min(max)));
    if (rx, tx) == (rings.rx, rings.tx) {
        return Finding::fine(now);
    }
    Finding::advice(now, format!("rx {rx}, tx {tx}"))
        .change(Setting::Rings(one.name.clone()), format!("rx={rx} tx={tx}"))
        .command(format!("ethtool -G {} rx {rx} tx {tx}", one.name))
        .permanent("RxBufferSize= and TxBufferSize= in a .link file of systemd")
        .by_name()
}

fn coalescing(one: &Interface) -> Finding {
    let now = match &one.coalescing {
        Ok(now) => now,
        Err(why) => return Finding::unknown(why),
    };
    if now.rx_us == 0 && !now.is_rx_adaptive {
        return Finding::fine(coalescing_text(now));
    }
    let wanted = net::card::Coalescing { rx_us: 0, is_rx_adaptive: false, ..*now };
    Finding::advice(
        coalescing_text(now),
        "adaptive-rx off, rx-usecs 0, where latency matters more than CPU time",
    )
    .change(Setting::Coalescing(one.name.clone()), coalescing_text(&wanted))
    .command(format!("ethtool -C {} adaptive-rx off rx-usecs 0", one.name))
    .permanent("UseAdaptiveRxCoalesce=no and RxCoalesceSec=0 in a .link file of systemd")
}
