//! Workloads one after the other: each as a command of its own, so that one that fails does not cost the others, and with a
//! directory each, so that what was interrupted goes on where it was.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use measure::run::read_about;
use net::clock;

use crate::{BenchError, RunOptions};

/// A workload with its arguments.
pub(crate) struct Step {
    /// Its directory among those of the others.
    name: String,
    words: Vec<String>,
    /// How long it takes beside the others, about; only for the time that is left.
    weight: f64,
}

impl Step {
    pub(crate) fn new(weight: f64, words: &[&str]) -> Step {
        let name = words.first().map(|word| (*word).to_owned()).unwrap_or_default();
        Step { name, words: words.iter().map(|word| (*word).to_owned()).collect(), weight }
    }

    pub(crate) fn named(self, name: String) -> Step {
        Step { name, ..self }
    }

    /// With a further argument, if there is one.
    pub(crate) fn with(mut self, name: &str, value: Option<String>) -> Step {
        if let Some(value) = value {
            self.words.extend([name.to_owned(), value]);
        }
        self
    }

    /// With further words.
    pub(crate) fn and(mut self, words: impl IntoIterator<Item = String>) -> Step {
        self.words.extend(words);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The arguments of the program.
    pub(crate) fn words(&self, options: RunOptions, directory: Option<&Path>) -> Vec<String> {
        let mut words = vec!["bench".to_owned(), "--ends-with-parent".to_owned()];
        words.extend(self.words.iter().cloned());
        words.extend(["--runs".to_owned(), options.runs.to_string()]);
        words.extend(["--seconds".to_owned(), options.seconds.to_string()]);
        words.extend(options.json.then(|| "--json".to_owned()));
        if let Some(directory) = directory {
            words.extend(["--out".to_owned(), directory.display().to_string()]);
        }
        words
    }
}

/// Runs them; with `out` each has a directory in it, and what is whole there is not measured again.
///
/// # Errors
/// Some have failed; the others were run all the same.
pub(crate) fn run(steps: &[Step], options: RunOptions, out: Option<&Path>) -> Result<(), BenchError> {
    let mut failed = Vec::new();
    let (mut spent, mut done) = (Duration::ZERO, 0.0);
    for (at, step) in steps.iter().enumerate() {
        let of = format!("{} of {}, {}", at + 1, steps.len(), step.name());
        let directory = out.map(|out| out.join(step.name()));
        let words = step.words(options, directory.as_deref());
        if let Some(directory) = &directory
            && !is_to_run(directory, &words)?
        {
            say(&format!("{of}: measured before"));
            continue;
        }
        let left: f64 = steps[at..].iter().map(|step| step.weight).sum();
        let left = (done > 0.0).then(|| spent.mul_f64(left / done));
        let left =
            left.map_or(String::new(), |left| format!(", about {} min left", left.as_secs().div_ceil(60)));
        say(&format!("{of}{left}"));
        let began = clock::monotonic();
        let status = Command::new(std::env::current_exe()?).args(&words).status()?;
        (spent, done) = (spent + clock::monotonic().since(began), done + step.weight);
        if !status.success() {
            failed.push(format!("{} ({status})", step.name()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let (count, all, names) = (failed.len(), steps.len(), failed.join(", "));
    Err(BenchError::new(format!("{count} of {all} failed, as they say above: {names}")))
}

/// Whether a step has to run; what an interrupted one has left is removed.
fn is_to_run(directory: &Path, words: &[String]) -> Result<bool, BenchError> {
    if !measure::run::is_run(directory) {
        return Ok(true);
    }
    let there = read_about(directory)?;
    if there.command.get(1..) != Some(words) {
        return Err(BenchError::new(format!(
            "{}: a run with other arguments: {}; give a new directory, or the same options",
            directory.display(),
            there.command.join(" ")
        )));
    }
    if there.finished && there.error.is_none() {
        return Ok(false);
    }
    measure::run::remove(directory)?;
    Ok(true)
}

fn say(what: &str) {
    // Without a standard error nobody reads it.
    let _ = writeln!(io::stderr(), "\n== {what}");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use measure::run::RunDirectory;

    const OPTIONS: RunOptions = RunOptions { runs: 3, seconds: 0.5, json: false };

    #[test]
    fn what_is_whole_is_not_measured_again() {
        let place = std::env::temp_dir().join(format!("bench-steps-{}", std::process::id()));
        let words = Step::new(1.0, &["pingpong"]).words(OPTIONS, Some(&place));
        let record = |words: &[String], error: Option<&str>| {
            let command = [&["tickcast".to_owned()][..], words].concat();
            RunDirectory::create(&place, command, "1", None).expect("made").finish(error).expect("written");
        };
        assert!(is_to_run(&place, &words).expect("nothing is there"));
        record(&words, Some("no CPU"));
        assert!(is_to_run(&place, &words).expect("it has failed") && !place.exists());
        record(&words, None);
        assert!(!is_to_run(&place, &words).expect("it is whole"));
        let other = is_to_run(&place, &words[..3]).expect_err("another command").to_string();
        assert!(other.contains("other arguments"), "{other}");
        fs::remove_dir_all(&place).expect("it is ours");
    }

    #[test]
    fn a_step_is_a_command_with_its_directory() {
        let step = Step::new(1.0, &["stream"]).with("--sizes", Some("64".to_owned())).with("--tls", None);
        let words = step.named("x".to_owned()).words(OPTIONS, Some(Path::new("/d"))).join(" ");
        assert_eq!(words, "bench --ends-with-parent stream --sizes 64 --runs 3 --seconds 0.5 --out /d");
    }
}
