//! Fuzz targets: what bytes from a peer, or from a file, may do to the pure crates, and what must hold then.
//!
//! ```
//! use tickcast_fuzz::{Run, find};
//!
//! let target = find("rwf_message").expect("it is one of TARGETS");
//! println!("{}: {}", target.name, target.about);
//! assert!(!target.execute(b"no message").accepted);    // refused, and nothing panics
//!
//! // A run follows from its seed. It stops at the first input on which a promise is broken.
//! let mut run = Run::new(target, 42).map_err(|finding| finding.said)?;
//! let seeds = run.counts();
//! for _ in 0..100 {
//!     run.step().map_err(|finding| format!("{:02x?}: {}", finding.input, finding.said))?;
//! }
//! let (accepted, refused) = run.counts();
//! assert_eq!(accepted + refused, seeds.0 + seeds.1 + 100);
//! # Ok::<(), String>(())
//! ```
//!
//! A [`Target`] takes any bytes and checks promises of a crate on them: no panic, what is read can be written
//! and reads the same, whole and in pieces come to the same, memory and work stay in proportion to the input.
//! A promise that does not hold is a panic. The targets are driven
//!
//! - by [`Run`], which changes seeds at random and keeps inputs that led to something new: on the stable tool
//!   chain, from the tests for a moment and from the program `tickcast-fuzz` for as long as is wanted;
//! - by libFuzzer, guided by the branches that are taken, where a nightly tool chain is there (`libfuzzer/`).
//!
//! `make fuzz` does whichever is possible. Seeds are in `seeds/`, a file for each target.

mod input;
mod mutate;
mod outcome;
mod run;
mod seed;
mod targets;

pub use outcome::Outcome;
pub use run::{Finding, Run};
pub use seed::Seed;
pub use targets::{TARGETS, find};

/// Something that takes bytes from outside, and what it promises.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its file of seeds.
    pub name: &'static str,
    /// What is fed, and what must hold, in a line.
    pub about: &'static str,
    /// Inputs are not made longer than this.
    pub longest_bytes: usize,
    seeds: &'static str,
    execute: fn(&[u8]) -> Outcome,
}

impl Target {
    /// Feeds one input.
    ///
    /// # Panics
    /// If a promise is broken: that is what is looked for.
    #[must_use]
    pub fn execute(&self, input: &[u8]) -> Outcome {
        (self.execute)(input)
    }

    /// The inputs to begin with.
    ///
    /// # Panics
    /// If the file of seeds, which is part of the program, is not well formed.
    #[must_use]
    pub fn seeds(&self) -> Vec<Seed> {
        seed::read(self.name, self.seeds)
    }
}
