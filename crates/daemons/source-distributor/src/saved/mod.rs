//! Images on disk for the next run: written by a thread of its own, read at the start.

mod file;
mod writer;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use counters::Registry;
use counters::table::SavedImages as Counters;
use market::distributor::{Distributor, DistributorSink, ProviderId, saved};
use tracing::{info, warn};
use units::Nanos;

use self::file::{Reading, Unusable, put};
use self::writer::{Order, Writer};
use crate::config::SavedImagesConfig;

/// The number of the provider that stands for saved images: beyond those of connections, and of providers that are dialled.
const PROVIDER: ProviderId = ProviderId(u32::MAX);
/// The images of so many items, or so many bytes, are copied in a turn,
const PORTION: (usize, usize) = (128, 256 << 10);
/// which come so long after each other at least: the thread has other things to do.
const PAUSE: Duration = Duration::from_millis(1);
/// The disk is behind: it is looked at again after this time.
const PATIENCE: Duration = Duration::from_millis(5);
/// So many messages, or bytes, are given back in a turn.
const RESTORED_PER_TURN: (usize, usize) = (500, 1 << 20);

/// What one source distributor saves.
pub(crate) struct SavedImages {
    interval: Duration,
    writer: Writer,
    state: State,
    /// What is given back, until all of it is.
    restore: Option<Restore>,
    /// There was something to be written once.
    had_items: bool,
    counters: Arc<Counters>,
    /// No other process uses the file while this one is open.
    _lock: File,
}

enum State {
    /// The next one begins then.
    Until(Nanos),
    /// One is being taken.
    Taking {
        begun_at: Nanos,
        /// Where the next portion begins.
        next: Option<usize>,
        /// What the writer has had no room for.
        pending: Option<Order>,
        /// The next portion is taken then.
        due: Nanos,
        messages: u64,
    },
}

struct Restore {
    reading: Reading<File>,
    has_begun: bool,
    restored: u64,
    refused: u64,
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// An error that names the file.
fn about(path: &Path, error: io::Error) -> io::Error {
    let text = format!("source_distributor.saved_images.file: {}: {error}", path.display());
    io::Error::new(error.kind(), text)
}

impl SavedImages {
    /// Opens the file if one is configured, and looks whether something is to be given back.
    ///
    /// # Errors
    /// Another process uses the file, nothing can be written beside it, or what is there is not one of ours to be replaced;
    /// the error names it. One of ours that cannot be used is as none: that is logged, and the next one replaces it.
    pub(crate) fn open(config: &SavedImagesConfig, registry: &Registry) -> io::Result<Option<SavedImages>> {
        let Some(path) = config.file.as_ref().map(PathBuf::from) else { return Ok(None) };
        let path = behind_links(&path).map_err(|error| about(&path, error))?;
        let lock_path = beside(&path, "lock");
        for each in [&path, &lock_path] {
            check_regular(each).map_err(|error| about(each, error))?;
        }
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(|error| about(&lock_path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another process saves its images there; each has a file of its own";
                return Err(about(&path, io::Error::new(io::ErrorKind::ResourceBusy, text)));
            }
            Err(TryLockError::Error(error)) => return Err(about(&lock_path, error)),
        }
        let counters = Arc::new(Counters::default());
        registry.register(&[], counters.clone());
        let restore = restorable(&path, config)?;
        let writer = Writer::start(path, config.bytes_max, Arc::clone(&counters))?;
        Ok(Some(SavedImages {
            interval: Duration::from_millis(config.interval_ms),
            writer,
            state: State::Until(Nanos::ZERO),
            restore,
            had_items: false,
            counters,
            _lock: lock,
        }))
    }

    /// Whether images are being given back: nothing is read from providers meanwhile, so that what they send is newer.
    pub(crate) fn is_restoring(&self) -> bool {
        self.restore.is_some()
    }

    /// Gives back a portion, or takes one, if it is time.
    pub(crate) fn turn(&mut self, now: Nanos, core: &mut Distributor, sink: &mut impl DistributorSink) {
        if self.restore.is_some() {
            self.restore_portion(now, core, sink);
        } else if now >= self.next_wakeup() {
            self.take_portion(now, core);
        }
    }

