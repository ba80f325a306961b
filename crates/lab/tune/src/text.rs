//! Findings as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::finding::{Finding, Level};
use crate::topics::{self, Topic};
use crate::tree::Tree;

/// What `tickcast tune check` prints: advice in full, the rest a line each.
#[must_use]
pub fn report(tree: &Tree, findings: &[Finding]) -> String {
    let of = |level| findings.iter().filter(move |finding| finding.level == level);
    let mut text = String::new();
    of(Level::Advice).for_each(|finding| advice(&mut text, tree, finding));
    let rest =
        [(Level::Fine, "Good as it is"), (Level::Note, "Worth knowing"), (Level::Unknown, "Not known here")];
    for (level, head) in rest {
        if of(level).next().is_some() {
            line(&mut text, format_args!("{head}:"));
        }
        of(level).for_each(|finding| {
            line(&mut text, format_args!("  {:22} {}", finding.full_name(), finding.current));
            cost(&mut text, finding);
        });
    }
    let [advised, fine, unknown] =
        [Level::Advice, Level::Fine, Level::Unknown].map(|level| of(level).count());
    line(
        &mut text,
        format_args!(
            "{advised} to change, {fine} good as they are, {unknown} not known. `tickcast tune explain NAME` tells more."
        ),
    );
    text
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // A String takes all.
    let _ = writeln!(text, "{content}");
}

fn advice(text: &mut String, tree: &Tree, finding: &Finding) {
    let topic = topics::find(finding.name);
    line(text, format_args!("{}", finding.full_name()));
    let whys = topic.map(|topic| topic.why.to_owned());
    let rows = [
        ("now", Some(finding.current.clone())),
        ("advised", finding.advised.clone()),
        ("why", whys),
        ("set it", finding.command.clone()),
        ("for good", finding.permanent.clone()),
        ("apply", Some(how_to_apply(tree, finding))),
    ];
    for (head, value) in rows {
        if let Some(value) = value {
            line(text, format_args!("  {head:9} {value}"));
        }
    }
    cost(text, finding);
    text.push('\n');
}

fn how_to_apply(tree: &Tree, finding: &Finding) -> String {
    if finding.changes.is_empty() {
        return "no: it cannot be set now and undone later".to_owned();
    }
    let is_permitted = finding.changes.iter().all(|change| change.setting.may_be_written(tree));
    let rights = if is_permitted { "" } else { "; this user may not: it takes root" };
    let named = if finding.by_name_only { ", if it is named," } else { "" };
    format!("yes{named} and `undo` puts it back{rights}")
}

fn cost(text: &mut String, finding: &Finding) {
    match &finding.cost {
        Some(Ok(cost)) => {
            let unit = cost.unit;
            let then = cost.tuned.map_or(String::new(), |tuned| format!(" -> {tuned:.1} {unit}"));
            line(text, format_args!("  measured  {:.1} {unit}{then}: {}", cost.now, cost.what));
        }
        Some(Err(why)) => line(text, format_args!("  measured  no: {why}")),
        None => {}
    }
}

/// The findings as one JSON object.
#[must_use]
pub fn json(tree: &Tree, findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let topic = topics::find(finding.name);
        let measured = match &finding.cost {
            Some(Ok(cost)) => json!(cost),
            Some(Err(why)) => json!({ "error": why }),
            None => Value::Null,
        };
        let changes: Vec<Value> = finding
            .changes
            .iter()
            .map(|change| json!({ "setting": change.setting.to_string(), "value": change.value }))
            .collect();
        let is_permitted = finding.changes.iter().all(|change| change.setting.may_be_written(tree));
        json!({
            "name": finding.name, "subject": finding.subject, "level": finding.level, "current": finding.current,
            "advised": finding.advised, "why": topic.map(|topic| topic.why), "command": finding.command,
            "permanent": finding.permanent, "undoable": !finding.changes.is_empty(),
            "permitted": is_permitted, "by_name_only": finding.by_name_only, "changes": changes, "measured": measured,
        })
    };
    let advised = findings.iter().filter(|finding| finding.level == Level::Advice).count();
    json!({ "advised": advised, "findings": findings.iter().map(one).collect::<Vec<Value>>() })
}

/// The story of a topic, with what it is here.
#[must_use]
pub fn explain(tree: &Tree, topic: &Topic, findings: &[Finding]) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("{}: {}\n", topic.name, topic.why));
    line(&mut text, format_args!("{}\n", wrapped(topic.story)));
    line(&mut text, format_args!("{}\n", wrapped(&format!("In the published reports: {}", topic.reports))));
    for finding in findings.iter().filter(|finding| finding.name == topic.name) {
        match finding.level {
            Level::Advice => advice(&mut text, tree, finding),
            Level::Unknown => line(&mut text, format_args!("Here it is not known: {}", finding.current)),
            _ => line(&mut text, format_args!("Here: {}: {}", finding.full_name(), finding.current)),
        }
    }
    text
}

/// Lines of a terminal.
const COLUMNS: usize = 90;

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > COLUMNS {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += word.len();
    }
    lines
}

/// All topics, a line each.
#[must_use]
pub fn list() -> String {
    let mut text = String::new();
    topics::all().for_each(|topic| line(&mut text, format_args!("{:20} {}", topic.name, topic.why)));
    text
}
