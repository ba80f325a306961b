//! Two hosts joined by a cable on one machine, as network namespaces with a veth pair: where tests and
//! measurements have a real network stack between two ends.
//!
//! A thread is on one host at a time; its sockets, and the processes it starts, stay on the host where they
//! were made. The hosts have no names and go with the last descriptor, socket or process, so nothing is left
//! behind. It takes root, AF_XDP in the kernel, and the program `ip`.

mod faults;
mod host;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::clock;

pub use faults::Faults;
pub(crate) use faults::FaultySocket;
pub use host::Host;

/// Address of the near host; its interface is `near`.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the far host; its interface is `far`.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

const CARRIER_TIMEOUT: Duration = Duration::from_secs(60);
/// A child of a test that lives longer hangs; what it waits for itself has a shorter bound.
const CHILD_TIMEOUT: Duration = Duration::from_secs(180);
const CHILD_LOOK: Duration = Duration::from_millis(1);

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
    let deadline = clock::monotonic().after(CARRIER_TIMEOUT);
    while !ip(&format!("-brief link show {interface}"))?.contains(" UP ") {
        if clock::monotonic() > deadline {
            return Err(io::Error::other(format!("interface {interface} does not come up")));
        }
    }
    Ok(())
}

/// Puts something that is no socket in a socket's place, under the same descriptor: what is received from it
/// from then on is an error that does not pass. It needs neither hosts nor rights.
///
/// # Errors
/// The process is out of descriptors.
pub fn spoil(socket: impl AsFd) -> io::Result<()> {
    let other = File::open("/dev/null")?;
    // SAFETY: the number stays open and its owner's, who closes it as before; no memory is touched.
    let result = unsafe { libc::dup3(other.as_raw_fd(), socket.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel refuse segmentation offload to a UDP socket, as it does where a path or a driver cannot do
/// it. It needs neither hosts nor rights.
///
/// # Errors
/// The kernel refuses.
pub fn refuse_offload(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // Offload makes the checksums of what it cuts, and is refused where there are to be none.
    //
    // SAFETY: the pointer and the length describe `on`, which outlives the call; the descriptor is open, as
    // it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

/// A child of this process.
#[derive(Debug)]
pub struct Child(libc::pid_t);

/// Runs `there` in a child made by `fork`, for tests of what such children do to their parents. The child has this
/// thread alone, so locks that another one holds are never given back there; it ends without what Rust does at the end
/// of a process.
///
/// # Errors
/// There are too many processes.
pub fn fork(there: impl FnOnce() -> bool) -> io::Result<Child> {
    // SAFETY: the child goes on with what the test asks for, as above, and ends by `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let is_good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(there)).unwrap_or(false);
            // SAFETY: it ends this process alone.
            unsafe { libc::_exit(i32::from(!is_good)) }
        }
        pid if pid > 0 => Ok(Child(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Child {
    /// Whether it has ended by now, and so whether `there` has said true.
    #[must_use]
    pub fn poll(&mut self) -> Option<bool> {
        let mut status = 0;
        // SAFETY: `status` is room for what the call writes.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) };
        (waited != 0).then_some(waited == self.0 && status == 0)
    }

    /// Waits for its end; whether `there` has said true. One that hangs is killed, and has not ended well.
    #[must_use]
    pub fn has_ended_well(mut self) -> bool {
        let mut left = CHILD_TIMEOUT;
        while !left.is_zero() {
            if let Some(is_good) = self.poll() {
                return is_good;
            }
            std::thread::sleep(CHILD_LOOK);
            // Time in which this process was stopped does not count.
            left = left.saturating_sub(CHILD_LOOK);
        }
        eprintln!("child {} hangs, and is killed", self.0);
        // SAFETY: the child is this process's own, and was not waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: `status` is room for what the call writes.
        unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        false
    }
}

/// Becomes another user, a member of one group, with a umask that leaves others nothing. For children of [`fork`].
///
/// # Errors
/// The process is not root's.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    let groups = [group];
    // SAFETY: numbers, and an array with its length.
    let is_done = unsafe {
        libc::umask(0o077);
        libc::setgroups(1, groups.as_ptr()) == 0 && libc::setgid(user) == 0 && libc::setuid(user) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process may become other users.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
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
