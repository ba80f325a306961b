//! A context with a thread of its own.
//!
//! The thread owns the [`Context`] and drives it by the configured wait strategy, on the configured CPU,
//! with the configured priority. Applications reach it through bounded rings: an [`EmbeddedSource`] puts
//! messages into one, which the thread empties into the context; events go to a handler on that thread, or
//! through an [`EventQueue`] to one on a thread of the application. What is not on the path of a message
//! ([`EmbeddedContext::call`]) is done by the thread between two turns.

mod queue;
mod source;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver as Inbox, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, atomic};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use net::fork::Home;
use net::{Waker, affinity, clock};

use crate::error::ContextError;
use crate::{
    Context, ContextCounters, Handler, Left, MessagingConfig, Receiver, Source, SourceOptions, Wait,
};

use queue::Enqueuer;
pub use queue::EventQueue;
use source::Feed;
pub use source::{EmbeddedSource, QueueError};

/// Why the context's thread did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// It has ended: it was stopped, or its handler panicked. Or this is a child made by `fork`, to which the thread
    /// of its parent is none.
    Stopped,
    /// It was asked from itself, by a handler or a task, and would wait for itself. Nothing was done.
    OwnThread,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallError::Stopped => {
                "the context's thread has ended, or is that of the process this one was forked from"
            }
            CallError::OwnThread => "called on the context's own thread, which would wait for itself",
        })
    }
}

impl std::error::Error for CallError {}

/// Work for the thread.
type Task = Box<dyn FnOnce(&mut Core) + Send>;

/// What the thread owns.
struct Core {
    context: Context,
    feeds: Vec<Feed>,
    /// Hot failover receivers whose numbers begin anew, which the handler is to hear.
    restarts: Vec<Receiver>,
}

/// How a sleeping thread is woken.
#[derive(Debug)]
struct Bell {
    waker: Waker,
    home: Home,
    /// Who is woken.
    thread: ThreadId,
    is_asleep: AtomicBool,
}

impl Bell {
    /// Whether the caller is the thread that it wakes.
    fn is_own_thread(&self) -> bool {
        thread::current().id() == self.thread
    }

    /// Wakes the thread, if it sleeps. What it is to see was published before.
    #[inline]
    fn ring(&self) {
        // The thread says that it sleeps, fences, and looks for work; here work is published, then a fence,
        // then the flag is read. One of the two sees the other.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) {
            self.waker.wake();
        }
    }
}

/// A context that is driven by a thread of its own; stopped when dropped.
pub struct EmbeddedContext {
    tasks: Sender<Task>,
    bell: Arc<Bell>,
    is_stopping: Arc<AtomicBool>,
    /// How long the thread goes on when it is stopped, microseconds.
    linger_us: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<Left>>>,
    queue_bytes: usize,
}

