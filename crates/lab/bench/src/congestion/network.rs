//! Two hosts as network namespaces, and a link between them that is narrow towards the second.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::BenchError;
use crate::process::Process;

/// The sources' host.
pub(super) const SOURCES: Host = Host { name: "sources", address: Ipv4Addr::new(10, 78, 0, 1) };
/// The receivers' host, behind the narrow link.
pub(super) const RECEIVERS: Host = Host { name: "receivers", address: Ipv4Addr::new(10, 78, 0, 2) };

/// A namespace of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    name: &'static str,
    pub(super) address: Ipv4Addr,
}

/// What narrows the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) megabits_per_second: u32,
    pub(super) queue_ms: u32,
}

/// The network; it goes with this value.
pub(super) struct Network {
    /// In front of the names of its namespaces.
    prefix: String,
}

const PREFIX: &str = "tickcast-bench";
/// The switch between the hosts.
const LINK: &str = "link";
/// The switch's port to the receivers, which is narrow.
const NARROW: &str = "receivers";

impl Network {
    pub(super) fn up(shape: Shape) -> Result<Network, BenchError> {
        remove_those_of_the_dead()?;
        let network = Network { prefix: format!("{PREFIX}-{}", std::process::id()) };
        network.make(shape)?;
        Ok(network)
    }

    fn make(&self, shape: Shape) -> Result<(), BenchError> {
        let link = self.namespace(LINK);
        ip(&["netns", "add", &link])?;
        // Without snooping every port gets all multicast: no report of a membership can be missed.
        ip(&["-n", &link, "link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0"])?;
        ip(&["-n", &link, "link", "set", "br0", "up"])?;
        for host in [SOURCES, RECEIVERS] {
            let (own, port) = (self.namespace(host.name), host.name);
            ip(&["netns", "add", &own])?;
            let peer = ["type", "veth", "peer", "name", "eth0", "netns", &own];
            ip(&[&["-n", &link, "link", "add", port][..], &peer].concat())?;
            ip(&["-n", &link, "link", "set", port, "master", "br0", "up"])?;
            // Sends with segmentation offload are cut before they leave a host, as on a wire.
            ip(&["-n", &own, "link", "set", "eth0", "gso_max_segs", "1", "up"])?;
            ip(&["-n", &own, "link", "set", "lo", "up"])?;
            ip(&["-n", &own, "address", "add", &format!("{}/24", host.address), "dev", "eth0"])?;
            ip(&["-n", &own, "route", "add", "224.0.0.0/4", "dev", "eth0"])?;
        }
        let (rate, latency) = (format!("{}mbit", shape.megabits_per_second), format!("{}ms", shape.queue_ms));
        let narrow = ["tbf", "rate", &rate, "burst", "8kb", "latency", &latency];
        tc(&[&["-n", &link, "qdisc", "add", "dev", NARROW, "root"][..], &narrow].concat())?;
        Ok(())
    }

    /// Starts `tickcast bench role NAME ARGS` on a host.
    pub(super) fn role(&self, host: Host, name: &str, args: &[String]) -> Result<Process, BenchError> {
        let program = std::env::current_exe()?.display().to_string();
        let before = ["netns", "exec", &self.namespace(host.name), &program, "bench", "role", name];
        let words: Vec<String> = before.iter().map(|w| (*w).to_owned()).chain(args.iter().cloned()).collect();
        Process::program(name, "ip", &words)
    }

    /// Datagrams that went through the narrow port so far, and those that its queue had no room for.
    pub(super) fn carried_and_dropped(&self) -> Result<(u64, u64), BenchError> {
        let said = tc(&["-n", &self.namespace(LINK), "-s", "-j", "qdisc", "show", "dev", NARROW])?;
        let queue: Value = serde_json::from_str(&said)?;
        let count = |name: &str| queue[0][name].as_u64();
        let both = count("packets").zip(count("drops"));
        both.ok_or_else(|| BenchError::new(format!("tc counts neither packets nor drops: {said}")))
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [SOURCES.name, RECEIVERS.name, LINK] {
            // One that was not made is not there.
            let _ = ip(&["netns", "del", &self.namespace(name)]);
        }
    }
}

/// Namespaces of runs that were killed.
fn remove_those_of_the_dead() -> Result<(), BenchError> {
    for line in ip(&["netns", "list"])?.lines() {
        let Some(name) = line.split_whitespace().next() else { continue };
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-')?.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            ip(&["netns", "del", name])?;
        }
    }
    Ok(())
}

fn ip(words: &[&str]) -> Result<String, BenchError> {
    run("ip", words)
}

fn tc(words: &[&str]) -> Result<String, BenchError> {
    run("tc", words)
}

fn run(program: &str, words: &[&str]) -> Result<String, BenchError> {
    let output = match Command::new(program).args(words).output() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(BenchError::new(format!("{program} is missing (package iproute2)")));
        }
        output => output?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (said, line) = (String::from_utf8_lossy(&output.stderr).into_owned(), words.join(" "));
    Err(BenchError::new(format!("{program} {line}: {} (network namespaces need root)", said.trim())))
}
