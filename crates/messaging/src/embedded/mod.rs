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
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver as Inbox, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, atomic};
use std::thread::JoinHandle;

use net::fork::Home;
use net::{Waker, affinity};

use crate::error::ContextError;
use crate::{Context, ContextCounters, Handler, MessagingConfig, Receiver, Source, SourceOptions, Wait};

use queue::Enqueuer;
pub use queue::EventQueue;
use source::Feed;
pub use source::{EmbeddedSource, QueueError};

/// The thread of the context has ended: it was stopped, or its handler panicked. Or this is a child made by `fork`, to
/// which the thread of its parent is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the context's thread has ended, or is that of the process this one was forked from")
    }
}

impl std::error::Error for Stopped {}

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
    is_asleep: AtomicBool,
}

impl Bell {
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

/// Tells sources, when the thread ends, that nobody takes their messages any more: it may do so by itself, by
/// a panic or because the poller has failed.
struct StopsAtEnd(Arc<AtomicBool>);

impl Drop for StopsAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A context that is driven by a thread of its own; stopped when dropped.
pub struct EmbeddedContext {
    tasks: Sender<Task>,
    bell: Arc<Bell>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
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
        EmbeddedContext::start_with(config, counters, Arc::new(AtomicBool::new(false)), handler)
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
        let (enqueuer, queue) = queue::pair(config.event_queue_bytes as usize, events, is_stopping.clone());
        let context: EmbeddedContext =
            EmbeddedContext::start_with::<Enqueuer>(config, counters, is_stopping, enqueuer)?;
        Ok((context, queue))
    }

    fn start_with<H: Handler + Send + 'static>(
        config: &MessagingConfig,
        mut counters: ContextCounters,
        is_stopping: Arc<AtomicBool>,
        handler: H,
    ) -> Result<EmbeddedContext, ContextError> {
        // Here: the thread to be started has a CPU and a priority of its own.
        counters.publish(config);
        let (tasks, inbox) = channel();
        let (started, outcome) = sync_channel(1);
        let (config_there, stop) = (config.clone(), is_stopping.clone());
        let thread = std::thread::Builder::new().name("messaging".to_owned()).spawn(move || {
            let stop = StopsAtEnd(stop);
            match begin(&config_there, counters) {
                Ok((core, bell)) => {
                    let bell = Arc::new(bell);
                    // Nobody waits for it any more if that fails.
                    let _ = started.send(Ok(bell.clone()));
                    run(core, handler, &inbox, &bell, &stop.0, config_there.wait)
                }
                Err(error) => {
                    // Whoever starts it waits.
                    let _ = started.send(Err(error));
                    Ok(())
                }
            }
        })?;
        let bell = outcome.recv().map_err(|_| io::Error::other("the context's thread has died"))??;
        let queue_bytes = config.source_queue_bytes as usize;
        Ok(EmbeddedContext { tasks, bell, is_stopping, thread: Some(thread), queue_bytes })
    }

    /// Does something with the context on its thread and waits for the result: creates receivers, answers
    /// requests. Not for the path of a message, and not from the handler on that thread, which would wait for
    /// itself.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn call<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Context) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.run_task(|core| task(&mut core.context))
    }

    fn run_task<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        if !self.bell.home.is_here() {
            return Err(Stopped);
        }
        let (done, result) = sync_channel(1);
        let task: Task = Box::new(move |core| {
            // Whoever asked may be gone.
            let _ = done.send(task(core));
        });
        self.tasks.send(task).map_err(|_| Stopped)?;
        self.bell.ring();
        result.recv().map_err(|_| Stopped)
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
        let is_stopping = self.is_stopping.clone();
        let bell = self.bell.clone();
        let created = self.run_task(move |core| -> Result<EmbeddedSource, ContextError> {
            let source: Source = core.context.create_source(&topic, &options)?;
            let (handle, feed) = source::pair(source, bytes, bell, is_stopping);
            core.feeds.push(feed);
            Ok(handle)
        });
        created.map_err(io::Error::other)?
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew; see
    /// [`Context::restart_hot_failover`]. The events of that are told before anything that arrives later.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn restart_hot_failover(&self, receiver: Receiver) -> Result<(), Stopped> {
        self.run_task(move |core| core.restarts.push(receiver))
    }

    /// Ends the thread, after what was sent before has left; receivers are told that the sources end.
    ///
    /// # Errors
    /// The poller has failed, or the handler has panicked. In a child made by `fork` the error holds
    /// [`Forked`](crate::Forked), and the parent's thread goes on.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if !self.bell.home.is_certain() {
            // The thread is the parent's, and to wait for it would be for ever.
            std::mem::forget(self.thread.take());
            return Err(self.bell.home.forked().into());
        }
        self.is_stopping.store(true, Ordering::Release);
        self.bell.waker.wake();
        match self.thread.take() {
            Some(thread) => {
                thread.join().map_err(|_| io::Error::other("the context's thread has panicked"))?
            }
            None => Ok(()),
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
        Bell { waker, home: Home::here(), is_asleep: AtomicBool::new(false) },
    ))
}

/// Turns in which nothing happens before a thread that backs off goes to sleep.
const IDLE_TURNS: u32 = 1_000;

fn run(
    mut core: Core,
    mut handler: impl Handler,
    inbox: &Inbox<Task>,
    bell: &Bell,
    is_stopping: &AtomicBool,
    wait: Wait,
) -> io::Result<()> {
    let mut idle = 0;
    loop {
        // Before the rings are emptied: what was sent before the stop is taken.
        let is_last = is_stopping.load(Ordering::Acquire);
        let mut worked = core.work(inbox);
        for receiver in core.restarts.drain(..) {
            core.context.restart_hot_failover(receiver, &mut handler);
        }
        worked |= core.context.poll(&mut handler)?;
        if is_last {
            core.context.end();
            return Ok(());
        }
        idle = if worked { 0 } else { idle + 1 };
        match wait {
            Wait::Spin => {}
            Wait::Yield => std::thread::yield_now(),
            Wait::Backoff if idle < IDLE_TURNS => std::hint::spin_loop(),
            Wait::Block | Wait::Backoff if worked => {}
            Wait::Block | Wait::Backoff => {
                bell.is_asleep.store(true, Ordering::Relaxed);
                atomic::fence(Ordering::SeqCst);
                if !core.work(inbox) && !is_stopping.load(Ordering::Acquire) {
                    core.context.wait(None, &mut handler)?;
                }
                bell.is_asleep.store(false, Ordering::Relaxed);
            }
        }
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
}
