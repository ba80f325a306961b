//! Random tests that repeat. A test draws everything from a seed. When it fails, it prints one line,
//!
//! ```text
//! repeat with: SEED=77 cargo test --profile ci -p tickcast-lbt --test sim under_any_weather -- --exact
//! ```
//!
//! and the commit. `tests/repeat.rs` shows that the line is printed, and that it repeats the failure.
//! `tools/random_tests.py` refuses random tests that do not go through here.
//!
//! | use | for |
//! |---|---|
//! | [`for_each_seed!`](crate::for_each_seed) | a run for each seed of a range |
//! | [`properties!`](crate::properties) | tests by proptest; needs that crate |
//! | [`repeat!`](crate::repeat!) | a test with one seed, or with a judgement of its own |
//!
//! | variable | effect |
//! |---|---|
//! | `SEED=n` | this seed alone |
//! | `RUNS=n` | so many seeds instead of the usual number |
//! | `FROM=n` | begins so many seeds later |

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::process::Command;

/// Where a test stands; [`here!`](crate::here) makes it.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Name of the package.
    pub package: &'static str,
    /// Name of the crate that is compiled: of a library, a program or a file of tests.
    pub crate_name: &'static str,
    /// Name of the program, if it is one.
    pub program: Option<&'static str>,
}

/// The test that is compiled here.
#[macro_export]
macro_rules! here {
    () => {
        $crate::repeat::Test {
            package: ::core::env!("CARGO_PKG_NAME"),
            crate_name: ::core::env!("CARGO_CRATE_NAME"),
            program: ::core::option_env!("CARGO_BIN_NAME"),
        }
    };
}

/// Calls a closure with each seed of a range, or with those that the variables name. If it panics, the command
/// that repeats this seed is printed.
///
/// ```
/// # use tickcast_testkit as testkit;
/// testkit::for_each_seed!(0..3, |seed| assert!(seed < 3));
/// ```
#[macro_export]
macro_rules! for_each_seed {
    ($seeds:expr, $run:expr $(,)?) => {
        $crate::repeat::for_each_seed($crate::here!(), $seeds, $run)
    };
}

/// A [`Repeat`] of a seed, which `SEED` overrides. Without an argument, of a test with numbers that are the same in
/// every run.
///
/// ```
/// # use tickcast_testkit as testkit;
/// let repeat = testkit::repeat!(5);
/// assert_eq!(repeat.seed(), 5);
/// ```
#[macro_export]
macro_rules! repeat {
    () => {
        $crate::repeat::Repeat::of_fixed($crate::here!())
    };
    ($seed:expr) => {
        $crate::repeat::Repeat::of_seed($crate::here!(), $seed)
    };
}

