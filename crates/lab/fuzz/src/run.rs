use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use units::Rng;

use crate::mutate::mutate;
use crate::{Outcome, Target};

/// Inputs kept at most; beyond, new ones take the place of old ones.
const KEPT_MAX: usize = 4096;

/// A random run of a target: its seeds first, then changes of what is worth changing. It follows from its
/// seed number.
#[derive(Debug)]
pub struct Run<'t> {
    target: &'t Target,
    rng: Rng,
    kept: Vec<Vec<u8>>,
    features: HashSet<u64>,
    input: Vec<u8>,
    accepted: u64,
    refused: u64,
}

/// An input on which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the target.
    pub target: &'static str,
    /// The input.
    pub input: Vec<u8>,
    /// What the panic said.
    pub said: String,
}

impl<'t> Run<'t> {
    /// A run that begins with the target's seeds.
    ///
    /// # Errors
    /// A [`Finding`] if one of them breaks a promise.
    pub fn new(target: &'t Target, seed: u64) -> Result<Run<'t>, Finding> {
        let mut run = Run {
            target,
            rng: Rng::new(seed),
            kept: Vec::new(),
            features: HashSet::new(),
            input: Vec::new(),
            accepted: 0,
            refused: 0,
        };
        for seed in target.seeds() {
            run.input = seed.bytes;
            let outcome = run.execute()?;
            run.features.insert(outcome.feature);
            run.kept.push(run.input.clone());
        }
        Ok(run)
    }

    /// Executes one changed input.
    ///
    /// # Errors
    /// A [`Finding`] if it breaks a promise.
    pub fn step(&mut self) -> Result<(), Finding> {
        let [base, other] = [self.draw(), self.draw()];
        self.input.clone_from(&self.kept[base]);
        mutate(&mut self.input, &self.kept[other], self.target.longest_bytes, &mut self.rng);
        let outcome = self.execute()?;
        if self.features.insert(outcome.feature) {
            self.keep();
        }
        Ok(())
    }

    /// Inputs taken and refused so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.accepted, self.refused)
    }

    /// Kinds of outcome seen so far.
    #[must_use]
    pub fn feature_count(&self) -> usize {
        self.features.len()
    }

    fn draw(&mut self) -> usize {
        self.rng.below(self.kept.len() as u64) as usize
    }

    fn keep(&mut self) {
        match self.kept.len() {
            0..KEPT_MAX => self.kept.push(self.input.clone()),
            _ => {
                let at = self.draw();
                self.kept[at].clone_from(&self.input);
            }
        }
    }

    fn execute(&mut self) -> Result<Outcome, Finding> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.target.execute(&self.input)));
        let outcome = outcome.map_err(|panic| Finding {
            target: self.target.name,
            input: self.input.clone(),
            said: said(panic.as_ref()),
        })?;
        *(if outcome.accepted { &mut self.accepted } else { &mut self.refused }) += 1;
        Ok(outcome)
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks its promise where three bytes in a row are right, which are found one after the other.
    const CANARY: Target = Target {
        name: "canary",
        about: "shows that what is there is found",
        longest_bytes: 16,
        seeds: "- 0000000000 zeros\n",
        execute: |input| {
            let right = input.iter().zip(b"BUG").take_while(|(byte, wanted)| byte == wanted).count();
            assert!(right < 3, "found");
            Outcome::refused(["none", "one", "two"][right])
        },
    };

    #[test]
    fn a_finding_is_found_and_told_and_follows_from_the_seed() {
        let find = |seed| {
            let mut run = Run::new(&CANARY, seed).expect("the seed is harmless");
            let found = (0..1_000_000).find_map(|_| run.step().err());
            (found.expect("within a million steps"), run.counts(), run.feature_count())
        };
        let (finding, (accepted, refused), features) = find(1);
        assert!(finding.input.starts_with(b"BUG"), "{finding:?}");
        assert_eq!((finding.target, &*finding.said), ("canary", "found"));
        assert!((accepted, features) == (0, 3) && refused > 3);
        assert_eq!(find(1).0, finding);
    }
}
