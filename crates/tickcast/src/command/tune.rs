//! `tickcast tune`: what of the machine's settings costs latency, and how to change it and back.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tune::{Done, Facts, Finding, Outcome, Step, Tree};

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum TuneAction {
    /// Looks at the machine: each setting with its value, what is advised and why, how to set it, and what it costs here,
    /// measured within some seconds.
    #[command(after_help = "\
Examples:
  tickcast tune check                      what to change, and what it costs here
  tickcast tune check --no-measure --json  for a program: one JSON object

It changes nothing. What cannot be read, in a container or without root, is said to be not known. Measuring takes some three
seconds of one CPU or two.

Exit status: 0 nothing is advised; 1 it could not be done; 2 wrong usage; 3 something is advised.")]
    Check(CheckArgs),
    /// Tells all about one finding, or lists them.
    #[command(after_help = "Exit status: 0 done; 2 wrong usage, among it a name that is none.")]
    Explain {
        /// The finding, as `check` names it; without one all are listed.
        name: Option<String>,
        #[command(flatten)]
        machine: MachineArgs,
    },
    /// Changes settings as advised: only what `undo` can put back, and only after it was asked.
    #[command(after_help = "\
Examples:
  tickcast tune apply --dry-run            what it would change
  sudo tickcast tune apply                 all that is advised and has no price
  sudo tickcast tune apply rmem_max rings:eth0
                                           these alone; some are changed only if they are named

What settings were is written to the state file before they are changed, and stays there until `undo`. A setting that is
changed again keeps its first value there. Nothing lasts beyond the next start of the machine: `check` says how to set it for
good.

Exit status: 0 done, or nothing to do; 1 something could not be changed, or nobody agreed; 2 wrong usage.")]
    Apply(ApplyArgs),
    /// Puts settings back that `apply` has changed, the last one first.
    #[command(after_help = "\
A setting that somebody else has changed since is left alone and reported, unless --force is given; it stays in the state file.
After a new start of the machine there is nothing to put back: `undo` says so and drops the state file.

Exit status: 0 all is as it was before; 1 something could not be put back; 2 wrong usage; 3 something was left alone.")]
    Undo(UndoArgs),
}

/// Which machine.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    /// Reads /proc, /sys and /dev below this folder: a tree that was copied from another machine. Nothing is measured then,
    /// and there are no cards.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Measures nothing.
    #[arg(long)]
    no_measure: bool,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

/// Where the former values are.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// State file; below --root if it is not given.
    #[arg(long, value_name = "FILE", help = format!("State file [default: {}, below --root]", tune::STATE_FILE))]
    state: Option<PathBuf>,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Findings, as `check` names them; without one all that is advised and has no price.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Does not ask.
    #[arg(long, short)]
    yes: bool,
    /// Shows what it would do, and does nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Puts back what somebody else has changed since, too.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(action: &TuneAction) -> Result<(), Failure> {
    match action {
        TuneAction::Check(args) => check(args),
        TuneAction::Explain { name, machine } => explain(name.as_deref(), machine),
        TuneAction::Apply(args) => apply(args),
        TuneAction::Undo(args) => undo(args),
    }
}

fn machine(args: &MachineArgs) -> Result<Tree, Failure> {
    if args.root.is_dir() {
        return Ok(Tree::at(&args.root));
    }
    Err(Failure::Config(format!("--root {}: there is no such folder", args.root.display())))
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let tree = machine(&args.machine)?;
    let mut findings = tune::judge(&Facts::read(&tree));
    if tree.is_own() && !args.no_measure {
        tune::measure_costs(&mut findings, |name| {
            if io::stderr().is_terminal() {
                say!("measuring {name} ...");
            }
        });
    }
    match args.json {
        true => print(format_args!("{}\n", tune::json(&tree, &findings)))?,
        false => print(format_args!("{}", tune::report(&tree, &findings)))?,
    }
    match findings.iter().filter(|finding| finding.level == tune::Level::Advice).count() {
        0 => Ok(()),
        count => Err(Failure::Found(format!("{count} settings should be changed"))),
    }
}

fn explain(name: Option<&str>, args: &MachineArgs) -> Result<(), Failure> {
    let Some(name) = name else { return print(format_args!("{}", tune::list())) };
    // The name of a finding has what it is about behind that of its topic.
    let topic = tune::topic(name.split(':').next().unwrap_or(name));
    let topic = topic.ok_or_else(|| {
        Failure::Config(format!("there is no finding {name:?}: `tickcast tune explain` lists them"))
    })?;
    let tree = machine(args)?;
    print(format_args!("{}", tune::explain(&tree, topic, &tune::judge(&Facts::read(&tree)))))
}

