//! What a set of latencies comes to, exactly: of every one of them, none rounded into a class.

use std::io;

use serde::{Serialize, Serializer};

use super::sorter::{Sorted, Sorter};
use crate::PERCENTILES;

/// Buckets of a histogram that are kept apart; what is beyond counts as one.
const MOST_BUCKETS: usize = 100_000;

/// Latencies of one pair of points, nanoseconds. They are negative where the clock of the receiving host is behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How many there are.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Standard deviation, of the population.
    pub deviation_ns: f64,
    /// The shortest.
    pub min_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// By name, as `p99.9`, interpolated between the two points around it, as NumPy does; none where less than one point is
    /// above.
    #[serde(serialize_with = "as_object")]
    pub percentiles_ns: Vec<(&'static str, Option<f64>)>,
    /// Below zero.
    pub negative: u64,
    /// Width of a bucket of the histogram.
    pub bucket_ns: u64,
    /// Buckets that are not empty: where each begins, and how many are in it.
    pub buckets: Vec<(i64, u64)>,
    /// Points beyond the last of 100,000 buckets.
    pub beyond: u64,
}

fn as_object<S: Serializer>(percentiles: &[(&'static str, Option<f64>)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(percentiles.iter().copied())
}

/// Collects them.
pub(super) struct Collector {
    sorter: Sorter<1>,
    count: u64,
    sum: i128,
}

/// Words whose order is that of the numbers.
const SIGN: u64 = 1 << 63;

impl Collector {
    pub(super) fn new(sorter: Sorter<1>) -> Collector {
        Collector { sorter, count: 0, sum: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, ns: i64) -> io::Result<()> {
        self.count += 1;
        self.sum += i128::from(ns);
        self.sorter.push([ns as u64 ^ SIGN])
    }

    pub(super) fn figures(self, bucket_ns: u64) -> io::Result<Figures> {
        let Collector { sorter, count, sum } = self;
        let mut figures = Figures { count, bucket_ns, ..Figures::default() };
        if count == 0 {
            figures.percentiles_ns = PERCENTILES.map(|(name, ..)| (name, None)).to_vec();
            return Ok(figures);
        }
        // The whole part exactly, so that what is behind the point keeps its digits however large the sum is.
        let (whole, rest) = (sum.div_euclid(i128::from(count)), sum.rem_euclid(i128::from(count)));
        let rest = rest as f64 / count as f64;
        figures.mean_ns = whole as f64 + rest;
        let mut looking = Looking::new(&mut figures, whole as i64, rest);
        let mut sorted: Sorted<1> = sorter.finish()?;
        while let Some([word]) = sorted.next()? {
            looking.look((word ^ SIGN) as i64);
        }
        looking.end();
        Ok(figures)
    }
}

/// Goes over the latencies from the shortest to the longest.
struct Looking<'a> {
    figures: &'a mut Figures,
    /// The mean, in two parts.
    mean: (i64, f64),
    /// Sum of the squares of the distances to the mean, and what was rounded off it.
    squares: (f64, f64),
    seen: u64,
    last: i64,
    /// Ranks that percentiles need, each with the percentile and which of its two points it is; the next one first.
    ranks: std::iter::Peekable<std::vec::IntoIter<(u64, usize, bool)>>,
    /// The two points around each percentile.
    around: [[i64; 2]; PERCENTILES.len()],
}

impl<'a> Looking<'a> {
    fn new(figures: &'a mut Figures, whole: i64, rest: f64) -> Looking<'a> {
        let last = figures.count - 1;
        let mut ranks: Vec<_> = PERCENTILES
            .iter()
            .enumerate()
            .flat_map(|(at, (_, share, _))| {
                let low = (last as f64 * share) as u64;
                [(low.min(last), at, false), ((low + 1).min(last), at, true)]
            })
            .collect();
        ranks.sort_unstable();
        let ranks = ranks.into_iter().peekable();
        Looking {
            figures,
            mean: (whole, rest),
            squares: (0.0, 0.0),
            seen: 0,
            last: 0,
            ranks,
            around: Default::default(),
        }
    }

    #[inline]
    fn look(&mut self, ns: i64) {
        if self.seen == 0 {
            self.figures.min_ns = ns;
        }
        while let Some((_, at, is_upper)) = self.ranks.next_if(|(rank, ..)| *rank == self.seen) {
            self.around[at][usize::from(is_upper)] = ns;
        }
        self.seen += 1;
        self.last = ns;
        self.figures.negative += u64::from(ns < 0);
        let apart = (i128::from(ns) - i128::from(self.mean.0)) as f64 - self.mean.1;
        // Neumaier's sum: what a step loses is kept beside it.
        let (sum, square) = (self.squares.0, apart * apart);
        let next = sum + square;
        self.squares.1 += if sum >= square { (sum - next) + square } else { (square - next) + sum };
        self.squares.0 = next;
        self.bucket(ns);
    }

    #[inline]
    fn bucket(&mut self, ns: i64) {
        let width = self.figures.bucket_ns as i64;
        let begins = ns.div_euclid(width).saturating_mul(width);
        let has_room = self.figures.buckets.len() < MOST_BUCKETS;
        match self.figures.buckets.last_mut() {
            Some((last, count)) if *last == begins => *count += 1,
            _ if has_room => self.figures.buckets.push((begins, 1)),
            _ => self.figures.beyond += 1,
        }
    }

    fn end(self) {
        let (figures, count) = (self.figures, self.seen);
        figures.max_ns = self.last;
        figures.deviation_ns = ((self.squares.0 + self.squares.1) / count as f64).sqrt();
        figures.percentiles_ns = PERCENTILES
            .iter()
            .zip(self.around)
            .map(|((name, share, _), [low, high])| {
                let rank = (count - 1) as f64 * share;
                let is_told = count as f64 * (1.0 - share) > 0.999;
                (*name, is_told.then(|| between(low as f64, high as f64, rank.fract())))
            })
            .collect();
    }
}

/// As NumPy interpolates, from the nearer of the two.
fn between(low: f64, high: f64, part: f64) -> f64 {
    if part >= 0.5 { high - (high - low) * (1.0 - part) } else { low + (high - low) * part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = i64>, bucket_ns: u64) -> Figures {
        let mut collector = Collector::new(Sorter::new(0, &std::env::temp_dir()));
        values.into_iter().for_each(|ns| collector.add(ns).expect("a place for temporary files"));
        collector.figures(bucket_ns).expect("a place for temporary files")
    }

    #[test]
    fn figures_are_those_of_the_definition() {
        let figures = of([4, 2, 1, 3], 2);
        assert_eq!((figures.count, figures.mean_ns, figures.min_ns, figures.max_ns), (4, 2.5, 1, 4));
        assert_eq!(figures.deviation_ns, 1.25_f64.sqrt());
        assert_eq!(figures.percentiles_ns[0], ("p50", Some(2.5)));
        assert_eq!(figures.percentiles_ns[1], ("p90", None), "four points have none above it");
        assert_eq!(figures.buckets, [(0, 1), (2, 2), (4, 1)]);
        let hundred = of(0..100, 10);
        let told: Vec<f64> = hundred.percentiles_ns.iter().filter_map(|(_, ns)| *ns).collect();
        let near = told.iter().zip([49.5, 89.1, 98.01]).all(|(found, ns)| (found - ns).abs() < 1e-9);
        assert!(near && told.len() == 3, "{told:?}");
    }

    #[test]
    fn times_below_zero_and_far_from_it_keep_their_digits() {
        let figures = of([-15, -5, 5], 10);
        assert_eq!((figures.mean_ns, figures.negative, figures.min_ns), (-5.0, 2, -15));
        assert_eq!(figures.buckets, [(-20, 1), (-10, 1), (0, 1)]);
        let far = 1 << 52;
        let figures = of([far, far + 1, far + 2, far + 3], 10_000);
        assert_eq!(figures.deviation_ns, 1.25_f64.sqrt(), "no digit is lost in the squares");
        let ends = of([i64::MIN, i64::MAX], 1);
        assert_eq!((ends.min_ns, ends.max_ns, ends.mean_ns), (i64::MIN, i64::MAX, -0.5));
    }

    #[test]
    fn nothing_has_no_figures_and_too_many_buckets_are_counted() {
        assert_eq!(of([], 10).percentiles_ns.iter().filter(|(_, ns)| ns.is_some()).count(), 0);
        let spread = of((0..100_002).map(|at| at * 5), 1);
        assert_eq!((spread.buckets.len(), spread.beyond), (100_000, 2));
    }
}
