//! Two hosts joined by a cable on one machine, as network namespaces with a veth pair: where tests and
//! measurements have a real network stack between two ends.
//!
//! A thread is on one host at a time; its sockets, and the processes it starts, stay on the host where they
//! were made. The hosts have no names and go with the last descriptor, socket or process, so nothing is left
//! behind. It takes root, AF_XDP in the kernel, and the program `ip`.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Address of the near host; its interface is `near`.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the far host; its interface is `far`.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

const CARRIER_TIMEOUT: Duration = Duration::from_secs(60);

/// Both hosts.
#[derive(Debug)]
pub struct Lab {
    near: OwnedFd,
    far: OwnedFd,
}

impl Lab {
    /// Makes the hosts, with so many queues on the interface of each. The calling thread is on the near one
    /// from then on.
    ///
    /// # Errors
    /// The rights or the kernel for it are missing; the error says which.
    pub fn new(queues: u32) -> io::Result<Lab> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "network namespaces need root"));
        }
        socket2::Socket::new(socket2::Domain::from(libc::AF_XDP), socket2::Type::RAW, None)
            .map_err(|e| named("no AF_XDP here", &e))?;
        let far = new_namespace()?;
        let near = new_namespace()?;
        let far_path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        let lab = Lab { near, far };
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        ip(&format!("link add near {queues} type veth peer name far netns {far_path} {queues}"))?;
        ip(&format!("address add {NEAR}/24 dev near"))?;
        come_up("near")?;
        lab.to_far()?;
        ip(&format!("address add {FAR}/24 dev far"))?;
        come_up("far")?;
        wait_for_carrier("far")?;
        lab.to_near()?;
        wait_for_carrier("near")?;
        Ok(lab)
    }

    /// Takes the calling thread to the near host.
    ///
    /// # Errors
    /// The rights are gone.
    pub fn to_near(&self) -> io::Result<()> {
        enter(&self.near)
    }

    /// Takes the calling thread to the far host.
    ///
    /// # Errors
    /// The rights are gone.
    pub fn to_far(&self) -> io::Result<()> {
        enter(&self.far)
    }
}

fn come_up(interface: &str) -> io::Result<()> {
    for name in ["all", "default", interface] {
        // Its solicitations would be frames that nobody has sent. A kernel without IPv6 has none.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    ip("link set lo up")?;
    // Sends with segmentation offload are cut before the device, as it would be on a wire.
    ip(&format!("link set {interface} gso_max_segs 1 up"))?;
    ip(&format!("route add 224.0.0.0/4 dev {interface}")).map(drop)
}

/// Until the kernel has noticed that both ends are up it drops what sockets send.
fn wait_for_carrier(interface: &str) -> io::Result<()> {
    let begun = Instant::now();
    while !ip(&format!("-brief link show {interface}"))?.contains(" UP ") {
        if begun.elapsed() > CARRIER_TIMEOUT {
            return Err(io::Error::other(format!("interface {interface} does not come up")));
        }
    }
    Ok(())
}

/// Runs `ip` on the host of the calling thread; what it prints.
///
/// # Errors
/// It is not there, or has refused; what it says is in the error.
pub fn ip(arguments: &str) -> io::Result<String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| named("ip", &e))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", said.trim())))
}

fn new_namespace() -> io::Result<OwnedFd> {
    // SAFETY: a new network namespace does not touch memory, descriptors or signals of other threads.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|e| named("no network namespaces", &e.into()))?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
