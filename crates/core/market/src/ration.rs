//! How many lines others may cause.

use units::Nanos;

/// Gives leave to report something, so often in a while; what was not reported is counted until the next time.
#[derive(Debug, Default)]
pub struct Ration {
    began_at: Nanos,
    given: u32,
    held_back: u64,
}

/// So many reports in each span of time.
const REPORTS_MAX: u32 = 10;
pub(crate) const SPAN: std::time::Duration = std::time::Duration::from_secs(10);

impl Ration {
    /// `None` if nothing may be reported now; else how many reports were held back since the last one.
    pub fn take(&mut self, now: Nanos) -> Option<u64> {
        if now >= self.began_at + SPAN {
            self.began_at = now;
            self.given = 0;
        }
        if self.given >= REPORTS_MAX {
            self.held_back += 1;
            return None;
        }
        self.given += 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_few_in_a_while_and_those_held_back_are_counted() {
        let mut ration = Ration::default();
        let begin = Nanos(SPAN.as_nanos() as u64 * 5);
        let given = (0..25).filter_map(|_| ration.take(begin)).collect::<Vec<u64>>();
        assert_eq!(given, [0; REPORTS_MAX as usize]);
        assert_eq!((ration.take(begin + SPAN), ration.take(begin + SPAN)), (Some(15), Some(0)));
    }
}
