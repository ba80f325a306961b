use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lbt::rm::SendError;
use net::clock;
use net::ring::{self, Consumer, Producer, PushError};

use super::{Bell, CallError};
use crate::{Context, SendFlags, Source};

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// The context's thread has not made room yet, because the transport refuses more or there is too much to
    /// do. Nothing was taken.
    WouldBlock,
    /// Longer than the ring between the threads takes at once: raise `source_queue_bytes` to four times its
    /// length.
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The most that is taken.
        max: usize,
    },
    /// The context's thread has ended.
    Stopped,
    /// The context is one of the process that this one was forked from; a child makes its own.
    Forked,
    /// It would wait on the context's own thread, in a handler, for room that this very thread makes. Nothing was
    /// taken; [`EmbeddedSource::send`] does not wait.
    OwnThread,
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueError::WouldBlock => f.write_str("the ring to the context's thread is full"),
            QueueError::TooLong { bytes, max } => write!(
                f,
                "a message of {bytes} bytes is above the {max} that go through the ring to the context's \
                 thread: raise source_queue_bytes"
            ),
            QueueError::Stopped => f.write_str("the context's thread has ended"),
            QueueError::Forked => SendError::Forked.fmt(f),
            QueueError::OwnThread => CallError::OwnThread.fmt(f),
        }
    }
}

impl std::error::Error for QueueError {}

/// A source of a context with a thread of its own. One thread at a time sends with it, any one. The topic
/// ends when it is dropped.
pub struct EmbeddedSource {
    ring: Producer,
    bell: Arc<Bell>,
    is_gone: Arc<AtomicBool>,
    source: Source,
}

/// The other end of it, on the context's thread.
pub(super) struct Feed {
    ring: Consumer,
    is_gone: Arc<AtomicBool>,
    source: Source,
    /// A message that was taken out of the ring and refused by the transport, and its number.
    refused: Vec<u8>,
    is_refused: bool,
    number: Option<u64>,
}

/// Waits of who waits for room in a ring.
const WAIT_MIN: Duration = Duration::from_micros(20);
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Messages taken from one ring in a turn.
const MESSAGES_PER_TURN: usize = 256;

pub(super) fn pair(source: Source, bytes: usize, bell: Arc<Bell>) -> (EmbeddedSource, Feed) {
    let (producer, consumer) = ring::ring(bytes);
    let is_gone = Arc::new(AtomicBool::new(false));
    let refused = Vec::with_capacity(producer.message_max_bytes());
    let feed =
        Feed { ring: consumer, is_gone: is_gone.clone(), source, refused, is_refused: false, number: None };
    (EmbeddedSource { ring: producer, bell, is_gone, source }, feed)
}

impl EmbeddedSource {
    /// Appends a message, gathered from `parts`; it goes to the context's thread with
    /// [`EmbeddedSource::flush`]. A message that is accepted while another thread stops the context leaves, or
    /// [`EmbeddedContext::stop`](crate::EmbeddedContext::stop) counts it among those that did not.
    ///
    /// # Errors
    /// [`QueueError`]. A message that the transport can never take (longer than `maximum_message_size`) is
    /// dropped by the context's thread and counted there.
    #[inline]
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), QueueError> {
        if !self.bell.home.is_here() {
            return Err(QueueError::Forked);
        }
        let pushed = self.ring.push(parts);
        self.told(pushed)
    }

    /// Appends a message that other sources of the topic send as well, under the same `number`; see
    /// [`Context::send_hot_failover`](crate::Context::send_hot_failover).
    ///
    /// # Errors
    /// As [`EmbeddedSource::send`].
    #[inline]
    pub fn send_hot_failover(&mut self, number: u64, parts: &[&[u8]]) -> Result<(), QueueError> {
        if !self.bell.home.is_here() {
            return Err(QueueError::Forked);
        }
        let pushed = self.ring.push_numbered(number, parts);
        self.told(pushed)
    }

    /// What the ring has said.
    #[inline]
    fn told(&mut self, pushed: Result<(), PushError>) -> Result<(), QueueError> {
        match pushed {
            Ok(()) => Ok(()),
            Err(PushError::Full) => {
                self.flush();
                Err(QueueError::WouldBlock)
            }
            Err(PushError::Closed) => Err(QueueError::Stopped),
            Err(PushError::TooLong { bytes, max }) => Err(QueueError::TooLong { bytes, max }),
        }
    }

    /// Hands what was sent to the context's thread, and wakes it if it sleeps.
    #[inline]
    pub fn flush(&mut self) {
        if self.ring.publish() {
            self.bell.ring();
        }
    }

    /// The same, but waits for room, for `timeout` at most.
    ///
    /// # Errors
    /// As [`EmbeddedSource::send`]; [`QueueError::WouldBlock`] when the time is over, and [`QueueError::OwnThread`] for
    /// a handler on the context's thread, whether there is room or not.
    pub fn send_wait(&mut self, parts: &[&[u8]], timeout: Duration) -> Result<(), QueueError> {
        if self.bell.home.is_here() && self.bell.is_own_thread() {
            return Err(QueueError::OwnThread);
        }
        let until = clock::monotonic().after(timeout);
        let mut turn = WAIT_MIN;
        loop {
            match self.send(parts) {
                Err(QueueError::WouldBlock) if clock::monotonic() < until => {
                    std::thread::sleep(turn);
                    turn = (turn * 2).min(WAIT_MAX);
                }
                result => return result,
            }
        }
    }

    /// Bytes that wait in the ring, headers included. Those that are there when the thread has ended did not
    /// leave; [`EmbeddedContext::stop`](crate::EmbeddedContext::stop) counts their messages.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.ring.depth_bytes()
    }

    /// The handle that the context's thread knows it by, as in
    /// [`Handler::on_source_event`](crate::Handler::on_source_event).
    #[must_use]
    pub fn handle(&self) -> Source {
        self.source
    }
}

