//! Contenders that are compared: in turns, with a look at the machine around each round.

use std::sync::Arc;

use measure::{Placement, Runs};
use serde_json::json;
use testkit::hosts::Lab;

use crate::pair::{Contender, Kind, Path};
use crate::report::Report;
use crate::{BenchError, RunOptions, probe};

/// What several contenders came to, in rounds in which each had its turn.
pub(crate) struct Rounds<R> {
    /// By contender and round.
    pub(crate) results: Vec<Vec<R>>,
    /// Of all rounds.
    pub(crate) placement: Placement,
    /// What has failed that is not another's program, and why.
    pub(crate) failed: Vec<String>,
}

/// The end of a workload whose table is printed: an error if anything but another's program has failed.
pub(crate) fn outcome(failed: &[String]) -> Result<(), BenchError> {
    match failed {
        [] => Ok(()),
        failed => Err(BenchError::new(failed.join("; "))),
    }
}

/// Lets each contender have its turn, as often as the options say. A round in the middle of which the CPUs were
/// moved is done again, as many times as there are rounds at most; what of it remains is marked.
///
/// Whoever fails takes no part any more, which is noted; what others have come to stays.
pub(crate) fn in_turns<R>(
    contenders: &mut Vec<Contender>,
    cpus: [usize; 2],
    options: RunOptions,
    report: &mut Report,
    what: &str,
    mut measure: impl FnMut(&Contender) -> Result<R, BenchError>,
) -> Result<Rounds<R>, BenchError> {
    let mut rounds: Vec<(Vec<R>, Placement)> = Vec::new();
    let (mut moved, mut out) = (0, Vec::new());
    while rounds.len() < options.runs as usize {
        let before = probe::placement(cpus)?;
        let observed: Vec<u32> = contenders.iter().map(Contender::observed_runs).collect();
        let mut round = Vec::new();
        let mut failed = Vec::new();
        for (at, contender) in contenders.iter().enumerate() {
            report.progress(&format!(
                "{what}, {}, run {} of {}",
                contender.name,
                rounds.len() + 1,
                options.runs
            ));
            match measure(contender) {
                Ok(result) => round.push(result),
                Err(error) => failed.push((at, error)),
            }
        }
        for (at, error) in failed.into_iter().rev() {
            report.note(format!("{what}: {} is left out: {error}", contenders[at].name));
            let contender = contenders.remove(at);
            if !matches!(contender.kind, Kind::Peer(_)) {
                out.push(format!("{what}, {}: {error}", contender.name));
            }
            rounds.iter_mut().for_each(|(results, _)| drop(results.remove(at)));
        }
        let placement = before.and(probe::placement(cpus)?);
        if placement == Placement::Changed && moved < options.runs {
            moved += 1;
            // One that has just failed has no files of use either, and is gone.
            if observed.len() == contenders.len() {
                contenders
                    .iter()
                    .zip(observed)
                    .try_for_each(|(contender, runs)| contender.forget_runs(runs))?;
            }
            continue;
        }
        rounds.push((round, placement));
    }
    let placement = rounds.iter().map(|(_, placement)| *placement).reduce(Placement::and);
    let mut results: Vec<Vec<R>> = contenders.iter().map(|_| Vec::new()).collect();
    for (round, _) in rounds {
        results.iter_mut().zip(round).for_each(|(of_contender, result)| of_contender.push(result));
    }
    Ok(Rounds { results, placement: placement.unwrap_or(Placement::Changed), failed: out })
}

/// A figure of each contender, and its ratio to the bare machine's in the same round.
pub(crate) struct Figures {
    pub(crate) runs: Vec<Runs>,
    /// Medians of the rounds' ratios, where something bare took part.
    pub(crate) to_raw: Vec<Option<f64>>,
}

/// Takes a figure out of each result. What is better of two bare contenders in a round is what counts there.
pub(crate) fn figures<R>(
    contenders: &[Contender],
    rounds: &Rounds<R>,
    figure: impl Fn(&R) -> f64,
    better: fn(f64, f64) -> f64,
) -> Figures {
    let of: Vec<Vec<f64>> =
        rounds.results.iter().map(|contender| contender.iter().map(&figure).collect()).collect();
    let raw_at = |round: usize| {
        let bare = contenders.iter().zip(&of).filter(|(contender, _)| contender.kind == Kind::Raw);
        bare.map(|(_, figures)| figures[round]).reduce(better)
    };
    let to_raw = |figures: &Vec<f64>| {
        let ratios: Option<Runs> = figures.iter().enumerate().map(|(at, f)| Some(f / raw_at(at)?)).collect();
        ratios.map(|ratios| ratios.median())
    };
    let to_raw = of.iter().map(to_raw).collect();
    Figures { runs: of.into_iter().map(Runs::from_iter).collect(), to_raw }
}

pub(crate) fn ratio(to_raw: Option<f64>) -> String {
    to_raw.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Says how still the machine is where the ends will run.
pub(crate) fn note_jitter<'a>(
    report: &mut Report,
    cpus: impl IntoIterator<Item = &'a usize>,
    options: RunOptions,
) -> Result<(), BenchError> {
    let span = std::time::Duration::from_secs_f64(options.seconds);
    let mut watched = Vec::new();
    for cpu in cpus {
        if watched.contains(cpu) {
            continue;
        }
        watched.push(*cpu);
        let cpu = *cpu;
        report.progress(&format!("jitter of CPU {cpu}"));
        let jitter = probe::jitter(cpu, span)?;
        report.note_with(format!("CPU {cpu}, idle: {jitter}"), json!({ "cpu": cpu, "jitter": jitter }));
    }
    Ok(())
}

/// Contenders where the path is: between two hosts if it leads from one to another. None, which is noted, where
/// there cannot be two.
pub(crate) fn in_place(path: Path, contenders: Vec<Contender>, report: &mut Report) -> Vec<Contender> {
    if path != Path::Veth {
        return contenders;
    }
    // By a thread of its own, which is left on one of them.
    let hosts = std::thread::scope(|scope| scope.spawn(|| Lab::new(1)).join());
    match hosts.unwrap_or_else(|_| Err(std::io::Error::other("making them has panicked"))) {
        Ok(hosts) => {
            let hosts = Arc::new(hosts);
            contenders.into_iter().map(|contender| contender.between(&hosts)).collect()
        }
        Err(error) => {
            report.note_once(format!("{path} is left out: two hosts cannot be made: {error}"));
            Vec::new()
        }
    }
}

/// Contenders of a path: what is bare, ours, and the peers that are there; those that are not are noted.
pub(crate) fn with_peers(
    contenders: &mut Vec<Contender>,
    program: &'static str,
    modes: &[(&str, &'static str)],
    report: &mut Report,
) {
    match crate::pair::peer(program) {
        Some(file) => {
            contenders.extend(
                modes.iter().map(|(name, mode)| Contender::new(*name, Kind::Peer(file.clone()), mode)),
            );
        }
        None => {
            report.note_once(format!("{program} is left out: it is not in the PATH; `make peers` builds it"))
        }
    }
}
