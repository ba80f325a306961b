//! A random test that fails prints a command, and the command repeats the failure. The failures are planted in tests
//! that are ignored; this file starts itself to run them.

use std::process::Command;

use tickcast_testkit as testkit;

/// What a planted failure needs to happen, so that nobody else meets it.
const PLANT: &str = "PLANTED";

fn is_planted() -> bool {
    std::env::var_os(PLANT).is_some()
}

#[test]
#[ignore = "fails by intention, for the tests below"]
fn planted_for_a_seed() {
    testkit::for_each_seed!(0..20, |seed| {
        println!("ran {seed}");
        assert!(!is_planted() || seed % 10 != 7, "planted");
    });
}

#[test]
#[ignore = "fails by intention, for the tests below"]
fn planted_for_one_seed() {
    let repeat = testkit::repeat::Repeat::of_new_seed(testkit::here!()).depending_on("STEPS");
    println!("ran {}", repeat.seed());
    assert!(!is_planted(), "planted");
}

testkit::properties! {
    cases: 2_000;

    #[test]
    #[ignore = "fails by intention, for the tests below"]
    fn planted_for_a_property(number in 0_u64..1 << 40, text in "[a-z]{0,8}") {
        println!("ran {number} {text}");
        proptest::prop_assert!(!is_planted() || number % 100 != 77, "planted");
    }
}

/// Runs a planted test with these variables; whether it passed, and what it printed.
fn run(name: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    for name in ["SEED", "RUNS", "FROM", "PROPTEST_CASES", "STEPS"] {
        command.env_remove(name);
    }
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=2"]).env(PLANT, "1");
    let done = command.envs(variables.iter().copied()).output().expect("this file runs");
    let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (done.status.success(), text)
}

/// The variables of the line that was printed, when the rest of it is as it must be.
fn variables<'t>(printed: &'t str, name: &str) -> Vec<(&'t str, &'t str)> {
    let lines: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("repeat with: ")).collect();
    let [line] = lines[..] else { panic!("one line says how to repeat it: {printed}") };
    let (variables, command) = line.split_once(" cargo ").expect("variables come first");
    let rest = format!("{name} -- --exact --include-ignored");
    assert_eq!(command, format!("test --profile ci -p tickcast-testkit --test repeat {rest}"));
    assert!(printed.contains("\ncommit: "), "{printed}");
    variables.split(' ').map(|one| one.split_once('=').expect("a name and a value")).collect()
}

fn ran(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.strip_prefix("ran ")).collect()
}

#[test]
fn a_seed_that_fails_is_repeated_alone() {
    let name = "planted_for_a_seed";
    let (passes, printed) = run(name, &[]);
    let variables = variables(&printed, name);
    assert_eq!((passes, &variables[..], ran(&printed).len()), (false, &[("SEED", "7")][..], 8));
    let (passes, printed) = run(name, &variables);
    assert_eq!((passes, ran(&printed)), (false, vec!["7"]));
    let (passes, printed) = run(name, &[("SEED", "8")]);
    assert_eq!((passes, ran(&printed)), (true, vec!["8"]));
    assert!(!printed.contains("repeat with"), "{printed}");
    let (passes, printed) = run(name, &[("FROM", "8"), ("RUNS", "9")]);
    assert_eq!((passes, ran(&printed).len(), ran(&printed)[0]), (true, 9, "8"));
}

#[test]
fn a_new_seed_that_fails_is_repeated_with_what_it_depends_on() {
    let name = "planted_for_one_seed";
    let (passes, printed) = run(name, &[("STEPS", "5")]);
    let variables = variables(&printed, name);
    assert_eq!((passes, variables.len(), variables[1]), (false, 2, ("STEPS", "5")));
    let (_, again) = run(name, &variables);
    assert_eq!(ran(&again), ran(&printed));
    assert_ne!(ran(&run(name, &[]).1), ran(&printed), "without SEED another one is taken");
}

#[test]
fn a_property_that_fails_is_repeated_case_for_case() {
    let name = "planted_for_a_property";
    let (passes, printed) = run(name, &[("PROPTEST_CASES", "3000")]);
    let variables = variables(&printed, name);
    assert_eq!((passes, variables[1]), (false, ("PROPTEST_CASES", "3000")));
    assert!(printed.contains("minimal failing input"), "{printed}");
    let (passes, again) = run(name, &variables);
    assert!(!passes && ran(&again).len() > 10);
    assert_eq!(ran(&again), ran(&printed), "all cases, and those that make the input smaller");
    assert_ne!(ran(&run(name, &[]).1), ran(&printed), "without SEED another one is taken");
}
