//! Faults of sockets, for tests of what is above: datagrams that are lost, late or doubled, sockets that break, and
//! one of several "processes" within one that is killed. Only with the feature `faults`, which no product is built
//! with.
//!
//! A socket breaks by having something else put in its place, under the same descriptor. Only this crate can do so
//! safely: it does it to its own sockets, which are used by system calls alone. None of its `unsafe` rests on what
//! the descriptor of a socket refers to, and a call that meets no socket is an error.

mod datagrams;
mod process;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

pub use datagrams::Faults;
pub(crate) use datagrams::SocketFaults;
pub use process::Host;

use crate::fork;
use crate::udp::UdpSocket;

/// Breaks a socket: what is received from it from then on is an error that does not pass.
///
/// # Errors
/// The process is out of descriptors.
pub fn spoil(socket: &UdpSocket) -> io::Result<()> {
    put_null(&File::open("/dev/null")?, socket.as_fd().as_raw_fd())
}

/// Puts `/dev/null` in place of a socket of this crate; any other descriptor is left alone.
fn put_null(null: &File, socket: RawFd) -> io::Result<()> {
    if !fork::is_ours(socket) {
        return Ok(());
    }
    // SAFETY: the number stays open and its owner's, who closes it as before. It is a socket of this crate, for which
    // the head of this module says that nothing rests on what it refers to.
    let result = unsafe { libc::dup3(null.as_raw_fd(), socket, libc::O_CLOEXEC) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
