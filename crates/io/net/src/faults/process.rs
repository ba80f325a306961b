//! One of several "processes" within one: it can be killed alone.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use super::put_null;

thread_local! {
    /// Sockets, by their numbers in the kernel, that are a host's or were there when one began its work.
    static KNOWN: RefCell<HashSet<u64>> = RefCell::default();
    /// The lowest descriptor that was free when the last work was over.
    static FREE: Cell<RawFd> = const { Cell::new(-1) };
}

/// The sockets that were made in the course of its [`work`](Host::work). All hosts of a process are of one
/// thread, and nobody else opens anything between two works of hosts, other than before one is made.
#[derive(Debug)]
pub struct Host {
    sockets: HashSet<u64>,
}

impl Host {
    /// A host without sockets.
    ///
    /// # Errors
    /// The process is out of descriptors, or `/proc` is missing.
    pub fn new() -> io::Result<Host> {
        learn()?;
        FREE.set(lowest_free()?);
        Ok(Host { sockets: HashSet::new() })
    }

    /// Does something, and takes note of the sockets that it makes.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn work<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        let result = work();
        // Whoever opens something takes the lowest number that is free.
        let free = lowest_free()?;
        if FREE.replace(free) != free {
            self.sockets.extend(learn()?);
        }
        Ok(result)
    }

    /// Closes its sockets in the kernel, as if its process was killed. Who has them finds them broken. Sockets that
    /// are not of this crate stay open.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn kill(self) -> io::Result<()> {
        let nothing = File::open("/dev/null")?;
        for (descriptor, _) in sockets()?.into_iter().filter(|(_, s)| self.sockets.contains(s)) {
            put_null(&nothing, descriptor)?;
        }
        Ok(())
    }
}

/// Makes all sockets there are known; those that were not.
fn learn() -> io::Result<Vec<u64>> {
    let all = sockets()?.into_iter().map(|(_, number)| number);
    let new: Vec<u64> = KNOWN.with_borrow(|known| all.filter(|s| !known.contains(s)).collect());
    KNOWN.with_borrow_mut(|known| known.extend(&new));
    Ok(new)
}

fn lowest_free() -> io::Result<RawFd> {
    thread_local! {
        static ANY: File = File::open("/dev/null").expect("every Linux has it");
    }
    ANY.with(|any| Ok(rustix::io::fcntl_dupfd_cloexec(any.as_fd(), 0)?.as_raw_fd()))
}

/// Descriptor and number in the kernel of each socket of the process.
fn sockets() -> io::Result<Vec<(RawFd, u64)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // The descriptor of this list is gone when it is looked at.
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let number = |text: &str| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
        let descriptor = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(descriptor), Some(number)) = (descriptor, target.to_str().and_then(number)) {
            all.push((descriptor, number));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{MulticastOptions, UdpSocket};
    use std::net::{Ipv4Addr, SocketAddrV4};

    const OPTIONS: MulticastOptions =
        MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: 1 << 16 };

    #[test]
    fn a_host_that_is_killed_loses_its_sockets_and_no_other_does() {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let open = || UdpSocket::multicast_sender(any, OPTIONS).expect("a port is free");
        let works = |socket: &UdpSocket| socket.local_address().is_ok();
        let make = || Host::new().expect("there are descriptors");
        let (mut one, mut other) = (make(), make());
        let outside = open();
        let of_one = one.work(open).expect("there are descriptors");
        let of_other = other.work(open).expect("there are descriptors");
        let of_one_too = one.work(open).expect("there are descriptors");
        let std_socket = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let of_others = one.work(std_socket).expect("there are descriptors");
        // Other tests of this process open sockets meanwhile.
        one.sockets.retain(|s| is(&of_one, *s) || is(&of_one_too, *s) || is(&of_others, *s));
        assert_eq!(one.sockets.len(), 3);
        one.kill().expect("there are descriptors");
        assert!(works(&outside) && works(&of_other));
        assert!(!works(&of_one) && !works(&of_one_too));
        assert!(of_others.local_addr().is_ok(), "no socket of this crate");
    }

    fn is(socket: &impl AsFd, number: u64) -> bool {
        sockets().expect("/proc").contains(&(socket.as_fd().as_raw_fd(), number))
    }
}
