//! Changes of settings, and their undoing.
//!
//! The state file is on the disk before a setting is changed, so that whatever ends the program leaves nothing that cannot
//! be undone. A setting that is changed twice is put back to what it was before the first time.

mod record;
mod setting;

use std::path::Path;

use record::{Entry, Record, Store};
pub use setting::Setting;
pub(crate) use setting::coalescing_text;

use crate::finding::{Change, Finding};
use crate::tree::Tree;

/// Where settings that were changed are kept.
pub const STATE_FILE: &str = "/var/lib/tickcast/tune.json";

/// One setting that `apply` would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The finding that asks for it.
    pub name: String,
    /// What is changed, and to what.
    pub change: Change,
    /// What it is now.
    pub before: String,
    /// Whether the caller may change it.
    pub is_permitted: bool,
}

/// What became of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was set, and reads so now.
    Set {
        /// The setting.
        setting: Setting,
        /// As it was.
        from: String,
        /// As it is now.
        to: String,
    },
    /// It is as it was before `apply` already.
    AsBefore(Setting),
    /// Somebody else has changed it since; it was left alone.
    Foreign {
        /// The setting.
        setting: Setting,
        /// As it was before `apply`.
        before: String,
        /// As `apply` has left it.
        left: String,
        /// As it is now.
        now: String,
    },
    /// It could not be set.
    Failed(Setting, String),
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Of each setting, in the order of the work.
    pub outcomes: Vec<Outcome>,
    /// Something to be said beside.
    pub note: Option<String>,
}

/// What of the findings `apply` would change: those that are named, or without names all that are advised and have no
/// price.
///
/// # Errors
/// A name is of no finding, or of one that cannot be changed here.
pub fn plan(tree: &Tree, findings: &[Finding], names: &[String]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for name in names {
        let mut named = findings.iter().filter(|finding| finding.is_called(name)).peekable();
        if named.peek().is_none() {
            return Err(format!("there is no finding {name:?} here: `tickcast tune explain` lists them"));
        }
        let before = steps.len();
        let mut why = String::new();
        for finding in named {
            why = why_not(finding);
            add_steps(tree, finding, &mut steps);
        }
        if steps.len() == before && !why.is_empty() {
            return Err(format!("{name} {why}"));
        }
    }
    if names.is_empty() {
        let advised = |finding: &&Finding| finding.level == crate::Level::Advice && !finding.by_name_only;
        findings.iter().filter(advised).for_each(|finding| add_steps(tree, finding, &mut steps));
    }
    Ok(steps)
}

/// Why nothing is to be changed for a finding; empty if it can be.
fn why_not(finding: &Finding) -> String {
    if !finding.changes.is_empty() {
        return String::new();
    }
    match finding.level {
        crate::Level::Fine => "is as advised already".to_owned(),
        crate::Level::Unknown => format!("is not known here: {}", finding.current),
        _ => {
            let how = finding.permanent.as_ref().or(finding.command.as_ref());
            let how = how.map_or(String::new(), |how| format!(": {how}"));
            format!("is nothing that can be set now and undone later{how}")
        }
    }
}

fn add_steps(tree: &Tree, finding: &Finding, steps: &mut Vec<Step>) {
    for change in &finding.changes {
        // What cannot be read cannot be put back.
        let Ok(before) = change.setting.read(tree) else { continue };
        let is_new = steps.iter().all(|step| step.change.setting != change.setting);
        if is_new && before != change.value {
            let is_permitted = change.setting.may_be_written(tree);
            steps.push(Step { name: finding.full_name(), change: change.clone(), before, is_permitted });
        }
    }
}

/// Changes settings, one after the other. One that fails leaves the others to be done.
///
/// # Errors
/// The state file cannot be read or written, or is of another network namespace: nothing is changed then.
pub fn apply(tree: &Tree, state: &Path, steps: &[Step]) -> Result<Done, String> {
    let store = Store::open(state)?;
    let fresh = Record::new(tree)?;
    let (mut record, note) = match store.load()? {
        Some(old) if old.boot_id != fresh.boot_id => (fresh, Some(restarted(old.entries.len()))),
        Some(old) => {
            check_network(&old, &fresh, steps.iter().any(|step| step.change.setting.is_of_network()))?;
            (old, None)
        }
        None => (fresh, None),
    };
    let mut done = Done { outcomes: Vec::new(), note };
    let mut due = Vec::new();
    let known = record.clone();
    for step in steps {
        let setting = step.change.setting.clone();
        // Somebody may have changed it since the plan was made.
        match setting.read(tree) {
            Ok(before) => {
                record.add(entry_of(step, &before));
                due.push((step, before));
            }
            Err(error) => done.outcomes.push(Outcome::Failed(setting, error.to_string())),
        }
    }
    store.save(&record)?;
    for (step, before) in due {
        done.outcomes.push(change(tree, &store, &mut record, &known, step, before)?);
    }
    Ok(done)
}

