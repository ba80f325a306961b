//! Two hosts joined by a cable, as network namespaces with a veth pair, for tests on a real network stack.
//!
//! A thread is on one host at a time; its sockets stay on the host where they were made. The hosts have no
//! names and go with the last descriptor, so nothing is left behind.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Address of the near host; its interface is `near`.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the far host; its interface is `far`.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

const CARRIER_TIMEOUT: Duration = Duration::from_secs(60);

/// Both hosts.
pub(crate) struct Lab {
    near: OwnedFd,
    far: OwnedFd,
}

impl Lab {
    /// Makes the hosts; the calling thread is on the near one. Without the rights or the kernel for it there
    /// is none, and standard error says what was skipped and why.
    pub(crate) fn new(what: &str) -> Option<Lab> {
        Lab::with_queues(what, 1)
    }

    /// The same with so many queues on each interface.
    pub(crate) fn with_queues(what: &str, queues: u32) -> Option<Lab> {
        match Lab::make(queues) {
            Ok(lab) => Some(lab),
            Err(why) => {
                // Not `eprintln!`, which the test harness keeps to itself.
                let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {why}");
                None
            }
        }
    }

    /// Takes the calling thread to the near host.
    pub(crate) fn to_near(&self) {
        enter(&self.near);
    }

    /// Takes the calling thread to the far host.
    pub(crate) fn to_far(&self) {
        enter(&self.far);
    }

    fn make(queues: u32) -> Result<Lab, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        socket2::Socket::new(socket2::Domain::from(libc::AF_XDP), socket2::Type::RAW, None)
            .map_err(|e| format!("no AF_XDP here: {e}"))?;
        let far = new_namespace()?;
        let near = new_namespace()?;
        let far_path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        let lab = Lab { near, far };
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        ip(&format!("link add near {queues} type veth peer name far netns {far_path} {queues}"))?;
        ip(&format!("address add {NEAR}/24 dev near"))?;
        lab.come_up("near")?;
        lab.to_far();
        ip(&format!("address add {FAR}/24 dev far"))?;
        lab.come_up("far")?;
        wait_for_carrier("far")?;
        lab.to_near();
        wait_for_carrier("near")?;
        Ok(lab)
    }

    fn come_up(&self, interface: &str) -> Result<(), String> {
        for name in ["all", "default", interface] {
            // Its solicitations would be frames that no test has sent.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        ip("link set lo up")?;
        // Sends with segmentation offload are cut before the device, as it would be on a wire.
        ip(&format!("link set {interface} gso_max_segs 1 up"))?;
        ip(&format!("route add 224.0.0.0/4 dev {interface}")).map(drop)
    }
}

/// Until the kernel has noticed that both ends are up it drops what sockets send.
fn wait_for_carrier(interface: &str) -> Result<(), String> {
    let began = Instant::now();
    while !ip(&format!("-brief link show {interface}"))?.contains(" UP ") {
        if began.elapsed() > CARRIER_TIMEOUT {
            return Err(format!("interface {interface} does not come up"));
        }
    }
    Ok(())
}

/// Runs `ip` on the host of the calling thread; what it prints.
pub(crate) fn ip(arguments: &str) -> Result<String, String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&ran.stderr).trim()))
}

fn new_namespace() -> Result<OwnedFd, String> {
    // SAFETY: a new network namespace does not touch memory, descriptors or signals of other threads.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|e| format!("no network namespaces: {e}"))?;
    let namespace = File::open("/proc/thread-self/ns/net").map_err(|e| format!("/proc: {e}"))?;
    Ok(namespace.into())
}

fn enter(namespace: &OwnedFd) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("it is there");
}
