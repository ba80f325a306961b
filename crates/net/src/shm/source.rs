//! The source of a session: a ring in a file, and what is done about its receivers now and then.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use counters::table::LbtIpcSource;
use units::Nanos;

use super::file::{self, SessionName};
use super::layout::{Geometry, Identity, SLOT_COUNT};
use super::producer::{Claim, ClaimError, Producer};
use super::slots::{self, SlotState};
use super::wake::Waker;
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
    /// Permissions of the file, less the process's umask. Receivers need both read and write.
    pub permissions: u32,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions {
            directory: PathBuf::from("/dev/shm"),
            ring_bytes: 16 << 20,
            pacing: Pacing::Source,
            permissions: 0o660,
        }
    }
}

/// How the receivers have changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderChanges {
    /// Now there that were not.
    pub joined: u32,
    /// No longer there: left in order, or found dead.
    pub left: u32,
    /// Of those that left, found dead.
    pub died: u32,
    /// Dropped because they had stopped.
    pub dropped: u32,
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

/// What the source remembers of a slot.
#[derive(Clone, Copy, Default)]
struct Watch {
    generation: u64,
    is_there: bool,
    position: u64,
    moved_at: Nanos,
}

/// The writer of one session.
pub struct Source {
    producer: Producer,
    file: File,
    path: PathBuf,
    pacing: Pacing,
    waker: Waker,
    counters: Arc<LbtIpcSource>,
    watches: Box<[Watch; SLOT_COUNT]>,
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
        let (file, region) = file::create(&path, &identity, options.permissions)?;
        Ok(Source {
            producer: Producer::new(Arc::new(region), is_receiver_paced),
            file,
            path,
            pacing: options.pacing,
            waker,
            counters: Arc::default(),
            watches: Box::new([Watch::default(); SLOT_COUNT]),
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

    #[inline]
    fn wake(&mut self) {
        let slots = self.producer.take_wakes();
        if slots != 0 {
            self.counters.wakes_sent.add(self.waker.wake(slots).into());
        }
    }

    /// Looks after the receivers: who came and went, who died, who has stopped. To be called every 100 ms or
    /// so, and not on the path of a message: it costs a system call for each receiver.
    pub fn look_after_readers(&mut self, now: Nanos) -> ReaderChanges {
        let mut changes = ReaderChanges::default();
        for index in 0..SLOT_COUNT {
            self.look_after(index, now, &mut changes);
        }
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
        counters.num_clients.set(self.watches.iter().filter(|watch| watch.is_there).count() as u64);
    }

    fn look_after(&mut self, index: usize, now: Nanos, changes: &mut ReaderChanges) {
        let region = Arc::clone(self.producer.region());
        let slot = &region.control().slots[index];
        let was = self.watches[index];
        let (generation, position, is_dropped) = match slots::look(slot) {
            SlotState::Free => {
                changes.left += u32::from(was.is_there);
                self.watches[index].is_there = false;
                return;
            }
            SlotState::Active { generation, position } => (generation, position, false),
            SlotState::Dropped { generation, position } => (generation, position, true),
        };
        if was.generation != generation || !was.is_there {
            changes.left += u32::from(was.is_there);
            changes.joined += 1;
        }
        let is_dead = byte_lock::is_locked(&self.file, file::slot_lock(index)).is_ok_and(|is_held| !is_held);
        if is_dead && slots::reclaim(slot, generation) {
            self.waker.forget(index);
            self.watches[index] = Watch { generation, ..Watch::default() };
            changes.left += 1;
            changes.died += 1;
            return;
        }
        let is_same = was.is_there && was.generation == generation && was.position == position;
        let moved_at = if is_same && self.producer.is_held_up_by(position) { was.moved_at } else { now };
        self.watches[index] = Watch { generation, is_there: true, position, moved_at };
        if let Pacing::Receiver { drop_stopped_after: Some(limit) } = self.pacing
            && !is_dropped
            && now.since(moved_at) >= limit
            && slots::drop_reader(slot, generation)
        {
            changes.dropped += 1;
        }
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

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Source {
    /// Ends the stream: receivers get what was committed, then the end. The file loses its name.
    fn drop(&mut self) {
        self.producer.close();
        self.wake();
        self.count(ReaderChanges::default());
        let _ = owned_file::remove(&self.file, &self.path);
    }
}