impl EmbeddedContext {
    /// Starts the thread; events go to `handler`, there.
    ///
    /// # Errors
    /// As [`Context::standalone`]; or the thread cannot be started, kept on its CPU or given its priority.
    pub fn start(
        config: &MessagingConfig,
        counters: ContextCounters,
        handler: impl Handler + Send + 'static,
    ) -> Result<EmbeddedContext, ContextError> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        EmbeddedContext::start_with(config, counters, is_stopping, handler, |_| true)
    }

    /// Starts the thread; events go into a queue, to be dispatched by a thread of the application.
    ///
    /// # Errors
    /// As [`EmbeddedContext::start`].
    pub fn start_queued(
        config: &MessagingConfig,
        counters: ContextCounters,
    ) -> Result<(EmbeddedContext, EventQueue), ContextError> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let events = counters.events.clone();
        let (enqueuer, queue) = queue::pair(config.event_queue_bytes as usize, events);
        let context =
            EmbeddedContext::start_with(config, counters, is_stopping, enqueuer, Enqueuer::push_held)?;
        Ok((context, queue))
    }

    fn start_with<H: Handler + Send + 'static>(
        config: &MessagingConfig,
        mut counters: ContextCounters,
        is_stopping: Arc<AtomicBool>,
        handler: H,
        takes_events: fn(&mut H) -> bool,
    ) -> Result<EmbeddedContext, ContextError> {
        // Here: the thread to be started has a CPU and a priority of its own.
        counters.publish(config);
        let (tasks, inbox) = channel();
        let (started, outcome) = sync_channel(1);
        let (config_there, stop) = (config.clone(), is_stopping.clone());
        let linger_us = Arc::new(AtomicU64::new(config.linger_us));
        let linger_there = linger_us.clone();
        let thread = thread::Builder::new().name("messaging".to_owned()).spawn(move || {
            match begin(&config_there, counters) {
                Ok((core, bell)) => {
                    let bell = Arc::new(bell);
                    // Nobody waits for it any more if that fails.
                    let _ = started.send(Ok(bell.clone()));
                    let turns = Turns { bell: &bell, is_stopping: &stop, wait: config_there.wait };
                    let mut core = core;
                    turns.run(&mut core, handler, takes_events, &inbox).map(|()| {
                        core.finish(&inbox, Duration::from_micros(linger_there.load(Ordering::Acquire)))
                    })
                }
                Err(error) => {
                    // Whoever starts it waits.
                    let _ = started.send(Err(error));
                    Ok(Left::default())
                }
            }
        })?;
        let bell = outcome.recv().map_err(|_| io::Error::other("the context's thread has died"))??;
        let queue_bytes = config.source_queue_bytes as usize;
        Ok(EmbeddedContext { tasks, bell, is_stopping, linger_us, thread: Some(thread), queue_bytes })
    }

    /// Does something with the context on its thread and waits for the result: creates receivers, answers
    /// requests. Not for the path of a message. The thread does it between two turns, also while its event
    /// queue is full, so that events which are dispatched may call.
    ///
    /// Two contexts whose handlers call each other's wait for each other for ever; let one of them use a queue.
    ///
    /// # Errors
    /// [`CallError`]; a handler on that thread is refused.
    pub fn call<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Context) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        self.run_task(|core| task(&mut core.context))
    }

    /// Whether this is the context's own thread.
    fn is_own_thread(&self) -> bool {
        self.thread.is_some() && self.bell.is_own_thread()
    }

    fn run_task<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        if !self.bell.home.is_here() {
            return Err(CallError::Stopped);
        }
        if self.is_own_thread() {
            return Err(CallError::OwnThread);
        }
        let (done, result) = sync_channel(1);
        let task: Task = Box::new(move |core| {
            // Whoever asked may be gone.
            let _ = done.send(task(core));
        });
        self.tasks.send(task).map_err(|_| CallError::Stopped)?;
        self.bell.ring();
        result.recv().map_err(|_| CallError::Stopped)
    }

    /// Waits until everything that sources have flushed has left as far as is known, as [`Context::drain`]
    /// does, for `timeout` at most; returns what has not.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn drain(&self, timeout: Duration) -> Result<Left, CallError> {
        let until = clock::monotonic().after(timeout);
        loop {
            // Messages in the rings are counted only to be told: that is a look at each of them.
            if self.run_task(|core| core.has_left())? {
                return Ok(Left::default());
            }
            if clock::monotonic() >= until {
                return self.run_task(Core::left);
            }
            std::thread::sleep(DRAIN_TURN);
        }
    }

    /// Begins to publish a topic. The handle goes to the one thread that sends with it.
    ///
    /// # Errors
    /// As [`Context::create_source`]; [`ContextError::Io`] if the thread has ended.
    pub fn create_source(
        &self,
        topic: &str,
        options: &SourceOptions,
    ) -> Result<EmbeddedSource, ContextError> {
        if !self.bell.home.is_here() {
            return Err(ContextError::Forked(self.bell.home.forked()));
        }
        let (topic, options, bytes) = (topic.to_owned(), *options, self.queue_bytes);
        let bell = self.bell.clone();
        let created = self.run_task(move |core| -> Result<EmbeddedSource, ContextError> {
            let source: Source = core.context.create_source(&topic, &options)?;
            let (handle, feed) = source::pair(source, bytes, bell);
            core.feeds.push(feed);
            Ok(handle)
        });
        created.map_err(io::Error::other)?
    }

    /// Waits until `count` receivers of a source's topic have found it and get its next message, as
    /// [`Context::wait_for_receivers`] does, for `timeout` at most; returns how many there are then. The source is that
    /// of [`EmbeddedSource::handle`].
    ///
    /// # Errors
    /// Outside [`CallError`]; inside [`io::ErrorKind::NotFound`] if the source was dropped.
    pub fn wait_for_receivers(
        &self,
        source: Source,
        count: usize,
        timeout: Duration,
    ) -> Result<io::Result<usize>, CallError> {
        let until = clock::monotonic().after(timeout);
        let is_watched = self.call(move |context| context.receivers(source).is_some())?;
        if let Err(error) = self.watch_receivers(source, true)? {
            return Ok(Err(error));
        }
        let found = loop {
            let found = self.receivers(source)?.unwrap_or(0);
            if found >= count || clock::monotonic() >= until {
                break found;
            }
            std::thread::sleep(RECEIVERS_TURN);
        };
        if !is_watched && let Err(error) = self.watch_receivers(source, false)? {
            return Ok(Err(error));
        }
        Ok(Ok(found))
    }

    /// See [`Context::watch_receivers`].
    ///
    /// # Errors
    /// Outside [`CallError`]; inside as there.
    pub fn watch_receivers(&self, source: Source, watches: bool) -> Result<io::Result<()>, CallError> {
        self.call(move |context| context.watch_receivers(source, watches))
    }

    /// See [`Context::receivers`].
    ///
    /// # Errors
    /// [`CallError`].
    pub fn receivers(&self, source: Source) -> Result<Option<usize>, CallError> {
        self.call(move |context| context.receivers(source))
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew; see
    /// [`Context::restart_hot_failover`]. The events of that are told before anything that arrives later.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn restart_hot_failover(&self, receiver: Receiver) -> Result<(), CallError> {
        self.run_task(move |core| core.restarts.push(receiver))
    }

    /// Ends the thread, after what sources have sent before has left, flushed or not: it takes everything out of
    /// their rings and closes the context as [`Context::close`] does, for the configured `linger_us` at most. Sends are
    /// refused meanwhile, and events that a full queue has no room for are dropped and counted.
    ///
    /// Returns what did not leave.
    ///
    /// # Errors
    /// The poller has failed, or the handler has panicked. On the context's own thread, by a handler, it cannot
    /// be waited for: the thread ends by itself soon after, and the error says so. In a child made by `fork` the
    /// error holds [`Forked`](crate::Forked), and the parent's thread goes on.
    pub fn stop(mut self) -> io::Result<Left> {
        self.end()
    }

    /// The same with another bound.
    ///
    /// # Errors
    /// As [`EmbeddedContext::stop`].
    pub fn close(mut self, linger: Duration) -> io::Result<Left> {
        let linger_us = u64::try_from(linger.as_micros()).unwrap_or(u64::MAX);
        self.linger_us.store(linger_us, Ordering::Release);
        self.end()
    }

    fn end(&mut self) -> io::Result<Left> {
        if !self.bell.home.is_certain() {
            // The thread is the parent's, and to wait for it would be for ever.
            std::mem::forget(self.thread.take());
            return Err(self.bell.home.forked().into());
        }
        let is_own_thread = self.is_own_thread();
        self.is_stopping.store(true, Ordering::Release);
        self.bell.waker.wake();
        match self.thread.take() {
            Some(_) if is_own_thread => Err(io::Error::new(
                io::ErrorKind::Deadlock,
                "stopped on the context's own thread, which ends when the handler has returned",
            )),
            Some(thread) => {
                thread.join().map_err(|_| io::Error::other("the context's thread has panicked"))?
            }
            None => Ok(Left::default()),
        }
    }
}

