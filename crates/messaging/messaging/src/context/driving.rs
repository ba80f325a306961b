//! A context that is driven by whoever uses it, with a poller of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use net::clock::{self, Clock, ManualClock};
use net::{Poller, Ready, Waiter};
use units::Nanos;

use super::Context;
use crate::closing::Stage;
use crate::context_counters::ContextCounters;
use crate::error::ContextError;
use crate::incoming::{Look, ReliableIncoming, RuIncoming};
use crate::{Handler, MessagingConfig};

/// What a context needs to be driven by [`Context::poll`] and [`Context::wait`].
pub(super) struct Standalone {
    /// None if the context shares another's poller.
    poller: Option<Poller>,
    waiter: Waiter,
    ready: Vec<Ready>,
    /// Polls come one right after another, so that the clock need not be read for each.
    is_spinning: bool,
    turns: u32,
    /// When to look at the descriptors that carry no data, and at the timers.
    look_at: Nanos,
    /// When to look for signs of life that are due, while nothing is received.
    signs_at: Nanos,
    /// Why this thread may not sleep, to be told by the next turn that looks around.
    failed: Option<io::Error>,
}

/// Of so many turns of a spinning context one reads the clock.
const TURNS_PER_CLOCK: u32 = 16;
/// How often a busy context looks at connections, NAKs and topic resolution.
const LOOK_EVERY: Duration = Duration::from_micros(50);
/// How often a context that receives nothing looks at the sessions that it hears.
const SIGNS_EVERY: Duration = Duration::from_millis(10);
/// Data sockets up to this many are read without asking the poller first.
const DIRECT_MAX: usize = 4;

impl Standalone {
    pub(super) fn new(config: &MessagingConfig) -> Standalone {
        Standalone {
            poller: None,
            waiter: Waiter::new(config.wait.strategy()),
            ready: Vec::with_capacity(256),
            is_spinning: config.wait == crate::config::Wait::Spin,
            turns: 0,
            look_at: Nanos::ZERO,
            signs_at: Nanos::ZERO,
            failed: None,
        }
    }

    pub(super) fn has_poller(&self) -> bool {
        self.poller.is_some()
    }
}

