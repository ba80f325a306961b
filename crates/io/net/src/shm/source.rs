//! The source of a session: a ring in a file, and what is done about its receivers now and then.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use counters::table::LbtIpcSource;
use units::Nanos;

use super::answers::{self, Answer};
use super::file::{self, SessionName};
use super::layout::{Geometry, Identity, Slot};
use super::producer::{Claim, ClaimError, Producer};
use super::slots::{self, SlotState};
use super::wake::Waker;
use super::watch::{ReaderChanges, Watch};
use crate::fork::Home;
use crate::{byte_lock, clock, owned_file};

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// The source never waits; receivers that are too slow miss messages and are told.
    Source,
    /// The source waits for the slowest receiver.
    Receiver {
        /// A receiver that reads nothing for so long while the source waits for it is dropped. `None`: never,
        /// as long as its process lives.
        drop_stopped_after: Option<Duration>,
    },
}

/// What a source is made with.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Where the file lies: a file system in memory. Sockets of receivers that sleep lie beside it.
    pub directory: PathBuf,
    /// Bytes of the ring: a power of two from 64 KiB to 16 GiB, all of it taken at once. A message may be as
    /// long as a sixteenth, less 8 bytes.
    pub ring_bytes: u64,
    /// Who waits for whom.
    pub pacing: Pacing,
    /// Permissions of the file, whatever the process's umask is. Receivers need both read and write.
    pub permissions: u32,
    /// The group of the file, of which the process must be a member. `None`: as the system has it.
    pub group: Option<u32>,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions {
            directory: PathBuf::from("/dev/shm"),
            ring_bytes: 16 << 20,
            pacing: Pacing::Source,
            permissions: 0o600,
            group: None,
        }
    }
}

/// One receiver that has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderInfo {
    /// Its process, as it says.
    pub pid: u32,
    /// Bytes published that it has not read; 0 where the source does not wait.
    pub lag_bytes: u64,
    /// Whether it was dropped, and has not noticed yet.
    pub is_dropped: bool,
}

/// The writer of one session.
pub struct Source {
    producer: Producer,
    file: File,
    path: PathBuf,
    pacing: Pacing,
    waker: Waker,
    counters: Arc<LbtIpcSource>,
    watch: Watch,
    home: Home,
}