impl Drop for EmbeddedContext {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _ = self.end();
    }
}

fn begin(config: &MessagingConfig, counters: ContextCounters) -> Result<(Core, Bell), ContextError> {
    if let Some(cpu) = config.thread_cpu {
        affinity::pin_to_cpu(cpu as usize)?;
    }
    if let Some(priority) = config.thread_realtime_priority {
        affinity::set_realtime_priority(priority)?;
    }
    let mut context = Context::standalone_with(config, counters)?;
    let waker = context.waker()?;
    Ok((
        Core { context, feeds: Vec::new(), restarts: Vec::new() },
        Bell { waker, home: Home::here(), thread: thread::current().id(), is_asleep: AtomicBool::new(false) },
    ))
}

/// Turns in which nothing happens before a thread that backs off goes to sleep.
const IDLE_TURNS: u32 = 1_000;
/// How long a thread waits that may not receive, before it looks again whether there is room for events.
const HELD_TURN: Duration = Duration::from_micros(200);
/// How long tasks that come while a thread ends may hold it up beyond its linger.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// How often who drains looks whether everything has left.
const DRAIN_TURN: Duration = Duration::from_micros(500);
/// How often who waits for receivers looks whether they are there.
const RECEIVERS_TURN: Duration = Duration::from_millis(1);