/// Tests by proptest. Each takes a new seed, or that of `SEED`. A failure prints the command that repeats it; no
/// file is written. `cases: N;` in front is the number of cases in place of 256, which `PROPTEST_CASES` overrides.
///
/// ```
/// # use tickcast_testkit as testkit;
/// testkit::properties! {
///     cases: 100;
///
///     #[test]
///     fn zero_changes_nothing(n in 0_u32..1_000) {
///         proptest::prop_assert_eq!(n + 0, n);
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
#[allow(clippy::test_attr_in_doctest, reason = "it shows how tests are written")]
macro_rules! properties {
    (cases: $cases:expr; $($rest:tt)*) => {
        $crate::properties! { @each ($cases) $($rest)* }
    };
    (@each ($cases:expr) $(
        $(#[$meta:meta])*
        fn $name:ident($($parameters:tt)*) $body:block
    )*) => {
        $(
            $(#[$meta])*
            fn $name() {
                let repeat = $crate::repeat::Repeat::of_property($crate::here!());
                let config = ::proptest::test_runner::Config {
                    cases: $crate::repeat::cases($cases),
                    failure_persistence: ::core::option::Option::None,
                    rng_seed: ::proptest::test_runner::RngSeed::Fixed(repeat.seed()),
                    ..::proptest::test_runner::Config::default()
                };
                ::proptest::proptest!(config, |($($parameters)*)| $body);
            }
        )*
    };
    ($($rest:tt)*) => {
        $crate::properties! { @each (256) $($rest)* }
    };
}

/// See [`for_each_seed!`](crate::for_each_seed).
pub fn for_each_seed(test: Test, seeds: Range<u64>, mut run: impl FnMut(u64)) {
    for seed in chosen(seeds) {
        let _prints = Repeat::new(test, seed);
        run(seed);
    }
}

/// The seeds of a range, or those that the variables name instead.
#[must_use]
pub fn chosen(seeds: Range<u64>) -> Range<u64> {
    if let Some(seed) = given("SEED") {
        return seed..seed + 1;
    }
    let first = seeds.start + given("FROM").unwrap_or(0);
    first..first + given("RUNS").unwrap_or(seeds.end.saturating_sub(seeds.start))
}

/// Whether no variable names other seeds than the usual ones. A test that asserts how often something happened in
/// all its runs asks this first.
#[must_use]
pub fn seeds_are_usual() -> bool {
    ["SEED", "RUNS", "FROM"].iter().all(|name| given(name).is_none())
}

/// Whether a seed is repeated alone. A test that asserts that something happened in its runs asks this first.
#[must_use]
pub fn is_one_seed() -> bool {
    given("SEED").is_some()
}

/// A number from the environment.
///
/// # Panics
/// The variable is set and no number.
#[must_use]
pub fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// How many cases a property has: `PROPTEST_CASES`, or `usual`.
#[must_use]
pub fn cases(usual: u32) -> u32 {
    given(CASES).map_or(usual, |cases| cases as u32)
}

const CASES: &str = "PROPTEST_CASES";

/// The seed of one run. Dropped by a panic, it prints the command that repeats the run.
#[derive(Debug)]
pub struct Repeat {
    test: Test,
    seed: Option<u64>,
    /// Variables besides `SEED` that the run depends on.
    others: Vec<&'static str>,
}

impl Repeat {
    /// A run of this seed, whatever the environment says.
    #[must_use]
    pub fn new(test: Test, seed: u64) -> Repeat {
        Repeat { test, seed: Some(seed), others: Vec::new() }
    }

    /// A run that takes no seed from outside: its numbers are always the same.
    #[must_use]
    pub fn of_fixed(test: Test) -> Repeat {
        Repeat { test, seed: None, others: Vec::new() }
    }

    /// A run of the seed that `SEED` names, or of this one.
    #[must_use]
    pub fn of_seed(test: Test, usual: u64) -> Repeat {
        Repeat::new(test, given("SEED").unwrap_or(usual))
    }

    /// A run of the seed that `SEED` names, or of a new one.
    #[must_use]
    pub fn of_new_seed(test: Test) -> Repeat {
        Repeat::of_seed(test, RandomState::new().build_hasher().finish())
    }

    /// See [`properties!`](crate::properties).
    #[must_use]
    pub fn of_property(test: Test) -> Repeat {
        Repeat::of_new_seed(test).depending_on(CASES)
    }

    /// The run depends on this variable too: the command has it, if it is set.
    #[must_use]
    pub fn depending_on(mut self, variable: &'static str) -> Repeat {
        self.others.push(variable);
        self
    }

    /// The seed; 0 if there is none.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Prints the command and the commit: for runs that are judged without a panic.
    pub fn print(&self) {
        eprintln!("{self}\ncommit: {}", commit());
    }
}

/// `repeat with: ` and the command.
impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repeat with:")?;
        if let Some(seed) = self.seed {
            write!(f, " SEED={seed}")?;
        }
        for name in &self.others {
            if let Ok(value) = std::env::var(name) {
                write!(f, " {name}={value}")?;
            }
        }
        write!(f, " {}", self.test.command())
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
        }
    }
}

impl Test {
    /// The command that runs this test. The harness names the thread of a test after it. With one thread for all
    /// tests it does not; then the command runs all tests of the file.
    fn command(&self) -> String {
        let target = match self.program {
            Some(name) => format!("--bin {name}"),
            None if self.crate_name == self.package.replace('-', "_") => "--lib".to_owned(),
            None => format!("--test {}", self.crate_name),
        };
        let all = format!("cargo test --profile ci -p {} {target}", self.package);
        let thread = std::thread::current();
        match thread.name() {
            Some(name) if name != "main" => {
                let is_left_out =
                    std::env::args().any(|word| word == "--ignored" || word == "--include-ignored");
                format!("{all} {name} -- --exact{}", if is_left_out { " --include-ignored" } else { "" })
            }
            _ => all,
        }
    }
}

/// The commit that is checked out, and whether files differ from it.
fn commit() -> String {
    let git = |words: &[&str]| {
        let done = Command::new("git").args(words).output().ok().filter(|done| done.status.success());
        done.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}, with changes that are not committed"),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_package_target_and_test() {
        let test = |package, crate_name, program| Test { package, crate_name, program };
        let name = "repeat::tests::the_command_names_package_target_and_test -- --exact";
        for (test, target) in [
            (test("tickcast-lbt", "tickcast_lbt", None), "-p tickcast-lbt --lib"),
            (test("tickcast-lbt", "sim", None), "-p tickcast-lbt --test sim"),
            (test("tickcast", "tickcast", Some("tickcast")), "-p tickcast --bin tickcast"),
        ] {
            assert_eq!(test.command(), format!("cargo test --profile ci {target} {name}"));
        }
        let here = crate::here!();
        assert_eq!((here.package, here.crate_name), ("tickcast-testkit", "tickcast_testkit"));
    }
}
