//! Parts of a thread's work and the loop that drives them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use counters::table::Thread;
use units::Nanos;

use crate::{Poller, Ready, WaitStrategy, Waiter, clock};

/// A part of a thread's work: a daemon, or a piece of one. Several agents share a thread, a poller and a
/// clock.
pub trait Agent {
    /// Whether a descriptor that was registered under this upper half of a token is this agent's.
    fn owns(&self, token_space: u32) -> bool;
    /// A descriptor is ready.
    fn on_ready(&mut self, now: Nanos, ready: Ready);
    /// Does what is due, and sends what waits for more.
    fn turn(&mut self, now: Nanos);
    /// When [`Agent::turn`] is due next.
    fn next_wakeup(&self) -> Nanos;
    /// Whether nothing is left to be done of what was begun to end it; see [`finish`].
    fn has_ended(&self) -> bool {
        true
    }
}

/// Drives agents until `stop` is set: waits for descriptors and timers, hands them on, gives each agent its
/// turn.
///
/// Everything that has arrived is taken before anything is sent: at low rates that is a message at a time, at
/// high rates what goes out is full. To stop a thread that may be blocked, wake its poller after setting
/// `stop`.
///
/// # Errors
/// The poller failed.
pub fn run(
    poller: &mut Poller,
    strategy: WaitStrategy,
    agents: &mut [&mut dyn Agent],
    stop: &AtomicBool,
) -> io::Result<()> {
    run_counted(poller, strategy, agents, stop, &Thread::default())
}

/// The same, and counts how much of its time the thread works. The clock is read twice a turn for it, never for a
/// message.
///
/// # Errors
/// The poller failed.
pub fn run_counted(
    poller: &mut Poller,
    strategy: WaitStrategy,
    agents: &mut [&mut dyn Agent],
    stop: &AtomicBool,
    counters: &Thread,
) -> io::Result<()> {
    drive(poller, strategy, agents, Nanos::NEVER, counters, |_| !stop.load(Ordering::Relaxed))
}

/// Goes on as [`run_counted`] with agents that are about to end, as long as `goes_on` says and it is not `until`.
///
/// # Errors
/// The poller failed.
pub fn run_while(
    poller: &mut Poller,
    strategy: WaitStrategy,
    agents: &mut [&mut dyn Agent],
    until: Nanos,
    counters: &Thread,
    goes_on: impl Fn(&[&mut dyn Agent]) -> bool,
) -> io::Result<()> {
    drive(poller, strategy, agents, until, counters, |agents| clock::monotonic() < until && goes_on(agents))
}

/// Drives agents that are about to end until all have ended, or it is `until`.
///
/// # Errors
/// The poller failed.
pub fn finish(poller: &mut Poller, agents: &mut [&mut dyn Agent], until: Nanos) -> io::Result<()> {
    drive(poller, WaitStrategy::Block, agents, until, &Thread::default(), |agents| {
        clock::monotonic() < until && !agents.iter().all(|agent| agent.has_ended())
    })
}

#[inline]
fn drive(
    poller: &mut Poller,
    strategy: WaitStrategy,
    agents: &mut [&mut dyn Agent],
    until: Nanos,
    counters: &Thread,
    goes_on: impl Fn(&[&mut dyn Agent]) -> bool,
) -> io::Result<()> {
    let mut waiter = Waiter::new(strategy);
    let mut ready = Vec::with_capacity(256);
    let mut load = Load::new(clock::monotonic());
    while goes_on(agents) {
        let due = agents.iter().map(|a| a.next_wakeup()).min().unwrap_or(Nanos::NEVER).min(until);
        let ended = clock::monotonic();
        load.end_turn(ended, counters);
        let until_timer = (due != Nanos::NEVER).then(|| due.since(ended));
        let timeout = waiter.timeout(!ready.is_empty(), until_timer);
        ready.clear();
        ready.extend(poller.wait(timeout)?);
        let now = clock::monotonic();
        load.begin_turn(now, !ready.is_empty() || due <= now, counters);
        for one in &ready {
            let space = (one.token.0 >> 32) as u32;
            if let Some(agent) = agents.iter_mut().find(|a| a.owns(space)) {
                agent.on_ready(now, *one);
            }
        }
        for agent in agents.iter_mut() {
            agent.turn(now);
        }
    }
    load.end_turn(clock::monotonic(), counters);
    Ok(())
}

