//! Waking receivers that sleep.
//!
//! Each has a UNIX datagram socket beside the ring, `<ring>.w<slot>`, and the source sends it one byte. A
//! socket can be waited for together with others; its name needs no more than the directory that both see
//! anyway, in containers too, where a futex could not be waited for with sockets and an eventfd would have to
//! be passed. A full queue of the socket is as good as a byte in it.

use std::fs::{Metadata, Permissions};
use std::io;
use std::io::ErrorKind::{ConnectionRefused, NotFound, WouldBlock};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use counters::table::LbtIpcSource;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use socket2::{Domain, SockAddr, Socket, Type};

use super::layout::SLOT_COUNT;
use crate::fork::{self, Home};

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
        let socket = fork::unshare(UnixDatagram::unbound()?);
        socket.set_nonblocking(true)?;
        Ok(Waker { socket, paths: (0..SLOT_COUNT).map(|index| path(ring, index)).collect() })
    }

    /// Wakes the receivers of these slots, one bit each. One that is gone, or has bytes enough already, needs
    /// none.
    pub(super) fn wake(&self, mut slots: u64, counters: &LbtIpcSource) {
        counters.wakes_sent.add(slots.count_ones().into());
        while slots != 0 {
            let index = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Err(error) = self.socket.send_to(&[1], &self.paths[index])
                && !matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock)
            {
                counters.wakes_failed.inc();
            }
        }
    }

    /// Removes the name of a dead receiver's socket.
    pub(super) fn forget(&self, index: usize) {
        // The next receiver of the slot does so too.
        let _ = std::fs::remove_file(&self.paths[index]);
    }
}

/// A receiver's side. Dropping it removes its name.
pub(super) struct Bell {
    pub(super) socket: UnixDatagram,
    path: PathBuf,
    /// Device and inode of the name.
    named: Option<(u64, u64)>,
    home: Home,
}

impl Bell {
    /// The bell of slot `index`, whose lock the caller holds; so what has that name belongs to a dead one.
    ///
    /// Who owns the ring, and who may write it, may ring.
    pub(super) fn new(ring: &Path, index: usize, access: &Metadata) -> io::Result<Bell> {
        let path = path(ring, index);
        // Mostly there is none; one that stays is told by the bind.
        let _ = std::fs::remove_file(&path);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot bind {}: {e}", path.display()));
        let socket = fork::unshare(Socket::new(Domain::UNIX, Type::DGRAM, None)?);
        // The name gets this, less the umask.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(&SockAddr::unix(&path)?).map_err(named)?;
        let socket = UnixDatagram::from(std::os::fd::OwnedFd::from(socket));
        socket.set_nonblocking(true)?;
        // If that fails, the source cannot wake this receiver, which the source counts.
        let _ = open_to(&path, access);
        let named = found(&path);
        Ok(Bell { socket, path, named, home: Home::here() })
    }

    /// Whether somebody has removed the name: the source rings in vain then.
    pub(super) fn is_lost(&self) -> bool {
        found(&self.path) != self.named
    }

    /// Takes the bytes that have woken us.
    pub(super) fn quiet(&self) {
        let mut byte = [0; 8];
        // It ends with the last byte.
        while self.socket.recv(&mut byte).is_ok() {}
    }
}

/// What has this name.
fn found(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Lets those send to a socket who own a ring, or may write it.
fn open_to(socket: &Path, ring: &Metadata) -> io::Result<()> {
    let own = rustix::process::geteuid();
    if ring.uid() == own.as_raw() && ring.mode() & 0o060 == 0 {
        return Ok(());
    }
    // By a descriptor: the name could be another file's by now, or a link.
    let named = rustix::fs::open(socket, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = rustix::fs::fstat(&named)?;
    if !FileType::from_raw_mode(found.st_mode).is_socket() || found.st_uid != own.as_raw() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (owner, group) = (own.is_root().then(|| Uid::from_raw(ring.uid())), Gid::from_raw(ring.gid()));
    rustix::fs::chownat(&named, "", owner, Some(group), AtFlags::EMPTY_PATH)?;
    let by_number = format!("/proc/self/fd/{}", named.as_raw_fd());
    std::fs::set_permissions(by_number, Permissions::from_mode(0o600 | ring.mode() & 0o060))
}

impl Drop for Bell {
    fn drop(&mut self) {
        if !self.home.is_certain() {
            return;
        }
        // Whoever finds this receiver gone removes it as well. What else has that name by now stays.
        if !self.is_lost() {
            let _ = std::fs::remove_file(&self.path);
        }
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

    #[test]
    fn a_receiver_that_cannot_be_woken_is_counted_and_one_that_is_gone_is_not() {
        let directory = testkit::Folder::new();
        let ring = directory.join("LBTIPC_1_2");
        let (waker, counters) = (Waker::new(&ring).unwrap(), LbtIpcSource::default());
        let woken = Bell::new(&ring, 0, &std::fs::metadata(&directory).unwrap()).unwrap();
        // Slot 1 has no socket, that of slot 2 takes no datagrams.
        let _other = std::os::unix::net::UnixListener::bind(path(&ring, 2)).unwrap();
        waker.wake(0b111, &counters);
        assert_eq!((counters.wakes_sent.get(), counters.wakes_failed.get()), (3, 1));
        assert_eq!(woken.socket.recv(&mut [0; 8]).unwrap(), 1);
    }
}
