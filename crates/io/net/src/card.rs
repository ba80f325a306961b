//! What a network card is set to: the length of its rings, and how long it holds interrupts back.
//!
//! Both are asked for and set through the kernel's `ethtool` interface (`linux/ethtool.h`), by the interface's name.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Descriptors of a card's rings: how many packets wait in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Receiving.
    pub rx: u32,
    /// As many as the card can have.
    pub rx_max: u32,
    /// Sending.
    pub tx: u32,
    /// As many as the card can have.
    pub tx_max: u32,
}

/// How long a card waits for more packets before it interrupts a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds after a packet has come.
    pub rx_us: u32,
    /// The card chooses these by itself.
    pub is_rx_adaptive: bool,
    /// Microseconds after a packet has gone.
    pub tx_us: u32,
    /// The card chooses these by itself.
    pub is_tx_adaptive: bool,
}

const SIOCETHTOOL: c_ulong = 0x8946;
/// Requests, and how many words of 32 bits each takes, the request among them.
const GET_COALESCING: u32 = 0x0e;
const SET_COALESCING: u32 = 0x0f;
const COALESCING_WORDS: usize = 23;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const RINGS_WORDS: usize = 9;

/// What of the words is ours.
mod at {
    pub(super) const RX_US: usize = 1;
    pub(super) const TX_US: usize = 5;
    pub(super) const RX_ADAPTIVE: usize = 10;
    pub(super) const TX_ADAPTIVE: usize = 11;
    pub(super) const RX_MAX: usize = 1;
    pub(super) const TX_MAX: usize = 4;
    pub(super) const RX: usize = 5;
    pub(super) const TX: usize = 8;
}

/// The rings of an interface's card.
///
/// # Errors
/// There is no such interface, or its driver has no rings to speak of (loopback, veth).
pub fn rings(interface: &str) -> io::Result<Rings> {
    let words: [u32; RINGS_WORDS] = ask(interface, GET_RINGS)?;
    Ok(Rings { rx: words[at::RX], rx_max: words[at::RX_MAX], tx: words[at::TX], tx_max: words[at::TX_MAX] })
}

/// Sets the lengths of the rings. Many cards lose their link for a second or so.
///
/// # Errors
/// As [`rings`]; the caller is not root; the card refuses the length.
pub fn set_rings(interface: &str, rx: u32, tx: u32) -> io::Result<()> {
    let mut words: [u32; RINGS_WORDS] = ask(interface, GET_RINGS)?;
    (words[at::RX], words[at::TX]) = (rx, tx);
    tell(interface, SET_RINGS, words)
}

/// How long an interface's card holds interrupts back.
///
/// # Errors
/// There is no such interface, or its driver does not do that.
pub fn coalescing(interface: &str) -> io::Result<Coalescing> {
    let words: [u32; COALESCING_WORDS] = ask(interface, GET_COALESCING)?;
    Ok(Coalescing {
        rx_us: words[at::RX_US],
        is_rx_adaptive: words[at::RX_ADAPTIVE] != 0,
        tx_us: words[at::TX_US],
        is_tx_adaptive: words[at::TX_ADAPTIVE] != 0,
    })
}

/// Sets it, and leaves all else of the card's coalescing as it is.
///
/// # Errors
/// As [`coalescing`]; the caller is not root; the card refuses a value.
pub fn set_coalescing(interface: &str, wanted: Coalescing) -> io::Result<()> {
    let mut words: [u32; COALESCING_WORDS] = ask(interface, GET_COALESCING)?;
    (words[at::RX_US], words[at::TX_US]) = (wanted.rx_us, wanted.tx_us);
    words[at::RX_ADAPTIVE] = wanted.is_rx_adaptive.into();
    words[at::TX_ADAPTIVE] = wanted.is_tx_adaptive.into();
    tell(interface, SET_COALESCING, words)
}

fn ask<const N: usize>(interface: &str, request: u32) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    words[0] = request;
    exchange(interface, &mut words)?;
    Ok(words)
}

fn tell<const N: usize>(interface: &str, request: u32, mut words: [u32; N]) -> io::Result<()> {
    words[0] = request;
    exchange(interface, &mut words)
}

/// Hands the kernel a request of `N` words, which it may write an answer into.
fn exchange<const N: usize>(interface: &str, words: &mut [u32; N]) -> io::Result<()> {
    // SAFETY: an all-zero ifreq is a valid value of that plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.is_empty() || interface.len() >= request.ifr_name.len() {
        let text = format!("{interface:?} is no name of an interface: they have 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // Any socket of the network namespace does.
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    // SAFETY: the descriptor is open. The name ends with a zero, since it is shorter than its room. `ifru_data` points to
    // `words`, which lives beyond the call; the kernel reads and writes the struct of the request in its first word, whose
    // length is `N` words: `GET_RINGS` and `SET_RINGS` go with `RINGS_WORDS`, the other two with `COALESCING_WORDS`.
    let result: c_int = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_card_and_a_name_is_checked() {
        assert!(rings("lo").is_err() && coalescing("nosuch7").is_err());
        let said = rings("a name far too long for it").expect_err("too long").to_string();
        assert!(said.contains("is no name of an interface"), "{said}");
        assert!(set_rings("", 1, 1).is_err());
    }
}
