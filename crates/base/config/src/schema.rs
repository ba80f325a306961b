//! The one table: what keys there are, their types, defaults, ranges, units and meaning.

use crate::kind::Kind;
use crate::value::Value;

/// The keys of one section.
#[derive(Clone, Debug)]
pub struct Schema {
    /// What the section is about: paragraphs separated by empty lines.
    pub doc: String,
    /// Its keys, in the order in which they were declared.
    pub keys: Vec<Key>,
    /// Values that the key [`PRESET_KEY`] of the section puts under what the layers above the defaults set.
    pub presets: &'static [PresetValues],
    /// Former names of keys and their present ones, both from this section on: `("window_bytes", "tcp.window_bytes")`.
    pub renamed: Vec<(&'static str, &'static str)>,
}

/// The key by which a section with presets chooses one.
pub const PRESET_KEY: &str = "preset";

/// What one preset sets.
#[derive(Clone, Copy, Debug)]
pub struct PresetValues {
    /// Its name, as a value of [`PRESET_KEY`].
    pub name: &'static str,
    /// Keys from the section on (`port`, `tcp.port`) that are not optional, and their values, written as [in
    /// variables](crate::Loader::environment).
    pub values: &'static [(&'static str, &'static str)],
}

/// One key of a section; a section within a section is a key too.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// What it means: paragraphs separated by empty lines.
    pub doc: String,
    /// Type and range.
    pub kind: Kind,
    /// Value when nothing sets it; of no meaning if the key is required.
    pub default: Value,
    /// Whether something must set it.
    pub required: bool,
}

impl Schema {
    /// A section without keys; `doc` as the attribute `#[doc]` has it.
    #[must_use]
    pub fn new(doc: &str) -> Schema {
        Schema { doc: paragraphs(doc), keys: Vec::new(), presets: &[], renamed: Vec::new() }
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: impl Into<Key>) -> Schema {
        self.keys.push(key.into());
        self
    }

    /// The section with presets.
    #[must_use]
    pub fn with_presets(mut self, presets: &'static [PresetValues]) -> Schema {
        self.presets = presets;
        self
    }

    /// The section with former names of keys.
    #[must_use]
    pub fn with_renamed(mut self, renamed: &[(&'static str, &'static str)]) -> Schema {
        self.renamed = renamed.to_vec();
        self
    }

    /// The key that `names` leads to from this section on, such as `tcp.port`. Lists of tables are not entered.
    #[must_use]
    pub fn at(&self, names: &str) -> Option<&Key> {
        match names.split_once('.') {
            None => self.key(names),
            Some((section, rest)) => match &self.key(section)?.kind {
                Kind::Section { schema, .. } => schema.at(rest),
                _ => None,
            },
        }
    }

    /// The present name of the key that was called `former`.
    #[must_use]
    pub fn present_name(&self, former: &str) -> Option<&'static str> {
        self.renamed.iter().find(|(name, _)| *name == former).map(|(_, present)| *present)
    }

    /// The key called `name`.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Names of all keys, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.keys.iter().map(|key| key.name)
    }
}

impl Key {
    /// The unit that the end of the key's name says; empty if it says none or the key is no number.
    ///
    /// ```
    /// # use tickcast_config as config;
    /// # config::section! {
    /// #     /// Sample.
    /// #     pub struct Sample {
    /// #         /// How long.
    /// #         linger_ms: u64 = 5;
    /// #     }
    /// # }
    /// use config::Section as _;
    /// assert_eq!(Sample::schema().keys[0].unit(), "milliseconds");
    /// ```
    #[must_use]
    pub fn unit(&self) -> &'static str {
        if self.kind.is_numeric() { unit_of(self.name) } else { "" }
    }

    /// What a value must be, with its unit: `an integer from 0 to 3600000 milliseconds`.
    #[must_use]
    pub fn expectation(&self) -> String {
        self.kind.expectation(self.unit())
    }

    /// First paragraph of the documentation.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.doc.split("\n\n").next().unwrap_or_default()
    }
}

/// Ends of names and the units they stand for; where two fit, the longer.
const UNITS: &[(&str, &str)] = &[
    ("_ns", "nanoseconds"),
    ("_us", "microseconds"),
    ("_ms", "milliseconds"),
    ("_s", "seconds"),
    ("_seconds", "seconds"),
    ("_minutes", "minutes"),
    ("_hours", "hours"),
    ("_days", "days"),
    ("_bytes", "bytes"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_gib", "GiB"),
    ("_percent", "percent"),
    ("_per_second", "per second"),
    ("_bits_per_second", "bits per second"),
    ("_bytes_per_second", "bytes per second"),
];

fn unit_of(name: &str) -> &'static str {
    let fitting = UNITS.iter().filter(|(end, _)| name.ends_with(end));
    fitting.max_by_key(|(end, _)| end.len()).map_or("", |(_, unit)| unit)
}

/// A field's name as a key: `r#type` is `type`.
#[doc(hidden)]
#[must_use]
pub fn plain_name(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Lines of a doc comment as paragraphs: one line each, separated by an empty line.
pub(crate) fn paragraphs(doc: &str) -> String {
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in doc.lines().map(str::trim) {
        let last = paragraphs.last_mut().expect("there is at least one");
        match (line.is_empty(), last.is_empty()) {
            (true, true) => {}
            (true, false) => paragraphs.push(String::new()),
            (false, true) => last.push_str(line),
            (false, false) => {
                last.push(' ');
                last.push_str(line);
            }
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_fitting_end_of_a_name_is_its_unit() {
        assert_eq!(unit_of("rate_bits_per_second"), "bits per second");
        assert_eq!(unit_of("updates_per_second"), "per second");
        assert_eq!(unit_of("window_bytes"), "bytes");
        assert_eq!(unit_of("linger_s"), "seconds");
        assert_eq!(unit_of("interfaces"), "");
    }

    #[test]
    fn doc_lines_become_paragraphs() {
        assert_eq!(paragraphs(" One\n two.\n\n\n Three.\n"), "One two.\n\nThree.");
        assert_eq!(paragraphs(""), "");
    }
}
