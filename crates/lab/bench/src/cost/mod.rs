//! What the messaging library takes for a message, and the point-to-point server for an update, in instructions: the
//! same in each run, on a busy machine too.

mod market;
mod profile;
mod program;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::BenchError;
use crate::process::Scratch;
use crate::report::Report;

pub(crate) use program::run as program;

#[derive(Debug, Args)]
pub struct CostArgs {
    /// Figures to compare with; what has grown by more than 3 % is a failure, if the compiler is the same.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Writes the figures into that file instead.
    #[arg(long, requires = "against")]
    update: bool,
    /// Prints one JSON object a line in place of tables.
    #[arg(long)]
    json: bool,
}

/// Growth that is a failure.
const GROWTH: f64 = 1.03;

/// Figures that are kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Costs {
    /// They depend on it.
    compiler: String,
    /// Instructions a message or update, by what is done.
    instructions: BTreeMap<String, f64>,
}

pub(crate) fn run(args: &CostArgs) -> Result<(), BenchError> {
    if cfg!(debug_assertions) {
        return Err(BenchError::new("this build has debug assertions, whose instructions would count"));
    }
    let now = count()?;
    let before = match &args.against {
        Some(file) if !args.update => Some(read(file)?),
        _ => None,
    };
    print(&now, before.as_ref(), args.json)?;
    match (&args.against, before) {
        (Some(file), _) if args.update => write(file, &now),
        (_, Some(before)) => judge(&now, &before),
        _ => Ok(()),
    }
}

fn read(file: &Path) -> Result<Costs, BenchError> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| BenchError::new(format!("{}: {e}; --update writes it", file.display())))?;
    serde_json::from_str(&text).map_err(|e| BenchError::new(format!("{}: {e}", file.display())))
}

fn write(file: &Path, costs: &Costs) -> Result<(), BenchError> {
    let mut text = serde_json::to_string_pretty(costs)?;
    text.push('\n');
    std::fs::write(file, text).map_err(|e| BenchError::new(format!("{}: {e}", file.display())))
}

/// Runs the program under callgrind.
fn count() -> Result<Costs, BenchError> {
    let (scratch, own) = (Scratch::new()?, std::env::current_exe()?);
    let file = scratch.path().join("callgrind.out");
    let toggles = counted().map(|(function, _)| format!("--toggle-collect=*{function}*"));
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args(toggles)
        .arg(&own)
        .args(["bench", "role", "cost-program"])
        .output()
        .map_err(|e| BenchError::new(format!("valgrind counts the instructions: {e}")))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        return Err(BenchError::new(format!("valgrind: {}: {}", done.status, words.trim())));
    }
    let text = std::fs::read_to_string(&file)?;
    let taken = profile::inclusive(&text);
    let compiler = profile::compiler(&std::fs::read(&own)?)
        .ok_or_else(|| BenchError::new("the program does not say by which compiler it was built"))?;
    let mut instructions = BTreeMap::new();
    for case in String::from_utf8_lossy(&done.stdout).lines() {
        let case: Value = serde_json::from_str(case)?;
        let (name, per_message) = figure(&case, &taken)?;
        instructions.insert(name, per_message);
    }
    Ok(Costs { compiler, instructions })
}

/// Functions whose instructions are counted, and how each figure is called.
fn counted() -> impl Iterator<Item = (&'static str, &'static str)> {
    program::COUNTED.iter().chain(market::COUNTED).copied()
}

fn figure(case: &Value, taken: &std::collections::HashMap<&str, u64>) -> Result<(String, f64), BenchError> {
    let name = case["figure"].as_str().unwrap_or_default();
    let total = counted().find(|(_, figure)| *figure == name).and_then(|(function, _)| {
        taken.iter().find(|(at, _)| at.contains(function)).map(|(_, total)| *total)
    });
    let total = total.ok_or_else(|| BenchError::new(format!("callgrind has not seen what is {name}")))?;
    let per_message = total as f64 / case["messages"].as_u64().unwrap_or(0).max(1) as f64;
    Ok((name.to_owned(), (per_message * 10.0).round() / 10.0))
}

fn print(now: &Costs, before: Option<&Costs>, json: bool) -> Result<(), BenchError> {
    let mut report =
        Report::new("cost", json, &["instructions a message or update", "now", "before", "ratio"]);
    for (name, count) in &now.instructions {
        let old = before.and_then(|costs| costs.instructions.get(name));
        let ratio = old.map(|old| count / old);
        let cells = [
            name.clone(),
            format!("{count:.1}"),
            old.map_or_else(|| "-".to_owned(), |old| format!("{old:.1}")),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
        ];
        report.row(cells, json!({ "name": name, "instructions": count, "before": old, "ratio": ratio }));
    }
    report.note(format!("Built by {}. The kernel's part does not count.", now.compiler));
    report.print()
}

/// # Errors
/// Something costs more than before by the same compiler; another one is only noted.
fn judge(now: &Costs, before: &Costs) -> Result<(), BenchError> {
    let grown = grown(now, before);
    if grown.is_empty() {
        return Ok(());
    }
    let text = format!("more than 3 % more instructions than before: {}", grown.join("; "));
    if now.compiler == before.compiler {
        return Err(BenchError::new(text));
    }
    let other = &before.compiler;
    // Without a standard error nobody reads it.
    let _ = writeln!(
        std::io::stderr(),
        "{text}. The figures before are of another compiler ({other}): not judged."
    );
    Ok(())
}

fn grown(now: &Costs, before: &Costs) -> Vec<String> {
    let both = now
        .instructions
        .iter()
        .filter_map(|(name, count)| before.instructions.get(name).map(|old| (name, *count, *old)));
    both.filter(|(_, count, old)| *count > old * GROWTH)
        .map(|(name, count, old)| format!("{name}: {count} instead of {old}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(compiler: &str, figures: &[(&str, f64)]) -> Costs {
        let instructions = figures.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Costs { compiler: compiler.to_owned(), instructions }
    }

    #[test]
    fn growth_above_three_percent_fails_and_says_where() {
        let before = costs("a", &[("send", 100.0), ("receive", 100.0), ("gone", 1.0)]);
        assert!(judge(&costs("a", &[("send", 103.0), ("receive", 50.0), ("new", 9.0)]), &before).is_ok());
        let error = judge(&costs("a", &[("send", 103.1), ("receive", 100.0)]), &before).expect_err("grown");
        assert!(error.to_string().contains("send: 103.1 instead of 100"), "{error}");
        assert!(!error.to_string().contains("receive"), "{error}");
    }

    #[test]
    fn figures_of_another_compiler_are_not_judged() {
        let (before, now) = (costs("a", &[("send", 100.0)]), costs("b", &[("send", 200.0)]));
        assert!(judge(&now, &before).is_ok());
    }

    #[test]
    fn every_counted_function_has_a_figure_of_its_own() {
        let mut names: Vec<_> = counted().flat_map(|(a, b)| [a, b]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * counted().count());
        let is_part = |name: &str| counted().any(|(other, _)| other != name && other.contains(name));
        assert_eq!(counted().find(|(name, _)| is_part(name)), None, "callgrind would count both");
    }
}