    /// When [`SavedImages::turn`] has something to do.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        match &self.state {
            _ if self.restore.is_some() => Nanos::ZERO,
            State::Until(due) | State::Taking { due, .. } => *due,
        }
    }

    fn restore_portion(&mut self, now: Nanos, core: &mut Distributor, sink: &mut impl DistributorSink) {
        let Some(restore) = &mut self.restore else { return };
        if !std::mem::replace(&mut restore.has_begun, true) {
            saved::begin(core, PROVIDER);
        }
        let (mut messages, mut bytes) = RESTORED_PER_TURN;
        while messages > 0 && bytes > 0 {
            let message = match restore.reading.next() {
                Ok(Some(message)) => message,
                end => {
                    if let Err(error) = end {
                        warn!(%error, "the rest of the saved images is lost");
                    }
                    saved::end(core, now, PROVIDER, sink);
                    let (restored, refused) = (restore.restored, restore.refused);
                    info!(
                        messages = restored,
                        refused, "saved images are back, suspect until they are published"
                    );
                    self.counters.messages_restored.set(restored);
                    self.restore = None;
                    self.state = State::Until(now + self.interval);
                    return;
                }
            };
            (messages, bytes) = (messages - 1, bytes.saturating_sub(message.len()));
            match saved::give_back(core, now, PROVIDER, message, sink) {
                Ok(()) => restore.restored += 1,
                Err(error) => {
                    if restore.refused == 0 {
                        warn!(message = restore.restored + 1, %error, "a saved message is refused");
                    }
                    restore.refused += 1;
                }
            }
        }
    }

    fn take_portion(&mut self, now: Nanos, core: &mut Distributor) {
        let state = std::mem::replace(&mut self.state, State::Until(now + self.interval));
        let (begun_at, mut next, pending, mut messages) = match state {
            State::Until(_) => {
                let directory = saved::directory(core);
                if directory.is_none() && !self.had_items {
                    return;
                }
                // One without items replaces the one before too: its services were withdrawn.
                self.had_items = directory.is_some();
                let mut chunk = self.writer.room();
                let next = directory.as_ref().map(|_| 0);
                directory.iter().for_each(|directory| put(&mut chunk, directory));
                let begin = Order::Begin { unix_ms: unix_ms(SystemTime::now()), chunk };
                (now, next, Some(begin), u64::from(directory.is_some()))
            }
            State::Taking { begun_at, next, pending, messages, .. } => (begun_at, next, pending, messages),
        };
        let mut order = pending;
        if order.is_none() {
            order = Some(match next {
                Some(from) => {
                    let mut chunk = self.writer.room();
                    next = saved::items(core, from, PORTION, |message| {
                        messages += 1;
                        put(&mut chunk, message);
                    });
                    Order::Append(chunk)
                }
                None => Order::End { messages },
            });
        }
        let is_end = matches!(order, Some(Order::End { .. }));
        let pending = order.and_then(|order| self.writer.give(order));
        if is_end && pending.is_none() {
            self.state = State::Until((begun_at + self.interval).max(now + PAUSE));
            return;
        }
        let due = now + if pending.is_some() { PATIENCE } else { PAUSE };
        self.state = State::Taking { begun_at, next, pending, due, messages };
    }
}

/// So many links are followed from one to the next.
const LINKS_MAX: usize = 40;

/// The file itself where a path is a link: that is replaced, not the link, which may lead to a larger disk.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::symlink_metadata(&path) {
            Ok(known) if known.is_symlink() => {
                // One that is not relative replaces all.
                path = path.parent().unwrap_or(Path::new("")).join(fs::read_link(&path)?);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the links lead nowhere"))
}

/// A device or a pipe would be replaced by a file, or hold up the start.
fn check_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => {
            let text = "what is there is no regular file: name another one, or remove it";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        _ => Ok(()),
    }
}

/// What a file has, if there is one to be used.
///
/// # Errors
/// What is there was never saved: the next one would replace somebody's data.
fn restorable(path: &Path, config: &SavedImagesConfig) -> io::Result<Option<Restore>> {
    let file = path.display();
    let opened = match File::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            info!(%file, "no saved images yet");
            return Ok(None);
        }
        Err(error) => {
            warn!(%file, %error, "saved images are not used");
            return Ok(None);
        }
    };
    let reading = match Reading::open(opened, config.bytes_max) {
        Ok(reading) => reading,
        Err(error @ Unusable::NotSaved) => {
            let text = format!("{error}, and is not replaced: name another one, or remove it");
            return Err(about(path, io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        Err(error) => {
            warn!(%file, %error, "saved images are not used");
            return Ok(None);
        }
    };
    // One of a clock that was ahead is new.
    let age_s = unix_ms(SystemTime::now()).saturating_sub(reading.unix_ms()) / 1_000;
    if age_s > config.age_max_s {
        let age_max_s = config.age_max_s;
        warn!(%file, age_s, age_max_s, "saved images are not used: they are too old (source_distributor.saved_images.age_max_s)");
        return Ok(None);
    }
    info!(%file, age_s, "saved images are given back");
    Ok(Some(Restore { reading, has_begun: false, restored: 0, refused: 0 }))
}

/// The path of a file beside another one.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}