/// How the thread goes on from turn to turn.
struct Turns<'a> {
    bell: &'a Bell,
    is_stopping: &'a AtomicBool,
    wait: Wait,
}

impl Turns<'_> {
    /// Drives the context until it is to stop.
    fn run<H: Handler>(
        &self,
        core: &mut Core,
        mut handler: H,
        takes_events: fn(&mut H) -> bool,
        inbox: &Inbox<Task>,
    ) -> io::Result<()> {
        let mut idle = 0;
        while !self.is_stopping.load(Ordering::Acquire) {
            let mut worked = core.work(inbox);
            if !takes_events(&mut handler) {
                core.context.poll_sending(&mut handler);
                std::thread::sleep(HELD_TURN);
                continue;
            }
            for receiver in core.restarts.drain(..) {
                core.context.restart_hot_failover(receiver, &mut handler);
            }
            worked |= core.context.poll(&mut handler)?;
            idle = if worked { 0 } else { idle + 1 };
            match self.wait {
                Wait::Spin => {}
                Wait::Yield => std::thread::yield_now(),
                Wait::Backoff if idle < IDLE_TURNS => std::hint::spin_loop(),
                Wait::Block | Wait::Backoff if worked => {}
                // What is held is put in as soon as there is room, of which nobody tells.
                Wait::Block | Wait::Backoff if !takes_events(&mut handler) => {}
                Wait::Block | Wait::Backoff => self.sleep(core, &mut handler, inbox)?,
            }
        }
        Ok(())
    }

    fn sleep(&self, core: &mut Core, handler: &mut impl Handler, inbox: &Inbox<Task>) -> io::Result<()> {
        self.bell.is_asleep.store(true, Ordering::Relaxed);
        atomic::fence(Ordering::SeqCst);
        if !core.work(inbox) && !self.is_stopping.load(Ordering::Acquire) {
            core.context.wait(None, handler)?;
        }
        self.bell.is_asleep.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Core {
    /// Takes what applications have put into the rings, and does what they ask for.
    fn work(&mut self, inbox: &Inbox<Task>) -> bool {
        let mut worked = false;
        let context = &mut self.context;
        self.feeds.retain_mut(|feed| {
            worked |= feed.empty_into(context);
            !feed.is_over(context)
        });
        loop {
            match inbox.try_recv() {
                Ok(task) => {
                    worked = true;
                    task(self);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return worked,
            }
        }
    }

    /// Whether everything has left.
    fn has_left(&mut self) -> bool {
        self.feeds.iter().all(Feed::is_empty) && self.context.left().is_empty()
    }

    /// What has not left, of rings and context.
    fn left(&mut self) -> Left {
        let queued_messages = self.feeds.iter().map(Feed::waiting).sum();
        Left { queued_messages, ..self.context.left() }
    }

    /// Takes what is left in the rings and closes the context, for `linger` at most. Nothing is received.
    fn finish(&mut self, inbox: &Inbox<Task>, linger: Duration) -> Left {
        let until = clock::monotonic().after(linger);
        loop {
            // Also of sources that a late call has created.
            Feed::close(&mut self.feeds);
            let worked = self.work(inbox);
            self.context.poll_sending(&mut ());
            let now = clock::monotonic();
            let is_empty = self.feeds.iter().all(Feed::is_empty);
            // Also without linger all is taken that the context accepts; callers may go on calling.
            let is_over = now >= until && (!worked || now >= until.after(LAST_CALLS));
            if !worked && is_empty || is_over {
                let left = self.context.close(until.since(now));
                Feed::close(&mut self.feeds);
                let queued_messages = self.feeds.iter_mut().map(Feed::take_rest).sum();
                return Left { queued_messages, ..left };
            }
            if !worked {
                std::thread::sleep(HELD_TURN);
            }
        }
    }
}