/// Where the state file is.
fn state(args: &StateArgs, tree: &Tree) -> PathBuf {
    args.state.clone().unwrap_or_else(|| tree.path(tune::STATE_FILE))
}

fn apply(args: &ApplyArgs) -> Result<(), Failure> {
    let tree = machine(&args.machine)?;
    let findings: Vec<Finding> = tune::judge(&Facts::read(&tree));
    let steps = tune::plan(&tree, &findings, &args.names).map_err(Failure::Config)?;
    if steps.is_empty() {
        return show(
            &Done { note: Some("there is nothing to change".to_owned()), ..Done::default() },
            args.state.json,
        );
    }
    let file = state(&args.state, &tree);
    if args.dry_run {
        return show_plan(&steps, args.state.json);
    }
    if !args.yes {
        ask(&steps, &file)?;
    }
    let done = tune::apply(&tree, &file, &steps).map_err(Failure::Run)?;
    show(&done, args.state.json)?;
    judge_done(&done)
}

fn undo(args: &UndoArgs) -> Result<(), Failure> {
    let tree = machine(&args.machine)?;
    let done = tune::undo(&tree, &state(&args.state, &tree), args.force).map_err(Failure::Run)?;
    show(&done, args.state.json)?;
    judge_done(&done)
}

fn plan_text(steps: &[Step]) -> String {
    let line = |step: &Step| {
        let rights = if step.is_permitted { "" } else { "   (takes root)" };
        format!("{}: {}  {} -> {}{rights}\n", step.name, step.change.setting, step.before, step.change.value)
    };
    steps.iter().map(line).collect()
}

fn show_plan(steps: &[Step], as_json: bool) -> Result<(), Failure> {
    if !as_json {
        return print(format_args!("{}", plan_text(steps)));
    }
    let one = |step: &Step| {
        json!({
            "name": step.name, "setting": step.change.setting.to_string(), "before": step.before,
            "value": step.change.value, "permitted": step.is_permitted,
        })
    };
    print(format_args!("{}\n", json!({ "would_change": steps.iter().map(one).collect::<Vec<Value>>() })))
}

/// Shows on standard error what is to be changed, and waits for a yes.
fn ask(steps: &[Step], file: &Path) -> Result<(), Failure> {
    say!("{}", plan_text(steps).trim_end());
    say!("What they were is kept in {}; `tickcast tune undo` puts it back.", file.display());
    if !io::stdin().is_terminal() {
        return Err(Failure::Run(
            "nothing was changed: there is no terminal to ask at; --yes agrees".to_owned(),
        ));
    }
    // Without a standard error nobody can have read what is asked.
    let _ = write!(io::stderr(), "Change {} settings? [y/N] ", steps.len());
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Run("nothing was changed".to_owned())),
    }
}

fn show(done: &Done, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let outcomes: Vec<Value> = done.outcomes.iter().map(outcome_json).collect();
        return print(format_args!("{}\n", json!({ "outcomes": outcomes, "note": done.note })));
    }
    let note = done.note.iter().map(|note| format!("{note}\n"));
    let lines: String = note.chain(done.outcomes.iter().map(outcome_text)).collect();
    print(format_args!("{lines}"))
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Set { setting, from, to } => format!("{setting}: {from} -> {to}\n"),
        Outcome::AsBefore(setting) => format!("{setting}: it is as it was before already\n"),
        Outcome::Foreign { setting, before, left, now } => format!(
            "{setting}: left alone; it was {before}, apply set {left}, and somebody has set {now} since (--force sets \
             {before})\n"
        ),
        Outcome::Failed(setting, why) => format!("{setting}: failed: {why}\n"),
    }
}

fn outcome_json(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Set { setting, from, to } => {
            json!({ "setting": setting.to_string(), "outcome": "set", "from": from, "to": to })
        }
        Outcome::AsBefore(setting) => json!({ "setting": setting.to_string(), "outcome": "as before" }),
        Outcome::Foreign { setting, before, left, now } => json!({
            "setting": setting.to_string(), "outcome": "left alone", "before": before, "applied": left, "now": now,
        }),
        Outcome::Failed(setting, why) => {
            json!({ "setting": setting.to_string(), "outcome": "failed", "error": why })
        }
    }
}

fn judge_done(done: &Done) -> Result<(), Failure> {
    let failed = done.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Failed(..))).count();
    let foreign = done.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Foreign { .. })).count();
    match (failed, foreign) {
        (0, 0) => Ok(()),
        (0, _) => {
            Err(Failure::Found(format!("{foreign} settings were changed by somebody else and left alone")))
        }
        _ => Err(Failure::Run(format!("{failed} settings could not be set"))),
    }
}

fn print(text: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(Failure::Output)
}
