use super::pattern::Pattern;
use crate::rate::TokenBucket;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// The patterns of others' wildcard queries that wait to be held against our topics, some topics at a time; those
/// heard last stay compiled.
pub(super) struct Asked {
    /// The first is under way.
    waiting: VecDeque<Job>,
    /// The latest is last; none for what is not understood.
    compiled: VecDeque<(Box<str>, Option<Arc<Pattern>>)>,
    /// Patterns that may be compiled, as bytes of a rate.
    compiling: TokenBucket,
}

struct Job {
    text: Box<str>,
    /// The last topic that was looked at.
    after: Option<Box<str>>,
    has_begun: bool,
    found: bool,
    /// It was asked again since it has begun.
    again: bool,
}

/// What there is to look at.
pub(super) enum Look {
    /// The topics behind one, or all, by this pattern.
    At(Arc<Pattern>, Option<Box<str>>),
    /// Something that is not understood.
    Unknown,
    /// Too many were compiled lately.
    Later,
    Nothing,
}

/// Patterns that wait.
const WAITING_MAX: usize = 64;
/// Patterns kept compiled.
const COMPILED_MAX: usize = 64;
/// Patterns compiled per second, and how many at once.
const COMPILED_PER_SECOND: u64 = 200;
const COMPILED_AT_ONCE: u64 = 8;
/// What a pattern costs, in topics looked at, and what it costs to compile one.
const PATTERN_TOPICS: usize = 8;
const COMPILE_TOPICS: usize = 256;

impl Asked {
    pub(super) fn new(now: Nanos) -> Asked {
        let compiling = TokenBucket::new(COMPILED_PER_SECOND * 8, Duration::ZERO, COMPILED_AT_ONCE, now);
        Asked { waiting: VecDeque::new(), compiled: VecDeque::new(), compiling }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Somebody asks; false if too many wait already.
    pub(super) fn ask(&mut self, text: &str) -> bool {
        if let Some(job) = self.waiting.iter_mut().find(|job| &*job.text == text) {
            job.again |= job.has_begun;
            return true;
        }
        let is_room = self.waiting.len() < WAITING_MAX;
        if is_room {
            let (text, after) = (text.into(), None);
            self.waiting.push_back(Job { text, after, has_begun: false, found: false, again: false });
        }
        is_room
    }

    /// What to look at next; [`Asked::looked_at`] is to follow. Takes its cost of what is `left`.
    pub(super) fn next(&mut self, now: Nanos, left: &mut usize) -> Look {
        let Some(job) = self.waiting.front_mut() else { return Look::Nothing };
        *left = left.saturating_sub(PATTERN_TOPICS);
        let at = self.compiled.iter().position(|kept| kept.0 == job.text);
        let kept = match at.and_then(|at| self.compiled.remove(at)) {
            Some(kept) => kept,
            None => {
                if self.compiling.available(now) == 0 {
                    return Look::Later;
                }
                self.compiling.take(1);
                *left = left.saturating_sub(COMPILE_TOPICS);
                if self.compiled.len() == COMPILED_MAX {
                    self.compiled.pop_front();
                }
                (job.text.clone(), Pattern::parse(&job.text).ok().map(Arc::new))
            }
        };
        let pattern = kept.1.clone();
        self.compiled.push_back(kept);
        let Some(pattern) = pattern else {
            self.waiting.pop_front();
            return Look::Unknown;
        };
        job.has_begun = true;
        Look::At(pattern, job.after.clone())
    }

    /// Topics up to `last`, or all, were looked at; tells whether it was the first time that one was `found`.
    pub(super) fn looked_at(&mut self, last: Option<Box<str>>, found: bool) -> bool {
        let Some(mut job) = self.waiting.pop_front() else { return false };
        let is_first = found && !job.found;
        job.found |= found;
        match last {
            Some(_) => {
                job.after = last;
                self.waiting.push_front(job);
            }
            None if job.again => {
                let job = Job { after: None, has_begun: false, found: false, again: false, ..job };
                self.waiting.push_back(job);
            }
            None => {}
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patterns that are looked at in one step.
    fn step(asked: &mut Asked, now: Nanos) -> usize {
        let (mut left, mut count) = (512, 0);
        while left > 0 {
            match asked.next(now, &mut left) {
                Look::At(..) => drop(asked.looked_at(None, false)),
                Look::Unknown => {}
                Look::Later | Look::Nothing => break,
            }
            count += 1;
        }
        count
    }

    #[test]
    fn a_flood_of_patterns_is_shed_and_few_are_compiled_at_a_time() {
        let mut asked = Asked::new(Nanos::ZERO);
        let taken = (0..1_000).filter(|i| asked.ask(&format!("a{i}b"))).count();
        assert_eq!(taken, WAITING_MAX);
        let steps: Vec<usize> = (0..1_000).map(|ms| step(&mut asked, Nanos(ms * 1_000_000))).collect();
        assert_eq!(steps.iter().max(), Some(&2));
        assert_eq!(steps.iter().sum::<usize>(), WAITING_MAX);
        assert!(steps[..100].iter().sum::<usize>() <= 8 + 20);
        assert!(asked.ask("a1b") && asked.ask("("));
        assert_eq!(step(&mut asked, Nanos(2_000_000_000)), 2);
        assert!(asked.is_idle() && asked.compiled.len() == COMPILED_MAX);
    }

    #[test]
    fn what_is_asked_again_meanwhile_is_looked_at_once_more_and_what_waits_is_not() {
        let mut asked = Asked::new(Nanos::ZERO);
        assert!(asked.ask("^a") && asked.ask("^a"));
        let mut left = 512;
        assert!(matches!(asked.next(Nanos::ZERO, &mut left), Look::At(_, None)));
        assert!(asked.looked_at(Some("ab".into()), true));
        assert!(asked.ask("^a"));
        assert!(matches!(asked.next(Nanos::ZERO, &mut left), Look::At(_, Some(after)) if &*after == "ab"));
        assert!(!asked.looked_at(None, true), "counted once");
        assert!(matches!(asked.next(Nanos::ZERO, &mut left), Look::At(_, None)));
        assert!(asked.looked_at(None, true));
        assert!(asked.is_idle());
    }
}
