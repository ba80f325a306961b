//! Which CPU each end of one or several pairs has, and whether it has to share it.

use crate::BenchError;

/// The CPUs of a pair's sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairCpus {
    pub(crate) cpus: [usize; 2],
    /// Whether another end has one of them too: then this pair's ends yield it when they have nothing to do, as spinning
    /// threads must not outnumber the CPUs.
    pub(crate) yields: bool,
}

/// Spreads so many pairs over the CPUs that are given: two, of all senders and of all receivers, or one for each end, the
/// senders' first.
///
/// # Errors
/// There are more or fewer, or a pair would have one CPU for both ends.
pub(crate) fn spread(pairs: usize, cpus: &[usize]) -> Result<Vec<PairCpus>, BenchError> {
    let ends: Vec<[usize; 2]> = match cpus {
        [near, far] => vec![[*near, *far]; pairs],
        cpus if cpus.len() == 2 * pairs => (0..pairs).map(|pair| [cpus[pair], cpus[pairs + pair]]).collect(),
        _ if pairs == 1 => return Err(BenchError::new(format!("--cpus: two that differ, not {cpus:?}"))),
        _ => {
            return Err(BenchError::new(format!(
                "--cpus: two, of all senders and of all receivers, or {}, the senders' first; not {cpus:?}",
                2 * pairs
            )));
        }
    };
    if let Some([cpu, _]) = ends.iter().find(|[near, far]| near == far) {
        return Err(BenchError::new(format!(
            "--cpus: the two ends of a pair need two that differ, not {cpu} twice"
        )));
    }
    let users = |cpu: usize| ends.iter().flatten().filter(|used| **used == cpu).count();
    let is_shared = |cpus: &[usize; 2]| cpus.iter().any(|cpu| users(*cpu) > 1);
    Ok(ends.iter().map(|cpus| PairCpus { cpus: *cpus, yields: is_shared(cpus) }).collect())
}

/// All CPUs that are used, each once.
pub(crate) fn used(pairs: &[PairCpus]) -> Vec<usize> {
    let mut all: Vec<usize> = pairs.iter().flat_map(|pair| pair.cpus).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The layout in words, for the note below a table.
pub(crate) fn told(pairs: &[PairCpus]) -> String {
    let (count, shared) = (pairs.len(), pairs.iter().filter(|pair| pair.yields).count());
    match (count, shared) {
        (1, _) => "One sender, one receiver, each a process alone on its CPU, which spins.".to_owned(),
        (_, 0) => {
            format!("{count} senders and {count} receivers, each a process alone on its CPU, which spins.")
        }
        _ => format!(
            "{count} senders and {count} receivers, each a process, on {} CPUs: those that share one yield it when they \
             have nothing to do, and do not spin.",
            used(pairs).len()
        ),
    }
}

/// Which of the pairs of a run a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Pair(usize),
    All,
}

impl Which {
    /// The rows of so many pairs: each, and all together if there are several.
    pub(crate) fn rows(count: usize) -> Vec<Which> {
        let each = (0..count).map(Which::Pair).filter(|_| count > 1);
        each.chain([Which::All]).collect()
    }

    pub(crate) fn of<T>(self, run: &[T]) -> &[T] {
        match self {
            Which::Pair(at) => run.get(at..=at).unwrap_or_default(),
            Which::All => run,
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Which::Pair(at) => write!(f, "{}", at + 1),
            Which::All => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_are_shared_and_one_for_each_end_is_not() {
        let two = spread(3, &[4, 5]).expect("all senders on one");
        assert_eq!(two, [PairCpus { cpus: [4, 5], yields: true }; 3]);
        assert!(told(&two).contains("on 2 CPUs") && told(&two).contains("yield"));
        let six = spread(3, &[0, 1, 2, 3, 4, 5]).expect("one each");
        assert_eq!(six.iter().map(|pair| pair.cpus).collect::<Vec<_>>(), [[0, 3], [1, 4], [2, 5]]);
        assert!(six.iter().all(|pair| !pair.yields) && used(&six) == [0, 1, 2, 3, 4, 5]);
        let one = spread(1, &[1, 0]).expect("one pair");
        assert_eq!((one[0].cpus, one[0].yields), ([1, 0], false));
    }

    #[test]
    fn only_those_yield_that_share() {
        let pairs = spread(3, &[0, 1, 2, 3, 3, 4]).expect("two receivers share");
        assert_eq!(pairs.iter().map(|pair| pair.yields).collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn other_numbers_and_one_cpu_for_both_ends_are_refused() {
        for (pairs, cpus) in [(3, &[0, 1, 2][..]), (1, &[0]), (1, &[0, 0]), (3, &[0, 1, 2, 3, 1, 5])] {
            let error = spread(pairs, cpus).expect_err("it does not do").to_string();
            assert!(error.starts_with("--cpus: "), "{error}");
        }
    }
}
