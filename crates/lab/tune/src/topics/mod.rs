//! What is looked at: each topic with what it means, and how it is judged. Judging is pure: facts in, findings out.

mod clock;
mod cpu;
mod memory;
mod network;
mod process;

use crate::facts::Facts;
use crate::finding::Finding;
use crate::tree::Told;

/// One thing that is looked at.
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// Why it matters, in a sentence.
    pub why: &'static str,
    /// The whole story.
    pub story: &'static str,
    /// What the published reports did.
    pub reports: &'static str,
    judge: fn(&Facts) -> Vec<Finding>,
}

/// Where nothing is known of it from the published reports.
const NOT_IN_REPORTS: &str = "no setting of theirs is known.";

/// All topics, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Topic> {
    [cpu::TOPICS, process::TOPICS, memory::TOPICS, network::TOPICS, clock::TOPICS].into_iter().flatten()
}

/// The topic of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Topic> {
    all().find(|topic| topic.name == name)
}

/// Judges a machine.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let named = |topic: &'static Topic| {
        (topic.judge)(facts).into_iter().map(|finding| Finding { name: topic.name, ..finding })
    };
    all().flat_map(named).collect()
}

/// Judges what was read; what could not be is unknown.
fn of<T>(told: &Told<T>, judge: impl FnOnce(&T) -> Finding) -> Vec<Finding> {
    vec![match told {
        Ok(value) => judge(value),
        Err(why) => Finding::unknown(why),
    }]
}

/// How a setting of the kernel is set, now and for good; `name` has dots.
fn by_sysctl(finding: Finding, name: &str, value: &str) -> Finding {
    let path = name.replace('.', "/");
    finding
        .change(crate::change::Setting::sysctl(&path), value)
        .command(format!("sysctl -w '{name}={value}'"))
        .permanent(format!("{name} = {value} in /etc/sysctl.d/90-tickcast.conf"))
}