impl Source {
    /// Makes the ring and gives it its name. What dead sources have left in the directory is removed first.
    ///
    /// # Errors
    /// The size is not allowed, there is no room, the name is another living source's, or the file system
    /// cannot make unnamed files; the error says which.
    pub fn create(name: SessionName, options: &SourceOptions) -> io::Result<Source> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidInput, e);
        let geometry = Geometry::new(options.ring_bytes).map_err(invalid)?;
        let is_receiver_paced = matches!(options.pacing, Pacing::Receiver { .. });
        let identity = Identity {
            ring_bytes: geometry.ring_bytes(),
            session_id: name.session_id,
            transport_id: name.transport_id,
            is_receiver_paced,
            source_pid: std::process::id(),
            created_ns: clock::wall_ns(),
        };
        let path = name.path(&options.directory);
        // What cannot be removed is in nobody's way.
        let _ = file::clean(&options.directory);
        let waker = Waker::new(&path)?;
        let (file, region) = file::create(&path, &identity, (options.permissions, options.group))?;
        Ok(Source {
            producer: Producer::new(Arc::new(region), is_receiver_paced),
            file,
            path,
            pacing: options.pacing,
            waker,
            counters: Arc::default(),
            watch: Watch::new(options.pacing),
            home: Home::here(),
        })
    }

    /// Room for a message of `bytes`, to be filled and committed; `tag` goes to receivers beside it. Dropping
    /// the claim gives the room back.
    ///
    /// # Errors
    /// [`ClaimError`]; what was committed before stays, and on [`ClaimError::Full`] has been published.
    #[inline]
    pub fn claim(&mut self, bytes: usize, tag: u32) -> Result<Claim<'_>, ClaimError> {
        self.producer.claim(bytes, tag)
    }

    /// Commits one message, gathered from `parts`.
    ///
    /// # Errors
    /// As for [`Source::claim`].
    #[inline]
    pub fn push(&mut self, tag: u32, parts: &[&[u8]]) -> Result<(), ClaimError> {
        let mut claim = self.producer.claim(parts.iter().map(|part| part.len()).sum(), tag)?;
        let mut rest = &mut claim[..];
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        claim.commit();
        Ok(())
    }

    /// Shows what was committed to receivers, and wakes those that sleep. Returns whether there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let is_news = self.producer.publish();
        self.wake();
        is_news
    }

    /// Whether a claim that was refused may be tried again. Costs a look at each receiver.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.producer.has_room()
    }

    /// Ends the stream behind what was committed: receivers read up to there, and then know that this is all. Nothing
    /// is to be claimed afterwards. Dropping the source does the same.
    pub fn close(&mut self) {
        if self.home.is_certain() {
            self.producer.close();
            self.wake();
        }
    }

    #[inline]
    fn wake(&mut self) {
        let slots = self.producer.take_wakes();
        if slots != 0 {
            self.waker.wake(slots, &self.counters);
        }
    }

    /// Looks after the receivers: who came and went, who died, who has stopped. To be called every 100 ms or
    /// so, and not on the path of a message: it costs a system call for each receiver.
    pub fn look_after_readers(&mut self, now: Nanos) -> ReaderChanges {
        let (file, waker) = (&self.file, &self.waker);
        let changes = self.watch.look_after(&self.producer, now, |index, slot, generation| {
            bury(file, waker, index, slot, generation)
        });
        self.wake();
        self.count(changes);
        changes
    }

    fn count(&self, changes: ReaderChanges) {
        let counters = &self.counters;
        counters.msgs_sent.set(self.producer.frames());
        counters.bytes_sent.set(self.producer.position());
        counters.send_would_block.set(self.producer.refused());
        counters.segments_skipped.set(self.producer.segments_skipped());
        counters.clients_joined.add(changes.joined.into());
        counters.clients_left.add(changes.left.into());
        counters.clients_died.add(changes.died.into());
        counters.clients_dropped.add(changes.dropped.into());
        counters.num_clients.set(self.watch.count());
    }

    /// The receivers that have a slot. Where the source does not wait, only those do that may sleep.
    pub fn readers(&self) -> impl Iterator<Item = ReaderInfo> + '_ {
        let written = self.producer.position();
        let is_paced = matches!(self.pacing, Pacing::Receiver { .. });
        slots::all(self.producer.region().control()).filter_map(move |(_, slot)| {
            let (position, is_dropped) = match slots::look(slot) {
                SlotState::Free => return None,
                SlotState::Active { position, .. } => (position, false),
                SlotState::Dropped { position, .. } => (position, true),
            };
            let lag_bytes = if is_paced { written.saturating_sub(position) } else { 0 };
            Some(ReaderInfo { pid: slots::pid(slot), lag_bytes, is_dropped })
        })
    }

    /// Takes what receivers have answered since the last time.
    pub fn take_answers(&mut self, each: impl FnMut(Answer)) {
        answers::take(self.producer.region().control(), each);
    }

    /// The longest message, bytes.
    #[must_use]
    pub fn message_max_bytes(&self) -> usize {
        self.producer.message_max_bytes()
    }

    /// What it counts: wake-ups at once, the rest when [`Source::look_after_readers`] is called.
    #[must_use]
    pub fn counters(&self) -> &Arc<LbtIpcSource> {
        &self.counters
    }

    /// Bytes of the stream so far, headers and padding included.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.producer.position()
    }

    /// Whether the file still has a name. One that somebody has removed goes on for the receivers that have opened it, and
    /// no other can.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() > 0)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
impl Source {
    /// Leaves it as one does whose process is killed.
    pub(crate) fn lose(mut self) {
        self.home = Home::elsewhere();
    }
}

impl Drop for Source {
    /// Ends the stream: receivers get what was committed, then the end. The file loses its name. In a child made by
    /// `fork` nothing happens.
    fn drop(&mut self) {
        if !self.home.is_certain() {
            return;
        }
        self.close();
        self.count(ReaderChanges::default());
        // Whoever finds this source gone removes what stays.
        let _ = owned_file::remove(&self.file, &self.path);
    }
}

/// Frees the slot of a dead receiver and removes its socket's name. Returns whether it was dead. Who does so
/// holds the slot's lock: the next owner's socket has the same name.
fn bury(file: &File, waker: &Waker, index: usize, slot: &Slot, generation: u64) -> bool {
    let lock = file::slot_lock(index);
    // A file system that knows no locks has refused the ring's own, when it was made.
    let is_dead = byte_lock::is_locked(file, lock).is_ok_and(|is_held| !is_held)
        && byte_lock::try_lock(file, lock).unwrap_or(false);
    if !is_dead {
        return false;
    }
    let is_freed = slots::reclaim(slot, generation);
    if is_freed {
        waker.forget(index);
    }
    // It cannot fail, and if it did, this slot would stay empty.
    let _ = byte_lock::unlock(file, lock);
    is_freed
}
