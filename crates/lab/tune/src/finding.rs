use serde::Serialize;

use crate::change::Setting;

/// What is to be said of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Another value would serve latency better.
    Advice,
    /// Good as it is.
    Fine,
    /// Worth knowing; nothing is advised.
    Note,
    /// It cannot be read here.
    Unknown,
}

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub setting: Setting,
    /// What.
    pub value: String,
}

/// What a setting costs on this machine, measured just now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// What was measured, and how.
    pub what: String,
    /// As the machine is set.
    pub now: f64,
    /// As advised, where that could be tried.
    pub tuned: Option<f64>,
    /// Unit of both.
    pub unit: &'static str,
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its name: that of its topic.
    pub name: &'static str,
    /// Which one of several: an interface.
    pub subject: Option<String>,
    /// What is to be said.
    pub level: Level,
    /// The present value, or why it cannot be read.
    pub current: String,
    /// The value that is advised.
    pub advised: Option<String>,
    /// How it is set until the next start of the machine.
    pub command: Option<String>,
    /// How it is set for good.
    pub permanent: Option<String>,
    /// What `apply` writes: it can be undone.
    pub changes: Vec<Change>,
    /// It has a price that its owner decides on: `apply` changes it only if it is named.
    pub by_name_only: bool,
    /// What it costs here, or why that was not measured.
    pub cost: Option<Result<Cost, String>>,
}

impl Finding {
    fn new(level: Level, current: impl Into<String>) -> Finding {
        Finding {
            name: "",
            subject: None,
            level,
            current: current.into(),
            advised: None,
            command: None,
            permanent: None,
            changes: Vec::new(),
            by_name_only: false,
            cost: None,
        }
    }

    pub(crate) fn fine(current: impl Into<String>) -> Finding {
        Finding::new(Level::Fine, current)
    }

    pub(crate) fn note(current: impl Into<String>) -> Finding {
        Finding::new(Level::Note, current)
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Finding {
        Finding::new(Level::Unknown, why)
    }

    pub(crate) fn advice(current: impl Into<String>, advised: impl Into<String>) -> Finding {
        Finding { advised: Some(advised.into()), ..Finding::new(Level::Advice, current) }
    }

    pub(crate) fn of(self, subject: &str) -> Finding {
        Finding { subject: Some(subject.to_owned()), ..self }
    }

    pub(crate) fn command(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }

    pub(crate) fn permanent(self, permanent: impl Into<String>) -> Finding {
        Finding { permanent: Some(permanent.into()), ..self }
    }

    pub(crate) fn change(mut self, setting: Setting, value: impl Into<String>) -> Finding {
        self.changes.push(Change { setting, value: value.into() });
        self
    }

    pub(crate) fn by_name(self) -> Finding {
        Finding { by_name_only: true, ..self }
    }

    /// Its name with what it is about: `txqueuelen:eth0`.
    #[must_use]
    pub fn full_name(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{}:{subject}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// Whether `name` means it: its full name, or that of its topic.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.full_name() == name
    }
}
