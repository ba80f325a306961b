use std::fmt;

use serde::Serialize;

/// Half round trips over a flag in shared memory up to this are those of two CPUs under one cache. On the
/// machines at hand they take 50 to 65 ns there and 230 to 300 ns elsewhere.
const NEAR_BELOW_NS: f64 = 120.0;

/// Where two CPUs lie with respect to each other.
///
/// A virtual machine does not say, and its CPUs may be moved at any time: only a measurement tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Under one cache.
    Near,
    /// Not so: what one has written reaches the other through the interconnect.
    Far,
    /// One at one time, the other at another.
    Changed,
}

impl Placement {
    /// By the half round trip of a flag between the two, nanoseconds.
    #[must_use]
    pub fn of(half_round_trip_ns: f64) -> Placement {
        if half_round_trip_ns <= NEAR_BELOW_NS { Placement::Near } else { Placement::Far }
    }

    /// What holds of a time in which both were seen.
    #[must_use]
    pub fn and(self, later: Placement) -> Placement {
        if self == later { self } else { Placement::Changed }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Near => "near",
            Placement::Far => "far",
            Placement::Changed => "changed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_travels_in_nanoseconds_is_near() {
        assert_eq!([55.0, 120.0, 121.0, 260.0].map(Placement::of), {
            use Placement::{Far, Near};
            [Near, Near, Far, Far]
        });
    }

    #[test]
    fn a_run_between_two_unlike_probes_has_changed_its_place() {
        use Placement::{Changed, Far, Near};
        assert_eq!((Near.and(Near), Far.and(Far), Near.and(Far)), (Near, Far, Changed));
        assert_eq!(Changed.and(Near), Changed);
        assert_eq!(format!("{Far:>5}"), "  far");
    }
}
