use std::collections::BTreeMap;

use net::card::{Coalescing, Rings};

use crate::tree::{Told, Tree};

/// More interfaces than are listed one by one.
const INTERFACES_MAX: usize = 64;

/// Sockets and interfaces.
#[derive(Clone, Debug)]
pub struct NetworkFacts {
    /// Settings below `/proc/sys/net`, by the path behind it.
    pub sysctls: BTreeMap<&'static str, Told<String>>,
    /// Datagrams that found no room in a socket, since the start.
    pub rcvbuf_errors: Told<u64>,
    /// Packets that found no room in a CPU's backlog, since the start.
    pub backlog_drops: Told<u64>,
    /// Interfaces that are up, but loopback.
    pub interfaces: Told<Vec<Interface>>,
}

/// An interface.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Interface {
    pub name: String,
    /// A card (or what a virtual machine has for one), and no bridge, tunnel or end of a pair.
    pub is_card: bool,
    pub mtu: Told<u32>,
    /// Packets that wait to be sent.
    pub txqueuelen: Told<u32>,
    /// The node whose memory is near; negative if the machine does not say.
    pub numa_node: Told<i32>,
    pub rings: Told<Rings>,
    pub coalescing: Told<Coalescing>,
    /// Packets that the card has lost, since the start.
    pub missed: Told<u64>,
}

/// The settings that are looked at.
pub(crate) const SYSCTLS: [&str; 12] = [
    "core/somaxconn",
    "core/rmem_max",
    "core/wmem_max",
    "core/rmem_default",
    "core/wmem_default",
    "core/netdev_max_backlog",
    "core/busy_read",
    "core/busy_poll",
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/udp_mem",
    "ipv4/igmp_max_memberships",
];

impl NetworkFacts {
    pub(super) fn read(tree: &Tree) -> NetworkFacts {
        NetworkFacts {
            sysctls: SYSCTLS.map(|name| (name, tree.text(&format!("/proc/sys/net/{name}")))).into(),
            rcvbuf_errors: tree.text("/proc/net/snmp").and_then(|text| rcvbuf_errors(&text)),
            backlog_drops: tree.text("/proc/net/softnet_stat").and_then(|text| backlog_drops(&text)),
            interfaces: interfaces(tree),
        }
    }

    /// One of the settings.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn sysctl(&self, name: &str) -> Told<String> {
        self.sysctls.get(name).cloned().unwrap_or_else(|| Err(format!("{name} was not looked at")))
    }
}

fn interfaces(tree: &Tree) -> Told<Vec<Interface>> {
    let names = tree.names("/sys/class/net")?;
    let is_up = |name: &&String| {
        let flags = tree.text(&format!("/sys/class/net/{name}/flags")).unwrap_or_default();
        let flags = flags.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0);
        // IFF_UP, and not IFF_LOOPBACK.
        flags & 1 != 0 && flags & 8 == 0
    };
    let up = names.iter().filter(is_up).take(INTERFACES_MAX);
    Ok(up.map(|name| interface(tree, name)).collect())
}

fn interface(tree: &Tree, name: &str) -> Interface {
    let file = |what: &str| format!("/sys/class/net/{name}/{what}");
    let of_card = |error: std::io::Error| format!("the card of {name} does not say: {error}");
    Interface {
        name: name.to_owned(),
        is_card: tree.has(&file("device")),
        mtu: tree.number(&file("mtu")),
        txqueuelen: tree.number(&file("tx_queue_len")),
        numa_node: tree.number(&file("device/numa_node")),
        rings: tree.cards().rings(name).map_err(of_card),
        coalescing: tree.cards().coalescing(name).map_err(of_card),
        missed: tree.number(&file("statistics/rx_missed_errors")),
    }
}

fn rcvbuf_errors(snmp: &str) -> Told<u64> {
    let mut udp = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let found = udp.next().zip(udp.next()).and_then(|(names, values)| {
        let at = names.split_whitespace().position(|name| name == "RcvbufErrors")?;
        values.split_whitespace().nth(at)?.parse().ok()
    });
    found.ok_or_else(|| "/proc/net/snmp does not say it".to_owned())
}

/// The second column of each CPU, in hexadecimal.
fn backlog_drops(softnet: &str) -> Told<u64> {
    let drops = softnet.lines().map(|line| {
        let field = line.split_whitespace().nth(1)?;
        u64::from_str_radix(field, 16).ok()
    });
    let all: Option<u64> = drops.sum();
    all.ok_or_else(|| "/proc/net/softnet_stat does not say it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_their_names_and_columns() {
        let snmp =
            "Tcp: A\nTcp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 9 8 7 6 5\n";
        assert_eq!(rcvbuf_errors(snmp), Ok(5));
        assert!(rcvbuf_errors("Udp: A\nUdp: 1").is_err() && rcvbuf_errors("").is_err());
        assert_eq!(backlog_drops("0000ff 0000000a 0\n000001 00000001 0\n"), Ok(11));
        assert!(backlog_drops("x").is_err());
    }
}