/// How a thread's time is spent: turns that found work, and all else.
struct Load {
    /// When the present turn began, or the last one ended.
    since: Nanos,
    works: bool,
}

impl Load {
    fn new(now: Nanos) -> Load {
        Load { since: now, works: false }
    }

    #[inline]
    fn begin_turn(&mut self, now: Nanos, works: bool, counters: &Thread) {
        counters.waiting_ns.add(self.take(now));
        self.works = works;
        counters.turns.add(u64::from(works));
    }

    #[inline]
    fn end_turn(&mut self, now: Nanos, counters: &Thread) {
        let took_ns = self.take(now);
        if !std::mem::take(&mut self.works) {
            // A turn that has looked in vain is a part of waiting: a thread that spins is not busy for that.
            counters.waiting_ns.add(took_ns);
            return;
        }
        counters.working_ns.add(took_ns);
        if took_ns > LONG_TURN_NS {
            note_long_turn(took_ns, counters);
        }
    }

    /// Nanoseconds since the last look.
    #[inline]
    fn take(&mut self, now: Nanos) -> u64 {
        let before = std::mem::replace(&mut self.since, now);
        now.0.saturating_sub(before.0)
    }
}

/// Turns beyond it are counted by their length.
const LONG_TURN_NS: u64 = 100_000;

#[cold]
fn note_long_turn(took_ns: u64, counters: &Thread) {
    let bounds =
        [(1, &counters.turns_above_1ms), (5, &counters.turns_above_5ms), (20, &counters.turns_above_20ms)];
    for (ms, turns) in bounds {
        turns.add(u64::from(took_ns > ms * 1_000_000));
    }
    counters.longest_turn_ns.set(counters.longest_turn_ns.get().max(took_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turns_are_counted_by_what_they_exceed() {
        let (counters, mut load) = (Thread::default(), Load::new(Nanos(0)));
        let mut now = 0;
        for took_ns in [1_000_000, 1_000_001, 5_000_001, 30_000_000, 90_000] {
            load.begin_turn(Nanos(now), true, &counters);
            now += took_ns;
            load.end_turn(Nanos(now), &counters);
        }
        // A long wait is no long turn.
        load.begin_turn(Nanos(now + 1_000_000_000), false, &counters);
        load.end_turn(Nanos(now + 2_000_000_000), &counters);
        let above = [&counters.turns_above_1ms, &counters.turns_above_5ms, &counters.turns_above_20ms];
        assert_eq!(above.map(|turns| turns.get()), [3, 2, 1]);
        assert_eq!(counters.longest_turn_ns.get(), 30_000_000);
    }

    #[test]
    fn turns_that_find_work_are_working_time_and_all_else_is_waiting() {
        let (counters, mut load) = (Thread::default(), Load::new(Nanos(100)));
        // Each: waits until, finds work, is done at.
        for (begins, works, ends) in
            [(150, true, 180), (200, false, 205), (205, false, 210), (300, true, 301)]
        {
            load.begin_turn(Nanos(begins), works, &counters);
            load.end_turn(Nanos(ends), &counters);
        }
        let counted = (counters.turns.get(), counters.working_ns.get(), counters.waiting_ns.get());
        assert_eq!(counted, (2, 31, 170), "201 ns in all");
    }

    /// Does something in each of its turns until it has had so many.
    struct Turns<'s>(u32, &'s AtomicBool);

    impl Agent for Turns<'_> {
        fn owns(&self, _: u32) -> bool {
            false
        }

        fn on_ready(&mut self, _: Nanos, _: Ready) {}

        fn turn(&mut self, _: Nanos) {
            self.0 -= 1;
            self.1.store(self.0 == 0, Ordering::Relaxed);
        }

        fn next_wakeup(&self) -> Nanos {
            Nanos::ZERO
        }
    }

    #[test]
    fn a_thread_counts_the_turns_that_were_due() {
        let (stop, counters) = (AtomicBool::new(false), Thread::default());
        let mut poller = Poller::new().expect("descriptors are left");
        let agents: &mut [&mut dyn Agent] = &mut [&mut Turns(5, &stop)];
        run_counted(&mut poller, WaitStrategy::Block, agents, &stop, &counters).expect("it polls");
        assert_eq!(counters.turns.get(), 5);
        assert!(counters.working_ns.get() > 0, "five turns take some time");
    }
}
