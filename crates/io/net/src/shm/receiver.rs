//! A receiver of a session.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use counters::table::LbtIpcReceiver;

use super::answers::{self, Answer};
use super::file::{self, SessionName};
use super::layout::{Identity, LayoutError, SLOT_COUNT};
use super::reader::{Frame, Place, ReadError, Reader};
use super::region::Region;
use super::sleep::{self, UNNOTICED_SLEEP_MAX, Wait};
use super::slots;
use super::sync::Acquire;
use super::wake::Bell;
use crate::fork::Home;
use crate::{byte_lock, owned_file, user};

/// Why a session was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such session, or its source is dead.
    Ended,
    /// The file cannot be opened, locked or mapped.
    Io(io::Error),
    /// The file is not a ring, or not this one.
    Layout(LayoutError),
    /// The file belongs to neither this user, nor root, nor a group of its, or everybody may write it. Who may
    /// write it could shorten it, which ends its readers.
    Untrusted {
        /// Its user.
        owner: u32,
        /// Its permissions.
        permissions: u32,
    },
    /// This user may not read and write the file. Its source says who may.
    Denied {
        /// The file.
        path: PathBuf,
        /// This process's user.
        user: u32,
        /// The file's user.
        owner: u32,
        /// Its group.
        group: u32,
        /// Its permissions.
        permissions: u32,
    },
    /// As many receivers as a ring can have are there.
    NoSlot {
        /// That many.
        max: usize,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Ended => f.write_str("there is no such session any more"),
            OpenError::Io(e) => e.fmt(f),
            OpenError::Layout(e) => e.fmt(f),
            OpenError::Untrusted { owner, permissions } => write!(
                f,
                "its owner is user {owner}, its permissions are {permissions:o}: it must be this user's, root's or \
                 this group's, and not writable by everybody"
            ),
            OpenError::Denied { path, user, owner, group, permissions } => write!(
                f,
                "user {} may not read and write {}: its owner is user {}, its group is {group}, its permissions are \
                 {permissions:o} (the source's ipc.group says who may)",
                user::user(*user),
                path.display(),
                user::user(*owner)
            ),
            OpenError::NoSlot { max } => write!(f, "{max} receivers are there, as many as a ring can have"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(e: io::Error) -> OpenError {
        if e.kind() == io::ErrorKind::NotFound { OpenError::Ended } else { OpenError::Io(e) }
    }
}

impl From<LayoutError> for OpenError {
    fn from(e: LayoutError) -> OpenError {
        OpenError::Layout(e)
    }
}

/// A slot of the ring, given back when dropped.
struct Seat {
    region: Arc<Region>,
    index: usize,
    word: u64,
    home: Home,
}

impl Seat {
    /// The first slot that nobody holds. The lock goes with `file`.
    fn take(file: &File, region: &Arc<Region>) -> Result<(Seat, u64), OpenError> {
        for index in 0..SLOT_COUNT {
            if byte_lock::try_lock(file, file::slot_lock(index))? {
                let (word, start) = slots::join(region.control(), index, std::process::id());
                return Ok((Seat { region: Arc::clone(region), index, word, home: Home::here() }, start));
            }
        }
        Err(OpenError::NoSlot { max: SLOT_COUNT })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.home.is_certain() {
            slots::leave(self.region.control(), self.index, self.word);
        }
    }
}

/// One reader of one session.
pub struct Receiver {
    reader: Reader,
    counters: Arc<LbtIpcReceiver>,
    bell: Option<Bell>,
    seat: Option<Seat>,
    path: PathBuf,
    /// Holds the lock of the slot; closed last.
    file: File,
}

impl Receiver {
    /// Opens a session. The first message is the next one published.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: SessionName, directory: &Path) -> Result<Receiver, OpenError> {
        let path = name.path(directory);
        let file = owned_file::open_existing(&path).map_err(|error| denied(error, &path))?;
        let identity = check(&file, name)?;
        if !owned_file::is_owned(&file)? {
            owned_file::reclaim(&path)?;
            return Err(OpenError::Ended);
        }
        let region = Arc::new(file::map(&file, &identity, false)?);
        let (seat, place, start) = if identity.is_receiver_paced {
            let (seat, start) = Seat::take(&file, &region)?;
            let place = Place::Slot { index: seat.index, word: seat.word };
            (Some(seat), place, start)
        } else {
            (None, Place::copies(region.geometry()), region.control().published.0.load(Acquire))
        };
        let reader = Reader::new(region, place, start);
        Ok(Receiver { reader, counters: Arc::default(), bell: None, seat, path, file })
    }

    /// Hands up to `max` messages to `handle`, oldest first, without waiting. Returns how many there were.
    ///
    /// # Errors
    /// [`ReadError`], told after every message that comes before.
    #[inline]
    pub fn poll(&mut self, max: usize, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError> {
        let before = self.reader.position();
        let polled = self.reader.poll(max, handle);
        match polled {
            Ok(0) => {}
            Ok(count) => {
                self.counters.msgs_rcved.add(count as u64);
                self.counters.bytes_rcved.add(self.reader.position() - before);
            }
            Err(error) => self.count(error),
        }
        polled
    }

    #[cold]
    fn count(&self, error: ReadError) {
        let counters = &self.counters;
        match error {
            ReadError::Lapped(missed) => {
                counters.lapped.inc();
                counters.bytes_missed.add(missed.bytes);
                counters.msgs_missed.add(missed.messages.unwrap_or(0));
            }
            ReadError::Dropped => counters.dropped.raise(1),
            ReadError::Nonsense { .. } => counters.nonsense.raise(1),
        }
    }

    /// Answers the source, which looks at it when it has asked. False if there is no place for it now.
    pub fn answer(&mut self, answer: Answer) -> bool {
        answers::put(self.reader.region().control(), answer)
    }

    /// What it counts.
    #[must_use]
    pub fn counters(&self) -> &Arc<LbtIpcReceiver> {
        &self.counters
    }

    /// Bytes of the stream before the next message, headers and padding included.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Whether the stream is over and everything was read: the source has ended it, or is dead. To be called
    /// every quarter of a second or so: it costs a system call.
    ///
    /// When the source is dead, the file is removed.
    pub fn is_over(&mut self) -> bool {
        let is_closed = self.has_closed();
        // A file system that knows no locks has no rings.
        let is_over = is_closed || owned_file::is_owned(&self.file).is_ok_and(|held| !held);
        if !is_over || self.reader.has_more() {
            return false;
        }
        if !is_closed {
            // Another receiver may do so, or the next source.
            let _ = owned_file::reclaim(&self.path);
        }
        true
    }

    /// Whether the source has ended the stream itself. A stream that [is over](Receiver::is_over) without that
    /// is one whose source has died.
    #[must_use]
    pub fn has_closed(&self) -> bool {
        self.reader.has_closed()
    }

    /// Gets ready to sleep, so that [`Receiver::before_sleep`] may be used; returns what to wait for. Takes a
    /// slot where it has none yet.
    ///
    /// # Errors
    /// No slot is free, or the socket cannot be made; the directory's name may be too long for one.
    pub fn enable_sleep(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if self.bell.is_none() {
            if self.seat.is_none() {
                self.seat = Some(Seat::take(&self.file, self.reader.region())?.0);
            }
            if let Some(seat) = &self.seat {
                self.bell = Some(Bell::new(&self.path, seat.index, &self.file.metadata()?)?);
                sleep::want_wakes(self.reader.region().control());
            }
        }
        match &self.bell {
            Some(bell) => Ok(bell.socket.as_fd()),
            None => Err(OpenError::NoSlot { max: SLOT_COUNT }),
        }
    }

    /// Whether [`Receiver::enable_sleep`] has made what the source rings.
    #[must_use]
    pub fn has_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Whether somebody has removed the name of what the source rings, so that it is to be made anew by
    /// [`Receiver::enable_sleep`]. Costs a system call.
    pub fn has_lost_bell(&mut self) -> bool {
        let is_lost = self.bell.as_ref().is_some_and(Bell::is_lost);
        if is_lost {
            self.bell = None;
            self.counters.bells_lost.inc();
        }
        is_lost
    }

    /// Says that this receiver is about to sleep. After waking, and after [`Wait::Ready`] too, comes
    /// [`Receiver::after_sleep`].
    pub fn before_sleep(&mut self) -> Wait {
        match (&self.seat, &self.bell) {
            (Some(seat), Some(_)) => sleep::before_sleep(&self.reader, seat.index),
            _ if self.reader.has_more() => Wait::Ready,
            _ => Wait::SleepAtMost(UNNOTICED_SLEEP_MAX),
        }
    }

    /// Says that this receiver is awake.
    pub fn after_sleep(&mut self) {
        if let (Some(seat), Some(bell)) = (&self.seat, &self.bell) {
            sleep::after_sleep(self.reader.region().control(), seat.index);
            bell.quiet();
        }
    }
}

/// Why the file cannot be opened.
fn denied(error: io::Error, path: &Path) -> OpenError {
    let found = match fs::symlink_metadata(path) {
        Ok(found) if error.kind() == io::ErrorKind::PermissionDenied => found,
        _ => return error.into(),
    };
    OpenError::Denied {
        path: path.to_owned(),
        user: rustix::process::geteuid().as_raw(),
        owner: found.uid(),
        group: found.gid(),
        permissions: found.mode() & 0o7777,
    }
}

/// Whether this process is a member of a group.
fn is_member(group: u32) -> bool {
    let of = |known: rustix::process::Gid| known.as_raw() == group;
    of(rustix::process::getegid()) || rustix::process::getgroups().is_ok_and(|all| all.into_iter().any(of))
}

fn check(file: &File, name: SessionName) -> Result<Identity, OpenError> {
    let found = file.metadata()?;
    let owner = found.uid();
    let ours = [0, rustix::process::geteuid().as_raw()];
    if !(ours.contains(&owner) || is_member(found.gid())) || found.mode() & 0o002 != 0 {
        return Err(OpenError::Untrusted { owner, permissions: found.mode() & 0o7777 });
    }
    let mut start = [0; Identity::BYTES];
    let have = file.read_at(&mut start, 0)?;
    let identity = Identity::parse(&start[..have], found.len())?;
    let Identity { session_id, transport_id, .. } = identity;
    if (SessionName { session_id, transport_id }) != name {
        return Err(LayoutError::OtherSession { session_id, transport_id }.into());
    }
    Ok(identity)
}
