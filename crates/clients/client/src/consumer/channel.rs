//! A consumer in a thread of its own.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use net::{Token, Waker, clock};

use super::queue::{Bounds, EventQueue};
use super::{Consumer, ItemHandle, ItemRequestSpec, OwnedEvent, QueueStats, SubscribeError};
use crate::{QueueConfig, WhenFull};

/// The socket has token 0.
const WAKER: Token = Token(1);

/// A consumer that works in a thread of its own and hands its events over; made by
/// [`Consumer::into_channel`] or [`Consumer::into_channel_with`].
///
/// The queue is bounded, in events and in bytes. What happens when the application takes less than comes is its
/// choice:
///
/// | [`WhenFull`] | at the bound | the application | the server |
/// |---|---|---|---|
/// | `Block` | the thread reads no more until half is taken | gets every event, late | sees a slow consumer, and does what it does with those: conflate, or disconnect |
/// | `Conflate` | updates are merged into the image of their item | gets the newest value of each field or map entry that has changed, in the order in which items changed first; statuses, images and all else one by one | sees nothing, unless twice the bound waits |
/// | `Fail` | the session ends | gets what came up to there, then [`OwnedEvent::QueueFull`] | sees a logout |
///
/// (What one read completes is still queued, so that more can wait, as much as a read buffer and a frame hold.)
/// While the thread does not read, it sends its pings, and neither silence nor a missing answer is held against the
/// server. If the connection ends meanwhile, the next one is made when there is room.
///
/// # Merged updates
///
/// An event that stands for several updates says so ([`OwnedItemEvent::merged`](crate::OwnedItemEvent::merged)):
/// for how many, and how long the first has waited. It is an update, or an image if an update cannot say the changes
/// (of a large map, say). Not merged are updates that say so, such as have a payload other than a field list or a map
/// of the kind of their image, those of private streams, and all while there is no dictionary. They come one by one,
/// each behind the newest values of its item. [`ConsumerChannel::stats`] counts all of it. Merging keeps an image of each
/// item, in addition to those of [`ConsumerConfig::keep_images`](crate::ConsumerConfig::keep_images), from the item's
/// next image on.
///
/// When this is dropped, the thread closes the connection and ends.
pub struct ConsumerChannel {
    shared: Arc<Shared>,
    calls: Sender<Call>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What is to be done in the thread.
type Call = Box<dyn FnOnce(&mut Consumer) + Send>;

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

struct Queue {
    events: EventQueue,
    /// The thread waits for room.
    is_full: bool,
    /// The thread is to end.
    is_closing: bool,
    /// The thread has ended: nothing more comes.
    is_closed: bool,
}

impl Consumer {
    /// Moves the consumer into a thread that queues its events, `capacity` of them. When so many wait it reads no more
    /// until half of them are taken.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub fn into_channel(self, capacity: usize) -> io::Result<ConsumerChannel> {
        self.queueing(Bounds {
            when_full: WhenFull::Block,
            events_max: capacity.clamp(1, usize::MAX / 4),
            bytes_max: usize::MAX / 4,
        })
    }

    /// Moves the consumer into a thread that queues its events, and does as `config` says when the application takes
    /// less than comes.
    ///
    /// ```no_run
    /// use tickcast_client::{Consumer, OwnedEvent, QueueConfig, WhenFull};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut consumer = Consumer::connect("localhost:14002")?;
    /// consumer.subscribe("BINANCE", "BTCUSDT")?;
    /// let queue = QueueConfig { when_full: WhenFull::Conflate, events_max: 1_000, ..QueueConfig::default() };
    /// let channel = consumer.into_channel_with(&queue)?;
    /// for event in &channel {
    ///     if let OwnedEvent::Item(item) = &event
    ///         && let Some(merged) = item.merged
    ///     {
    ///         println!("{} of {}", merged.updates, channel.stats().updates_in);
    ///     }
    ///     println!("{event}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a bound out of its range, which is named; else the system has no thread or
    /// no descriptor left.
    pub fn into_channel_with(self, config: &QueueConfig) -> io::Result<ConsumerChannel> {
        config.check_ranges().map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        self.queueing(Bounds {
            when_full: config.when_full,
            events_max: config.events_max as usize,
            bytes_max: config.bytes_max as usize,
        })
    }

