//! Waking receivers that sleep.
//!
//! Each has a UNIX datagram socket beside the ring, `<ring>.w<slot>`, and the source sends it one byte. A
//! socket can be waited for together with others; its name needs no more than the directory that both see
//! anyway, in containers too, where a futex could not be waited for with sockets and an eventfd would have to
//! be passed. A full queue of the socket is as good as a byte in it.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::layout::SLOT_COUNT;

/// The socket of the receiver in slot `index` of the ring at `ring`.
pub(super) fn path(ring: &Path, index: usize) -> PathBuf {
    let mut name = ring.as_os_str().to_owned();
    name.push(format!(".w{index}"));
    name.into()
}

/// The name of the ring that a socket's name belongs to.
pub(super) fn session_of(name: &str) -> Option<&str> {
    let (ring, index) = name.rsplit_once(".w")?;
    index.parse::<usize>().is_ok_and(|index| index < SLOT_COUNT).then_some(ring)
}

/// The source's side.
pub(super) struct Waker {
    socket: UnixDatagram,
    paths: Box<[PathBuf]>,
}

impl Waker {
    pub(super) fn new(ring: &Path) -> io::Result<Waker> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Waker { socket, paths: (0..SLOT_COUNT).map(|index| path(ring, index)).collect() })
    }

    /// Wakes the receivers of these slots, one bit each. Returns how many there were. One that is gone, or
    /// has bytes enough already, needs none.
    pub(super) fn wake(&self, mut slots: u64) -> u32 {
        let count = slots.count_ones();
        while slots != 0 {
            let index = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let _ = self.socket.send_to(&[1], &self.paths[index]);
        }
        count
    }

    /// Removes the name of a dead receiver's socket.
    pub(super) fn forget(&self, index: usize) {
        let _ = std::fs::remove_file(&self.paths[index]);
    }
}

/// A receiver's side. Dropping it removes its name.
pub(super) struct Bell {
    pub(super) socket: UnixDatagram,
    path: PathBuf,
}

impl Bell {
    /// The bell of slot `index`, whose lock the caller holds; so what has that name belongs to a dead one.
    pub(super) fn new(ring: &Path, index: usize) -> io::Result<Bell> {
        let path = path(ring, index);
        let _ = std::fs::remove_file(&path);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot bind {}: {e}", path.display()));
        let socket = UnixDatagram::bind(&path).map_err(named)?;
        socket.set_nonblocking(true)?;
        Ok(Bell { socket, path })
    }

    /// Takes the bytes that have woken us.
    pub(super) fn quiet(&self) {
        let mut byte = [0; 8];
        while self.socket.recv(&mut byte).is_ok() {}
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_s_name_tells_its_ring() {
        let socket = path(Path::new("/dev/shm/LBTIPC_1_2"), 63);
        assert_eq!(socket, Path::new("/dev/shm/LBTIPC_1_2.w63"));
        assert_eq!(session_of("LBTIPC_1_2.w63"), Some("LBTIPC_1_2"));
        assert_eq!(session_of("LBTIPC_1_2.w64"), None);
        assert_eq!(session_of("LBTIPC_1_2"), None);
    }
}
