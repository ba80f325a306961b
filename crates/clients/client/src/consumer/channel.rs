//! A consumer in a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use net::{Token, Waker};

use super::{Consumer, ItemHandle, ItemRequestSpec, OwnedEvent, SubscribeError};

/// The socket has token 0.
const WAKER: Token = Token(1);

/// A consumer that works in a thread of its own and hands its events over; made by
/// [`Consumer::into_channel`].
///
/// The queue is bounded: when as many events wait as it was made for, the thread reads no more until half of
/// them are taken, and the server sees a slow consumer. (What one read completes is still queued, so that
/// more can wait, as many as a read buffer and a frame hold.) An application that takes nothing for longer
/// than the ping timeout loses its connection.
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
    capacity: usize,
}

struct Queue {
    events: VecDeque<OwnedEvent>,
    /// The thread waits for half of the queue to be taken.
    is_full: bool,
    /// The thread is to end.
    is_closing: bool,
    /// The thread has ended: nothing more comes.
    is_closed: bool,
}

impl Consumer {
    /// Moves the consumer into a thread that queues its events, `capacity` of them.
    ///
    /// # Errors
    /// The system has no thread or no descriptor left.
    pub fn into_channel(mut self, capacity: usize) -> io::Result<ConsumerChannel> {
        let (calls, to_do) = mpsc::channel();
        let events = std::mem::take(&mut self.waiting);
        let queue = Queue { events, is_full: false, is_closing: false, is_closed: false };
        let shared =
            Arc::new(Shared { queue: Mutex::new(queue), filled: Condvar::new(), capacity: capacity.max(1) });
        let (parts, of_thread) = (self.into_parts(), Arc::clone(&shared));
        // A poller stays in the thread that has made it, so that the thread makes it, and says how it is
        // woken.
        let (started, waker) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("tickcast-consumer".to_owned()).spawn(move || {
            let consumer = Consumer::from_parts(parts)?;
            let waker = Waker::new(consumer.registrar(), WAKER)?;
            // Nobody waits for it any more if `into_channel` has failed, which it cannot after the spawn.
            let _ = started.send(waker.clone());
            Worker { consumer, to_do, shared: of_thread, waker }.run()
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

    /// Events that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().events.len()
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
    /// Why the thread had ended before.
    pub fn close(mut self) -> io::Result<()> {
        self.end();
        let thread = self.thread.take().expect("only this takes it");
        thread.join().unwrap_or_else(|_| Err(panicked()))
    }

    fn take(&self, deadline: Option<Instant>) -> Option<OwnedEvent> {
        let mut queue = self.shared.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                if queue.is_full && queue.events.len() <= self.shared.capacity / 2 {
                    queue.is_full = false;
                    self.waker.wake();
                }
                return Some(event);
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

    /// Adds events; returns whether more may be read.
    fn add(&self, batch: &mut Vec<OwnedEvent>) -> bool {
        let mut queue = self.lock();
        if !batch.is_empty() {
            queue.events.extend(batch.drain(..));
            self.filled.notify_all();
        }
        queue.is_full |= queue.events.len() >= self.capacity;
        !queue.is_full
    }
}

/// What the thread owns.
struct Worker {
    consumer: Consumer,
    to_do: Receiver<Call>,
    shared: Arc<Shared>,
    waker: Waker,
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
        let mut batch = Vec::new();
        let mut reads = true;
        while !self.shared.lock().is_closing {
            for call in self.to_do.try_iter() {
                call(&mut self.consumer);
            }
            let count = self
                .consumer
                .work_reading(usize::from(reads), &mut |event| batch.push(OwnedEvent::from(event)));
            reads = self.shared.add(&mut batch);
            if count == 0 {
                self.consumer.wait(reads)?;
                self.waker.acknowledge();
            }
        }
        Ok(())
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
