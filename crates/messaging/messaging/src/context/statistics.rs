//! What a context tells of itself.

use units::Nanos;

use super::Context;
use crate::statistics::walk::{count, page};
use crate::statistics::{STATISTICS_MAX, Statistic, StatisticsPosition};

impl Context {
    /// Tells `each` of the sessions it publishes on, those it receives, their peers, their streams, and its sources, in
    /// this order: [`STATISTICS_MAX`] of them at most. Returns where [`Context::statistics_from`] goes on if there are
    /// more.
    ///
    /// It takes time that grows with how many there are: for monitoring, about once a second, not for the path of a
    /// message. In a child made by `fork` nothing is told.
    #[must_use = "it says whether there is more"]
    pub fn statistics(&mut self, mut each: impl FnMut(Statistic<'_>)) -> Option<StatisticsPosition> {
        let mut told = 0;
        let mut at = StatisticsPosition::default();
        loop {
            at = self.statistics_from(at, STATISTICS_MAX - told, |one| {
                told += 1;
                each(one);
            })?;
            if told == STATISTICS_MAX {
                return Some(at);
            }
        }
    }

    /// The same from a position on, of at most `most` (one at least), and where to go on: with [`None`] all was told. A
    /// page may have fewer, or none, though others follow. What is there all the time is told once; peers of which
    /// others come or go between two pages may be told twice, or not.
    #[must_use = "it says whether there is more"]
    pub fn statistics_from(
        &mut self,
        from: StatisticsPosition,
        most: usize,
        each: impl FnMut(Statistic<'_>),
    ) -> Option<StatisticsPosition> {
        if !self.base.home.is_here() {
            return None;
        }
        self.base.refresh_clock();
        page(&self.publishing, &self.receiving, self.base.now, from, most, each)
    }

    /// How many there are to be told of at present.
    #[must_use]
    pub fn statistics_count(&self) -> usize {
        count(&self.publishing, &self.receiving)
    }

    pub(crate) fn take_census(&mut self, now: Nanos) {
        if now >= self.census.next_wakeup() {
            self.go_on_with_census(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on_with_census(&mut self, now: Nanos) {
        let (publishing, receiving) = (&self.publishing, &self.receiving);
        let page = |from, most, each: &mut dyn FnMut(Statistic<'_>)| {
            page(publishing, receiving, now, from, most, each)
        };
        self.census.take(now, page, || count(publishing, receiving));
    }
}
