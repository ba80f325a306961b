//! Parts of a thread's work and the loop that drives them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

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
    drive(poller, strategy, agents, Nanos::NEVER, |_| !stop.load(Ordering::Relaxed))
}

/// Drives agents that are about to end until all have ended, or it is `until`.
///
/// # Errors
/// The poller failed.
pub fn finish(poller: &mut Poller, agents: &mut [&mut dyn Agent], until: Nanos) -> io::Result<()> {
    drive(poller, WaitStrategy::Block, agents, until, |agents| {
        clock::monotonic() < until && !agents.iter().all(|agent| agent.has_ended())
    })
}

#[inline]
fn drive(
    poller: &mut Poller,
    strategy: WaitStrategy,
    agents: &mut [&mut dyn Agent],
    until: Nanos,
    goes_on: impl Fn(&[&mut dyn Agent]) -> bool,
) -> io::Result<()> {
    let mut waiter = Waiter::new(strategy);
    let mut ready = Vec::with_capacity(256);
    while goes_on(agents) {
        let due = agents.iter().map(|a| a.next_wakeup()).min().unwrap_or(Nanos::NEVER).min(until);
        let until_timer = (due != Nanos::NEVER).then(|| due.since(clock::monotonic()));
        let timeout = waiter.timeout(!ready.is_empty(), until_timer);
        ready.clear();
        ready.extend(poller.wait(timeout)?);
        let now = clock::monotonic();
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
    Ok(())
}