fn entry_of(step: &Step, before: &str) -> Entry {
    Entry {
        name: step.name.clone(),
        setting: step.change.setting.to_string(),
        before: before.to_owned(),
        wanted: step.change.value.clone(),
        became: None,
    }
}

/// Makes one change that is recorded, and records what the kernel has made of it.
fn change(
    tree: &Tree,
    store: &Store,
    record: &mut Record,
    known: &Record,
    step: &Step,
    from: String,
) -> Result<Outcome, String> {
    let (setting, wanted) = (&step.change.setting, &step.change.value);
    let text = setting.to_string();
    let written = setting.write(tree, wanted).and_then(|()| setting.read(tree));
    match written {
        Ok(to) => {
            if to != *wanted {
                let entry = record.entries.iter_mut().find(|entry| entry.setting == text);
                entry.into_iter().for_each(|entry| entry.became = Some(to.clone()));
                store.save(record)?;
            }
            Ok(Outcome::Set { setting: setting.clone(), from, to })
        }
        Err(error) => {
            // As if it had never been meant to be changed.
            let before = known.entries.iter().find(|entry| entry.setting == text).cloned();
            match record.entries.iter().position(|entry| entry.setting == text).zip(before) {
                Some((at, before)) => record.entries[at] = before,
                None => record.entries.retain(|entry| entry.setting != text),
            }
            store.save(record)?;
            Ok(Outcome::Failed(setting.clone(), error.to_string()))
        }
    }
}

fn restarted(count: usize) -> String {
    format!(
        "the machine was started anew since {count} settings were changed: they are as its start sets them already, and \
         what was recorded is dropped"
    )
}

fn check_network(old: &Record, own: &Record, concerns_network: bool) -> Result<(), String> {
    let is_of_network =
        |entry: &Entry| entry.setting.parse().is_ok_and(|setting: Setting| setting.is_of_network());
    if old.network == own.network || !(concerns_network || old.entries.iter().any(is_of_network)) {
        return Ok(());
    }
    Err(format!(
        "the recorded changes were made in another network namespace ({}, here is {}): undo them there, or give another \
         --state",
        old.network, own.network
    ))
}

/// Puts settings back, the last change first. What somebody else has changed since is left alone, unless `force`.
///
/// # Errors
/// The state file cannot be read or written, or is of another network namespace.
pub fn undo(tree: &Tree, state: &Path, force: bool) -> Result<Done, String> {
    if !state.exists() {
        return Ok(Done {
            outcomes: Vec::new(),
            note: Some("nothing is changed that could be undone".to_owned()),
        });
    }
    let store = Store::open(state)?;
    let Some(mut record) = store.load()? else { return Ok(Done::default()) };
    let own = Record::new(tree)?;
    if record.boot_id != own.boot_id {
        let note = Some(restarted(record.entries.len()));
        record.entries.clear();
        store.save(&record)?;
        return Ok(Done { outcomes: Vec::new(), note });
    }
    check_network(&record, &own, false)?;
    let mut done = Done::default();
    for at in (0..record.entries.len()).rev() {
        let outcome = put_back(tree, &record.entries[at], force)?;
        let is_back = matches!(outcome, Outcome::Set { .. } | Outcome::AsBefore(_));
        done.outcomes.push(outcome);
        if is_back {
            record.entries.remove(at);
            store.save(&record)?;
        }
    }
    Ok(done)
}

fn put_back(tree: &Tree, entry: &Entry, force: bool) -> Result<Outcome, String> {
    let setting: Setting = entry.setting.parse()?;
    let now = match setting.read(tree) {
        Ok(now) => now,
        Err(error) => return Ok(Outcome::Failed(setting, error.to_string())),
    };
    if now == entry.before {
        return Ok(Outcome::AsBefore(setting));
    }
    if now != entry.left() && !force {
        let (before, left) = (entry.before.clone(), entry.left().to_owned());
        return Ok(Outcome::Foreign { setting, before, left, now });
    }
    Ok(match setting.write(tree, &entry.before).and_then(|()| setting.read(tree)) {
        Ok(to) if to == entry.before => Outcome::Set { setting, from: now, to },
        Ok(to) => Outcome::Failed(setting, format!("it was written as {:?} and reads {to:?}", entry.before)),
        Err(error) => Outcome::Failed(setting, error.to_string()),
    })
}
