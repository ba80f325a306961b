use super::pattern::Pattern;
use crate::rate::TokenBucket;
use std::collections::VecDeque;
use std::time::Duration;
use units::Nanos;

/// The patterns of others' wildcard queries: those heard last stay compiled, and a bound on the work done for
/// them keeps a flood of costly ones from taking the thread.
pub(super) struct CompiledPatterns {
    /// The latest is last.
    kept: VecDeque<(Box<str>, Option<Pattern>)>,
    /// Names that may be looked at, as bytes of a rate.
    work: TokenBucket,
}

/// What became of a pattern.
pub(super) enum Compiled<'a> {
    Pattern(&'a Pattern),
    /// It is not understood.
    Unknown,
    /// There is too much to do already.
    Shed,
}

/// Patterns kept.
const KEPT_MAX: usize = 64;
/// Names looked at per second, and how many at once.
const NAMES_PER_SECOND: u64 = 2_000_000;
const NAMES_AT_ONCE: Duration = Duration::from_secs(1);
/// What compiling costs, in names looked at.
const COMPILE_NAMES: u64 = 10_000;

impl CompiledPatterns {
    pub(super) fn new(now: Nanos) -> CompiledPatterns {
        let work = TokenBucket::new(NAMES_PER_SECOND * 8, NAMES_AT_ONCE, 1, now);
        CompiledPatterns { kept: VecDeque::new(), work }
    }

    /// The pattern of a query that will be held against `names` names.
    pub(super) fn find(&mut self, now: Nanos, text: &str, names: usize) -> Compiled<'_> {
        let at = self.kept.iter().position(|kept| &*kept.0 == text);
        let cost = if at.is_some() { names as u64 } else { names as u64 + COMPILE_NAMES };
        // who has very many topics answers one query at a time
        if self.work.available(now) < cost.min(NAMES_PER_SECOND / 2) {
            return Compiled::Shed;
        }
        self.work.take(cost);
        let kept = match at.and_then(|at| self.kept.remove(at)) {
            Some(kept) => kept,
            None => {
                if self.kept.len() == KEPT_MAX {
                    self.kept.pop_front();
                }
                (text.into(), Pattern::parse(text).ok())
            }
        };
        self.kept.push_back(kept);
        match self.kept.back() {
            Some((_, Some(pattern))) => Compiled::Pattern(pattern),
            _ => Compiled::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_patterns_is_shed_and_time_makes_room_again() {
        let mut compiled = CompiledPatterns::new(Nanos::ZERO);
        let mut find = |now: Nanos, text: &str| match compiled.find(now, text, 0) {
            Compiled::Pattern(_) => "pattern",
            Compiled::Unknown => "unknown",
            Compiled::Shed => "shed",
        };
        let mut taken = 0;
        while find(Nanos::ZERO, &format!("a{taken}b")) == "pattern" {
            taken += 1;
        }
        assert_eq!(taken, 200, "compiling is counted like looking at 10,000 names");
        assert_eq!(find(Nanos::ZERO, "a199b"), "pattern", "one that is kept costs nothing but the names");
        assert_eq!(find(Nanos(10_000_000), "a777b"), "pattern", "a hundredth of a second later");
        assert_eq!(find(Nanos(1_000_000_000), "("), "unknown");
        assert_eq!(compiled.kept.len(), KEPT_MAX);
    }
}