impl Context {
    /// A context with a poller of its own, for a thread that does nothing else or calls [`Context::poll`]
    /// often.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn standalone(config: &MessagingConfig) -> Result<Context, ContextError> {
        Context::standalone_with(config, ContextCounters::default())
    }

    /// The same with counters that somebody reads.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn standalone_with(
        config: &MessagingConfig,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        Context::driven(config, clock::seed(), Clock::Machine, counters)
    }

    /// A context whose time is what `clock` shows, and whose random choices follow from `seed`: for
    /// simulations. It is driven as a [`Context::standalone`] one, in as many turns at one time as it takes
    /// until nothing happens any more; it looks at everything in each turn, and [`Context::wait`] never
    /// sleeps. [`Context::until_wakeup`] says when something is due.
    ///
    /// What the kernel does by itself (retransmission and time-outs of TCP) and the validity of certificates
    /// stay with the machine's time.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn manual(
        config: &MessagingConfig,
        clock: &ManualClock,
        seed: u64,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        Context::driven(config, seed, Clock::Manual(clock.clone()), counters)
    }

    fn driven(
        config: &MessagingConfig,
        seed: u64,
        clock: Clock,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        let poller = Poller::new()?;
        let now = clock.now();
        let mut context = Context::unwatched(config, poller.registrar(), 0, seed, now, clock, counters)?;
        context.standalone.poller = Some(poller);
        if !context.standalone.is_spinning {
            context.watch_sockets()?;
        }
        Ok(context)
    }

    /// One turn without waiting: sends what waits, takes what has arrived, does what is due. Tells whether
    /// messages or events may have come.
    ///
    /// Data sockets and rings are looked at in each turn; connections, NAKs, topic resolution and timers
    /// every 50 us. With `wait = "spin"` the clock is read in one of 16 turns: to be called without pause
    /// then.
    ///
    /// # Errors
    /// The poller failed, which nothing can mend. In a child made by `fork` the error holds
    /// [`Forked`](crate::Forked), after [`Context::close`] it holds [`Closed`](crate::Closed).
    #[inline]
    pub fn poll(&mut self, handler: &mut impl Handler) -> io::Result<bool> {
        self.base.home.check()?;
        self.base.check_before(Stage::Closed)?;
        let own = &mut self.standalone;
        own.turns = own.turns.wrapping_add(1);
        if !own.is_spinning || own.turns.is_multiple_of(TURNS_PER_CLOCK) {
            self.base.refresh_clock();
        }
        self.flush_stirred();
        self.receiving.tell_found(handler);
        let mut worked = self.receiving.poll_ipc(&mut self.base, &mut self.direct, handler);
        worked |= self.poll_xdp(self.base.now, handler);
        let looks_directly = self.receiving.descriptors() <= DIRECT_MAX;
        if looks_directly {
            worked |= self.poll_data(self.base.now, handler);
        } else {
            self.watch_sockets()?;
        }
        if !looks_directly || self.base.now >= self.standalone.look_at {
            worked |= self.look_around(Some(Duration::ZERO), handler)?;
        }
        Ok(worked)
    }

    /// A turn that sends, answers and keeps sessions alive, but receives nothing: for a context whose events
    /// nobody takes at the moment. Messages wait in the kernel or with their sources; whether a session has
    /// fallen silent is not judged, since what it says is not read.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_sending(&mut self, handler: &mut impl Handler) {
        self.base.refresh_clock();
        let now = self.base.now;
        self.flush_stirred();
        self.hear_resolution();
        if now >= self.base.resolution.next_wakeup() {
            self.base.send_resolution();
        }
        self.publishing.serve_outgoing(&mut self.base, now, handler);
        self.direct.flush_direct(&mut self.base);
        if now >= self.standalone.signs_at {
            self.standalone.signs_at = now + SIGNS_EVERY;
            self.receiving.incoming.ru.send_signs_of_life(&self.base, now);
        }
        self.take_census(now);
    }

    /// One turn that waits for something to arrive or to be due, at most `timeout` (`None`: for ever), by the
    /// configured wait strategy. Tells whether messages or events may have come.
    ///
    /// # Errors
    /// As [`Context::poll`].
    pub fn wait(&mut self, timeout: Option<Duration>, handler: &mut impl Handler) -> io::Result<bool> {
        let worked = self.poll(handler)?;
        if worked {
            return Ok(true);
        }
        self.base.refresh_clock();
        self.receiving.settle_recovery(&self.base);
        let due = self.next_wakeup();
        let until_due = (due != Nanos::NEVER).then(|| due.since(self.base.now));
        let limit = match (until_due, timeout) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match self.standalone.waiter.timeout(false, limit) {
            // The next turn looks again.
            Some(Duration::ZERO) => Ok(false),
            patience => {
                let patience = if self.base.is_simulated() { Some(Duration::ZERO) } else { patience };
                let patience = self.before_sleep(patience);
                let worked = self.look_around(patience, handler)?;
                self.standalone.waiter.timeout(worked, limit);
                Ok(worked)
            }
        }
    }

    /// What an event loop of others waits for, if [`Context::until_wakeup`] is asked before each wait: readable
    /// when [`Context::poll`] has something to take. Messages that were sent and not flushed go out with the
    /// next poll as well.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.base.registrar.as_fd()
    }

    /// How long such a loop may wait from now on before it polls again though nothing is readable; `None`: for
    /// ever. To be asked anew before each wait.
    #[must_use]
    pub fn until_wakeup(&mut self) -> Option<Duration> {
        if !self.base.home.is_here() {
            // The poll says why.
            return Some(Duration::ZERO);
        }
        self.base.refresh_clock();
        self.receiving.settle_recovery(&self.base);
        let due = self.next_wakeup();
        let until_due = (due != Nanos::NEVER).then(|| due.since(self.base.now));
        self.before_sleep(until_due)
    }

    /// Tells the sources of rings that this thread is about to sleep, and the kernel that it is to be woken;
    /// returns how long it may. If the kernel cannot be told, that is not at all, and the next turn says why.
    fn before_sleep(&mut self, patience: Option<Duration>) -> Option<Duration> {
        let now = self.base.now;
        if let Err(error) = self.watch_data() {
            self.standalone.failed = Some(error);
            self.standalone.look_at = self.base.now;
            return Some(Duration::ZERO);
        }
        if !self.receiving.incoming.ipc.before_sleep(now) {
            return Some(Duration::ZERO);
        }
        let due = self.receiving.incoming_wakeup();
        let limit = (due != Nanos::NEVER).then(|| due.since(now));
        match (patience, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Looks at the data sockets.
    #[inline]
    pub(super) fn poll_data(&mut self, now: Nanos, handler: &mut impl Handler) -> bool {
        let mut worked = self.receiving.poll_groups(&mut self.base, &mut self.direct, now, handler);
        if self.receiving.has_ru() {
            worked |= self.receiving.on_socket_ready::<RuIncoming>(
                &mut self.base,
                &mut self.direct,
                now,
                (0, Look::Direct),
                handler,
            );
        }
        worked |= self.receiving.poll_tcp(&mut self.base, &mut self.direct, handler);
        worked
    }

    /// Looks at all descriptors, waiting for them as long as `patience` says, and does what is due.
    #[cold]
    #[inline(never)]
    fn look_around(&mut self, patience: Option<Duration>, handler: &mut impl Handler) -> io::Result<bool> {
        if let Some(error) = self.standalone.failed.take() {
            return Err(error);
        }
        let mut ready = std::mem::take(&mut self.standalone.ready);
        ready.clear();
        if let Some(poller) = &mut self.standalone.poller {
            ready.extend(poller.wait(patience)?);
        }
        self.base.refresh_clock();
        for one in &ready {
            self.on_ready(self.base.now, *one, handler);
        }
        let mut worked = !ready.is_empty();
        self.standalone.ready = ready;
        let now = self.base.now;
        self.publishing.look_at_lanes(&mut self.base, now, handler);
        self.receiving.incoming.rm.send_feedback(&self.base, self.base.now);
        self.receiving.incoming.ru.send_feedback(&self.base, self.base.now);
        self.receiving.settle_recovery(&self.base);
        if self.next_wakeup() <= self.base.now {
            worked |= self.receiving.has_found();
            self.on_wakeup(self.base.now, handler);
        }
        self.standalone.look_at =
            if self.base.is_simulated() { self.base.now } else { self.base.now + LOOK_EVERY };
        Ok(worked)
    }
}
