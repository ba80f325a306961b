//! The state of one load: the texts, and what was found wrong in them.

use crate::document::Parsed;
use crate::fault::{FAULTS_MAX, Fault, FaultKind, Faults};
use crate::source::{SourceSpan, Sources};
use crate::tree::{Clash, ClashKind};
use crate::value::quoted_briefly;

/// The texts of one load and the faults in them.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) sources: Sources,
    found: Vec<(Option<SourceSpan>, Fault)>,
    omitted: usize,
    /// Full names of keys whose value could not be used.
    faulty: Vec<String>,
    /// Whether part of a text could not be read, so that keys may be missing for no other reason.
    incomplete: bool,
}

impl Reading {
    /// Records that something at `place` concerning `key` is wrong.
    pub(crate) fn fault(
        &mut self,
        kind: FaultKind,
        key: &str,
        place: impl Into<Option<SourceSpan>>,
        message: String,
    ) {
        self.fault_with_notes(kind, key, place, message, Vec::new());
    }

    /// The same, with lines that are shown below the place.
    pub(crate) fn fault_with_notes(
        &mut self,
        kind: FaultKind,
        key: &str,
        place: impl Into<Option<SourceSpan>>,
        message: String,
        notes: Vec<String>,
    ) {
        if self.found.len() >= FAULTS_MAX {
            self.omitted += 1;
            return;
        }
        let place = place.into();
        let location = place.map(|place| self.sources.locate(place));
        self.faulty.push(key.to_owned());
        self.found.push((place, Fault { kind, key: key.to_owned(), message, location, notes }));
    }

    /// Takes the content of a text and records what is wrong with it as TOML.
    pub(crate) fn content<T>(&mut self, parsed: Parsed<T>) -> T {
        for error in parsed.errors {
            self.incomplete = true;
            self.fault(FaultKind::Syntax, "", error.place, error.message);
        }
        for clash in &parsed.clashes {
            self.clash(clash);
        }
        parsed.content
    }

    /// Records that a text could not be used at all.
    pub(crate) fn unreadable(&mut self, kind: FaultKind, place: SourceSpan, message: String) {
        self.incomplete = true;
        self.fault(kind, "", place, message);
    }

    /// Whether required keys can be judged and sections checked: all texts were read whole.
    pub(crate) fn is_complete(&self) -> bool {
        !self.incomplete && self.omitted == 0
    }

    /// Full names of the keys that faults concern.
    pub(crate) fn faulty(&self) -> &[String] {
        &self.faulty
    }

    /// The faults in the order of the texts; `Ok` if there are none.
    pub(crate) fn finish(mut self) -> Result<(), Faults> {
        if self.found.is_empty() {
            return Ok(());
        }
        // What has no place stands last; what has the same place stays in the order in which it was found.
        self.found
            .sort_by_key(|(place, _)| place.map_or((true, None, 0), |at| (false, Some(at.source), at.start)));
        Err(Faults {
            faults: self.found.into_iter().map(|(_, fault)| fault).collect(),
            omitted: self.omitted,
        })
    }

    fn clash(&mut self, clash: &Clash) {
        let (name, line) = (quoted_key(&clash.name.text), self.sources.line(clash.first));
        let message = match clash.what {
            ClashKind::DuplicateKey => format!("duplicate key {name}; it is first set in line {line}"),
            ClashKind::DuplicateTable => format!("duplicate table {name}; it is first opened in line {line}"),
            ClashKind::Closed => format!("nothing can be added to {name}, which is set in line {line}"),
        };
        self.fault(FaultKind::Duplicate, "", clash.name.place, message);
    }
}

/// A key as it is named in messages: in backquotes, and as a string if it is not a bare key.
pub(crate) fn quoted_key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let name = if bare && name.len() <= 60 { name.to_owned() } else { quoted_briefly(name) };
    format!("`{name}`")
}