    fn queueing(mut self, bounds: Bounds) -> io::Result<ConsumerChannel> {
        let (calls, to_do) = mpsc::channel();
        let mut events = EventQueue::new(bounds);
        let now = clock::monotonic();
        std::mem::take(&mut self.waiting).into_iter().for_each(|event| events.push_owned(now, event));
        if events.merges() {
            self.core().note_ended();
        }
        let merges = events.merges();
        let queue = Queue { events, is_full: false, is_closing: false, is_closed: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), filled: Condvar::new() });
        let (parts, of_thread) = (self.into_parts(), Arc::clone(&shared));
        // A poller stays in the thread that has made it, so that the thread makes it, and says how it is
        // woken.
        let (started, waker) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("tickcast-consumer".to_owned()).spawn(move || {
            let consumer = Consumer::from_parts(parts)?;
            let waker = Waker::new(consumer.registrar(), WAKER)?;
            // Nobody waits for it any more if `into_channel` has failed, which it cannot after the spawn.
            let _ = started.send(waker.clone());
            Worker { consumer, to_do, shared: of_thread, waker, merges }.run()
        })?;
        match waker.recv() {
            Ok(waker) => Ok(ConsumerChannel { shared, calls, waker, thread: Some(thread) }),
            Err(_) => {
                Err(thread.join().map_or_else(|_| panicked(), |ended| ended.err().unwrap_or_else(panicked)))
            }
        }
    }
}

fn panicked() -> io::Error {
    io::Error::other("the consumer's thread has panicked")
}

impl ConsumerChannel {
    /// The next event; waits for it. `None` after the end of the thread.
    #[must_use]
    pub fn recv(&self) -> Option<OwnedEvent> {
        self.take(None)
    }

