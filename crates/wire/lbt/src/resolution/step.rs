//! Work that a datagram of a few bytes can ask for, done in steps of bounded length: patterns of others are held
//! against our topics, everything is repeated, what was not heard for long is forgotten.

use super::asked::Look;
use super::pattern::Pattern;
use super::resolver::Resolver;
use super::transmit::{Lane, Subject, arm};
use crate::wire::lbmr::ResolutionRequest;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::Range;
use std::time::Duration;
use units::Nanos;

/// From one step to the next.
pub(super) const STEP: Duration = Duration::from_millis(1);
/// Topics and records that are looked at in one.
const LOOKED_AT_MAX: usize = 512;
/// Sources that are forgotten in one.
const FORGOTTEN_MAX: usize = 64;

/// What is left of the step that is under way.
#[derive(Default)]
pub(super) struct Step {
    left: usize,
    /// When the next begins.
    from: Nanos,
}

/// What others may ask everybody to repeat; each is repeated as a whole before the next time.
#[derive(Default)]
pub(super) struct Repeats {
    passes: [Pass; 3],
}

#[derive(Default)]
struct Pass {
    /// The next slot of the pass that is under way.
    at: Option<u32>,
    is_wanted: bool,
    /// When another may begin.
    from: Nanos,
}

/// From the begin of a pass to that of the next.
const REPEAT_EVERY: Duration = Duration::from_secs(5);
const KINDS: [(u16, Subject); 3] = [
    (ResolutionRequest::ADVERTISEMENTS, Subject::Advertisement),
    (ResolutionRequest::QUERIES, Subject::Query),
    (ResolutionRequest::WILDCARD_QUERIES, Subject::Wildcard),
];

impl Repeats {
    /// Somebody asks; tells whether that has to wait for the pass before.
    pub(super) fn ask(&mut self, now: Nanos, mask: u16) -> bool {
        let mut waits = false;
        for (pass, _) in self.passes.iter_mut().zip(KINDS).filter(|(_, (bit, _))| mask & bit != 0) {
            waits |= pass.is_wanted || pass.at.is_some() || now < pass.from;
            pass.is_wanted = true;
        }
        waits
    }

    fn due(&self) -> Nanos {
        let due = |pass: &Pass| match pass.at {
            Some(_) => Nanos::ZERO,
            None if pass.is_wanted => pass.from,
            None => Nanos::NEVER,
        };
        self.passes.iter().map(due).fold(Nanos::NEVER, Nanos::min)
    }

    /// The next slots of the pass that is due, of `capacity` for each kind, at most `left` of them.
    fn next(
        &mut self,
        now: Nanos,
        left: usize,
        capacity: impl Fn(Subject) -> u32,
    ) -> Option<(Subject, Range<u32>)> {
        for (pass, (_, subject)) in self.passes.iter_mut().zip(KINDS) {
            if pass.at.is_none() && pass.is_wanted && now >= pass.from {
                *pass = Pass { at: Some(0), is_wanted: false, from: now + REPEAT_EVERY };
            }
            let Some(at) = pass.at else { continue };
            let end = capacity(subject).min(at.saturating_add(left as u32));
            pass.at = (end < capacity(subject)).then_some(end);
            return Some((subject, at..end));
        }
        None
    }
}

impl Resolver {
    /// When there is something to do in a step.
    pub(super) fn step_due(&self) -> Nanos {
        let patterns = if self.asked.is_idle() { Nanos::NEVER } else { Nanos::ZERO };
        let due = patterns.min(self.repeats.due()).min(self.cache.expiry_due());
        if self.step.left > 0 { due } else { due.max(self.step.from) }
    }

    /// Does as much of that as the step leaves.
    pub(super) fn step(&mut self, now: Nanos) {
        if now >= self.step.from {
            self.step = Step { left: LOOKED_AT_MAX, from: now + STEP };
        }
        if now < self.step_due() {
            return;
        }
        self.look_at_patterns(now);
        while self.step.left > 0 {
            let next = self.repeats.next(now, self.step.left, |subject| match subject {
                Subject::Advertisement => self.advertisements.capacity(),
                Subject::Query | Subject::Wildcard => self.queries.capacity(),
            });
            let Some((subject, slots)) = next else { break };
            self.step.left = self.step.left.saturating_sub(slots.len().max(1));
            self.repeat(now, subject, slots);
        }
        let mut gone = Vec::new();
        self.cache.expire(now, self.step.left.min(FORGOTTEN_MAX), |source| gone.push(source));
        if !gone.is_empty() {
            self.step.left = self.step.left.saturating_sub(gone.len());
            self.on_gone(now, gone);
        }
    }

    fn repeat(&mut self, now: Nanos, subject: Subject, slots: Range<u32>) {
        for slot in slots {
            if subject == Subject::Advertisement {
                self.wake_advertisement(now, slot, Lane::Slow);
                continue;
            }
            let Some(query) = self.queries.get_mut(slot).filter(|query| query.subject() == subject) else {
                continue;
            };
            let phases = if subject == Subject::Wildcard { &self.wildcard_querying } else { &self.querying };
            query.timer.schedule.wake(phases, now, true);
            arm(&mut self.timers, &mut query.timer, subject, slot);
            self.outbox.enqueue(&mut query.timer, subject, slot, Lane::Slow);
        }
    }

    fn look_at_patterns(&mut self, now: Nanos) {
        let mut left = self.step.left;
        let mut wanted = Vec::new();
        while left > 0 {
            let (pattern, after) = match self.asked.next(now, &mut left) {
                Look::At(pattern, after) => (pattern, after),
                Look::Unknown => {
                    self.counters.patterns_ignored.inc();
                    continue;
                }
                Look::Nothing => break,
                // One is compiled in the next step.
                Look::Later => {
                    left = 0;
                    break;
                }
            };
            wanted.clear();
            let last = match &*pattern {
                Pattern::Exact(name) => {
                    wanted.extend(self.ads_by_topic.get(name.as_str()).into_iter().flatten());
                    None
                }
                Pattern::Prefix(_) | Pattern::Expression(_) => {
                    scan(&self.ads_by_topic, &pattern, after, &mut left, &mut wanted)
                }
            };
            if self.asked.looked_at(last, !wanted.is_empty()) {
                self.counters.queries_answered.inc();
            }
            wanted.iter().for_each(|&slot| self.wake_advertisement(now, slot, Lane::Fast));
        }
        self.step.left = left;
    }
}

/// Puts the sources of topics behind `after` that a pattern asks for into `wanted`, as long as something is
/// `left`; returns behind which topic to go on, if there are more.
fn scan(
    ads: &BTreeMap<Box<str>, Vec<u32>>,
    pattern: &Pattern,
    after: Option<Box<str>>,
    left: &mut usize,
    wanted: &mut Vec<u32>,
) -> Option<Box<str>> {
    let prefix = if let Pattern::Prefix(prefix) = pattern { prefix.as_str() } else { "" };
    let from = after.as_deref().map_or(Included(prefix), Excluded);
    let range = ads.range::<str, _>((from, Unbounded));
    for (topic, slots) in range.take_while(|(topic, _)| topic.starts_with(prefix)) {
        *left = left.saturating_sub(1);
        if pattern.matches(topic) {
            wanted.extend(slots);
        }
        if *left == 0 {
            return Some(topic.clone());
        }
    }
    None
}
