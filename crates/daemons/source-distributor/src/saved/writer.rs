//! The thread that saves images: disks may be slow, full or gone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;

use counters::table::SavedImages as Counters;
use tracing::{info, warn};

use super::beside;
use super::file::Writing;

/// So many orders wait at most, each of some hundred KiB, or of one image if that is longer.
const ORDERS_MAX: usize = 4;

/// What the thread is to do.
pub(super) enum Order {
    /// A new file begins, with these messages.
    Begin { unix_ms: u64, chunk: Vec<u8> },
    /// These follow.
    Append(Vec<u8>),
    /// There were so many: it replaces the one before.
    End { messages: u64 },
}

/// The way to the thread, which nobody waits for.
pub(super) struct Writer {
    orders: SyncSender<Order>,
    used: Receiver<Vec<u8>>,
}

impl Writer {
    /// Starts the thread. It ends when this is dropped, and leaves no half of a file then.
    pub(super) fn start(path: PathBuf, bytes_max: u64, counters: Arc<Counters>) -> io::Result<Writer> {
        let (orders, from_owner) = sync_channel(ORDERS_MAX);
        let (to_owner, used) = sync_channel(ORDERS_MAX);
        let disk =
            Disk { new: beside(&path, "new"), path, bytes_max, counters, writing: None, has_failed: false };
        thread::Builder::new().name("saved-images".to_owned()).spawn(move || {
            net::affinity::step_aside();
            disk.run(&from_owner, &to_owner)
        })?;
        Ok(Writer { orders, used })
    }

    /// Room for messages, empty.
    pub(super) fn room(&self) -> Vec<u8> {
        match self.used.try_recv() {
            Ok(mut room) => {
                room.clear();
                room
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Vec::new(),
        }
    }

    /// Hands an order over; gives it back if the disk is behind.
    pub(super) fn give(&self, order: Order) -> Option<Order> {
        match self.orders.try_send(order) {
            Ok(()) => None,
            Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => Some(order),
        }
    }
}

/// The state of the thread.
struct Disk {
    path: PathBuf,
    /// What is written until it is whole.
    new: PathBuf,
    bytes_max: u64,
    counters: Arc<Counters>,
    /// None while nothing is written, or the present one has failed.
    writing: Option<Writing<File>>,
    /// The last one has failed: that is said once.
    has_failed: bool,
}

impl Disk {
    fn run(mut self, orders: &Receiver<Order>, to_owner: &SyncSender<Vec<u8>>) {
        for order in orders {
            let used = match order {
                Order::Begin { unix_ms, chunk } => {
                    let begun = self.begin(unix_ms);
                    let begun = begun.and_then(|mut writing| writing.append(&chunk).map(|()| writing));
                    self.writing = self.checked(begun);
                    chunk
                }
                Order::Append(chunk) => {
                    if let Some(mut writing) = self.writing.take() {
                        let appended = writing.append(&chunk).map(|()| writing);
                        self.writing = self.checked(appended);
                    }
                    chunk
                }
                Order::End { messages } => {
                    if let Some(writing) = self.writing.take() {
                        let ended = self.end(writing, messages);
                        if let Some(bytes) = self.checked(ended) {
                            self.succeeded(messages, bytes);
                        }
                    }
                    continue;
                }
            };
            // Without room at the owner's it is freed here.
            _ = to_owner.try_send(used);
        }
        if self.writing.take().is_some() {
            _ = fs::remove_file(&self.new);
        }
    }

    fn begin(&self, unix_ms: u64) -> io::Result<Writing<File>> {
        // What an earlier run or somebody else has left there may be a link, or readable by others.
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&self.new)?;
        Writing::begin(file, self.bytes_max, unix_ms)
    }

    /// The whole file is on the disk before it replaces the one before.
    fn end(&self, writing: Writing<File>, messages: u64) -> io::Result<u64> {
        let (file, bytes) = writing.end(messages)?;
        file.sync_all()?;
        fs::rename(&self.new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(bytes)
    }

    /// What was done, unless that has failed.
    fn checked<T>(&mut self, done: io::Result<T>) -> Option<T> {
        let error = match done {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        self.counters.failures.inc();
        if !std::mem::replace(&mut self.has_failed, true) {
            let file = self.path.display();
            warn!(%file, %error, "images cannot be saved, the file from before stays; it is tried again and again");
        }
        // What was written takes room, which others may lack.
        _ = fs::remove_file(&self.new);
        None
    }

    fn succeeded(&mut self, messages: u64, bytes: u64) {
        let Counters { written, messages: last_messages, bytes: last_bytes, .. } = &*self.counters;
        written.inc();
        last_messages.set(messages);
        last_bytes.set(bytes);
        if std::mem::replace(&mut self.has_failed, false) {
            info!(file = %self.path.display(), "images are saved again");
        }
    }
}
