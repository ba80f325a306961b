//! The network interfaces of this host and their IPv4 addresses.

use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;

/// One IPv4 address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub name: String,
    /// The address.
    pub address: Ipv4Addr,
}

/// The IPv4 addresses of all interfaces that are up, in the order in which the kernel lists them.
///
/// # Errors
/// The kernel does not say.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes the head of a list that it allocates, or fails.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: `next` is null or an element of the list, which lives until `freeifaddrs` below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        // SAFETY: `ifa_addr` is null or points to an address that lives as long as the list; its family says
        // of which type it is.
        let Some(family) = (unsafe { entry.ifa_addr.as_ref() }).map(|a| libc::c_int::from(a.sa_family))
        else {
            continue;
        };
        if !is_up || family != libc::AF_INET {
            continue;
        }
        // SAFETY: an address of family AF_INET is a `sockaddr_in`; read unaligned because nothing promises
        // more than the alignment of `sockaddr`.
        let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
        // SAFETY: the name is a string that ends in zero and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let address = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
        found.push(InterfaceAddress { name, address });
    }
    // SAFETY: `first` is the list that was allocated above, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_among_them() {
        let all = addresses().expect("every host has interfaces");
        let lo = InterfaceAddress { name: "lo".to_owned(), address: Ipv4Addr::LOCALHOST };
        assert!(all.contains(&lo), "{all:?}");
    }
}