    /// The next event; waits for it for at most `timeout`.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<OwnedEvent> {
        self.take(Instant::now().checked_add(timeout))
    }

    /// The next event if there is one.
    #[must_use]
    pub fn try_recv(&self) -> Option<OwnedEvent> {
        self.take(Some(Instant::now()))
    }

    /// Events that wait, and items whose changes do.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().events.len()
    }

    /// What waits, what was merged, how often reading has stopped.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.shared.lock().events.stats()
    }

    /// Whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Subscribes an item; see [`Consumer::subscribe_with`]. `None` if the thread has ended.
    pub fn subscribe(&self, spec: &ItemRequestSpec<'_>) -> Option<Result<ItemHandle, SubscribeError>> {
        let (service, name, view) = (spec.service.to_owned(), spec.name.to_owned(), spec.view.clone());
        let rest = ItemRequestSpec { service: "", name: "", view: None, ..*spec };
        self.call(move |consumer| {
            consumer.subscribe_with(&ItemRequestSpec { service: &service, name: &name, view, ..rest })
        })
    }

    /// Ends an item; see [`Consumer::unsubscribe`]. Events that wait may still be of it.
    pub fn unsubscribe(&self, handle: ItemHandle) -> bool {
        self.call(move |consumer| consumer.unsubscribe(handle)).unwrap_or(false)
    }

    /// Does something with the consumer in its thread, and waits for the result. `None` if the thread has
    /// ended.
    pub fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Consumer) -> R + Send + 'static,
    ) -> Option<R> {
        let (reply, result) = mpsc::sync_channel(1);
        let call = move |consumer: &mut Consumer| drop(reply.send(call(consumer)));
        self.calls.send(Box::new(call)).ok()?;
        self.waker.wake();
        result.recv().ok()
    }

    /// Logs out and ends the thread.
    ///
    /// # Errors
    /// Why the thread had ended before; a [`QueueOverrun`](crate::QueueOverrun) within, if its queue was full.
    pub fn close(mut self) -> io::Result<()> {
        self.end();
        let thread = self.thread.take().expect("only this takes it");
        thread.join().unwrap_or_else(|_| Err(panicked()))
    }

    fn take(&self, deadline: Option<Instant>) -> Option<OwnedEvent> {
        let mut queue = self.shared.lock();
        loop {
            let event = queue.events.pop(clock::monotonic());
            if queue.is_full && queue.events.has_room() {
                queue.is_full = false;
                self.waker.wake();
            }
            if event.is_some() {
                return event;
            }
            if queue.is_closed {
                return None;
            }
            queue = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.shared.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    self.shared.filled.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn end(&self) {
        self.shared.lock().is_closing = true;
        self.waker.wake();
    }
}

impl Drop for ConsumerChannel {
    fn drop(&mut self) {
        self.end();
    }
}

impl Iterator for &ConsumerChannel {
    type Item = OwnedEvent;

    fn next(&mut self) -> Option<OwnedEvent> {
        self.recv()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there are events, and looks whether more may be read.
    fn is_room(&self, is_news: bool) -> bool {
        let mut queue = self.lock();
        if is_news {
            self.filled.notify_all();
        }
        if !queue.is_full && queue.events.is_full() {
            queue.is_full = true;
            queue.events.note_blocked();
        }
        !queue.is_full
    }
}

/// What the thread owns.
struct Worker {
    consumer: Consumer,
    to_do: Receiver<Call>,
    shared: Arc<Shared>,
    waker: Waker,
    /// Events are looked at one by one, and may be merged.
    merges: bool,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        // Also if a call panics.
        let closing = Closing(Arc::clone(&self.shared));
        let result = self.work();
        drop(closing);
        self.consumer.close();
        result
    }

    fn work(&mut self) -> io::Result<()> {
        let (mut batch, mut reads) = (Vec::new(), true);
        loop {
            for call in self.to_do.try_iter() {
                call(&mut self.consumer);
            }
            // As long as a login lasts, its events are few, and its answers are read. Without one nothing is begun for
            // an application that does not even take what there is.
            let works = reads || self.consumer.is_logged_in();
            self.consumer.hold_input(!reads);
            let count = if works { self.turn(usize::from(reads), &mut batch) } else { 0 };
            self.forget_ended();
            reads = self.shared.is_room(count > 0);
            {
                let queue = self.shared.lock();
                if let Some(overrun) = queue.events.overrun() {
                    return Err(io::Error::other(overrun));
                }
                if queue.is_closing {
                    return Ok(());
                }
            }
            if count == 0 {
                match reads || self.consumer.is_logged_in() {
                    true => self.consumer.wait(reads)?,
                    false => self.consumer.wait_for_waker()?,
                }
                self.waker.acknowledge();
            }
        }
    }

    /// Does what there is to do, and queues what comes of it.
    fn turn(&mut self, reads: usize, batch: &mut Vec<OwnedEvent>) -> usize {
        let shared = &self.shared;
        let now = clock::monotonic();
        if self.merges {
            return self.consumer.work_reading(reads, &mut |event| shared.lock().events.push(now, event));
        }
        let count = self.consumer.work_reading(reads, &mut |event| batch.push(OwnedEvent::from(event)));
        if !batch.is_empty() {
            let mut queue = shared.lock();
            batch.drain(..).for_each(|event| queue.events.push_owned(now, event));
        }
        count
    }

    /// Images of items that have ended are not kept.
    fn forget_ended(&mut self) {
        if self.merges {
            let mut ended = self.consumer.core().take_ended().peekable();
            if ended.peek().is_some() {
                let mut queue = self.shared.lock();
                ended.for_each(|handle| queue.events.forget(handle));
            }
        }
    }
}

/// Says at its end that nothing more comes.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.filled.notify_all();
    }
}
