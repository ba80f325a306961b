//! Runs many seeds of the simulator, and makes each that fails smaller.
//!
//! `tickcast-topology RUNS [FROM [THREADS]]`: so many runs, from this seed on, by so many threads. The status is 1 if one
//! fails.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tickcast_topology::{Outcome, Plan, attempt, explain};

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let (runs, from, threads) = match numbers.as_deref() {
        Some(&[runs]) => (runs, 0, 1),
        Some(&[runs, from]) => (runs, from, 1),
        Some(&[runs, from, threads @ 1..=64]) => (runs, from, threads),
        _ => {
            eprintln!("usage: tickcast-topology RUNS [FROM [THREADS]], numbers, at most 64 threads");
            return ExitCode::FAILURE;
        }
    };
    let began = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut sum = Outcome::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= runs {
                return sum;
            }
            let plan = Plan::draw(from + at);
            match attempt(&plan) {
                Ok(outcome) => sum += outcome,
                Err(failure) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    println!("{}", explain(&plan, &failure));
                }
            }
        }
    };
    let mut sum = Outcome::default();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in all {
            sum += thread.join().expect("failures are caught");
        }
    });
    let (span, failed) = (began.elapsed().as_secs_f64(), failed.into_inner());
    println!("{runs} seeds from {from} in {span:.1} s, {:.0} a second: {failed} failed", runs as f64 / span);
    println!("{sum:#?}");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