impl Drop for EmbeddedSource {
    fn drop(&mut self) {
        self.ring.publish();
        self.is_gone.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl Feed {
    /// Moves messages into the context, as many as it takes; tells whether there were any.
    pub(super) fn empty_into(&mut self, context: &mut Context) -> bool {
        if self.is_refused {
            if !hand_on(context, self.source, self.number, &self.refused) {
                return false;
            }
            self.is_refused = false;
        }
        let Feed { ring, source, refused, is_refused, number: of_refused, .. } = self;
        let mut count = 0;
        while count < MESSAGES_PER_TURN && !*is_refused {
            let taken = ring.drain_numbered(1, |number, message| {
                if !hand_on(context, *source, number, message) {
                    refused.clear();
                    refused.extend_from_slice(message);
                    (*is_refused, *of_refused) = (true, number);
                }
            });
            if taken == 0 {
                break;
            }
            count += taken;
        }
        count > 0
    }

    /// Accepts nothing more, and takes what was not flushed as well from now on: the thread is to stop, and nobody
    /// can flush it later.
    pub(super) fn close(feeds: &mut [Feed]) {
        ring::close(feeds.iter_mut().map(|feed| &mut feed.ring));
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty() && !self.is_refused
    }

    /// How many messages wait here. Looks at each.
    pub(super) fn waiting(&self) -> u64 {
        self.ring.count() + u64::from(self.is_refused)
    }

    /// Drops what waits here; tells how many messages that were.
    pub(super) fn take_rest(&mut self) -> u64 {
        let refused = u64::from(std::mem::take(&mut self.is_refused));
        refused + self.ring.drain(usize::MAX, |_| {}) as u64
    }

    /// Whether the application has dropped its end and everything was sent; the topic then ends.
    pub(super) fn is_over(&mut self, context: &mut Context) -> bool {
        let is_over = self.is_gone.load(Ordering::Acquire) && self.ring.is_empty() && !self.is_refused;
        if is_over {
            context.delete_source(self.source);
        }
        is_over
    }
}

impl Drop for Feed {
    /// A thread that panics closes nothing; sends say so.
    fn drop(&mut self) {
        self.ring.abandon();
    }
}

/// Sends a message; false if the transport refuses it for now. What it can never take is dropped.
#[inline]
fn hand_on(context: &mut Context, source: Source, number: Option<u64>, message: &[u8]) -> bool {
    let sent = match number {
        None => context.send(source, &[message]),
        Some(number) => context.send_hot_failover(source, number, SendFlags::default(), &[message]),
    };
    match sent {
        Ok(_) => true,
        Err(SendError::WouldBlock) => false,
        Err(_) => {
            context.counters().context.sends_dropped.inc();
            true
        }
    }
}
