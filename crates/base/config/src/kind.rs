//! The types that keys can have, as the schema knows them.

use std::fmt::Write as _;

use crate::schema::Schema;
use crate::value::quoted;

/// Type of a key together with what it allows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// An integer from `min` to `max`, both included.
    Integer {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A finite number from `min` to `max`, both included; an integer in the file is taken as a number.
    Float {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// A string.
    Text(TextFormat),
    /// One of some names.
    Choice(&'static [ChoiceName]),
    /// A value, or nothing; nothing is the default.
    Optional(Box<Kind>),
    /// Values of one type, in order.
    List {
        /// Type of each.
        item: Box<Kind>,
        /// Least and greatest number of items.
        length: Length,
    },
    /// A table `[name]`.
    Section {
        /// Its keys.
        schema: Schema,
        /// Whether leaving out the table means something else than its defaults.
        optional: bool,
    },
    /// Any number of tables `[[name]]`.
    Tables(Schema),
}

/// What a string must be like.
#[derive(Clone, Copy, Debug)]
pub struct TextFormat {
    /// What it is, with its article: `an IPv4 address such as 239.192.0.1`.
    pub noun: &'static str,
    /// Name of the type in the reference page.
    pub type_name: &'static str,
    /// Says what is wrong with a text: `Err` of an explanation, empty if there is nothing to add to the noun.
    pub check: fn(&str) -> Result<(), String>,
    /// Allowed length in bytes.
    pub length: Length,
    /// Whether a number in the file is taken as its text.
    pub takes_numbers: bool,
}

/// Least and greatest length, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Least length.
    pub min: usize,
    /// Greatest length.
    pub max: usize,
}

/// One of the names of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceName {
    /// As it is written in the file.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

impl Length {
    /// No limit.
    pub const ANY: Length = Length { min: 0, max: usize::MAX };

    /// Whether `length` is allowed.
    #[must_use]
    pub fn allows(self, length: usize) -> bool {
        (self.min..=self.max).contains(&length)
    }

    /// `1 to 255 bytes`; `None` if any length is allowed.
    fn text(self, unit: &str) -> Option<String> {
        match (self.min, self.max) {
            (0, usize::MAX) => None,
            (min, usize::MAX) => Some(format!("at least {}", counted(min, unit))),
            (0, max) => Some(format!("at most {}", counted(max, unit))),
            (min, max) if min == max => Some(counted(min, unit)),
            (min, max) => Some(format!("{min} to {}", counted(max, unit))),
        }
    }
}

/// `1 byte`, `2 bytes`.
pub(crate) fn counted(count: usize, unit: &str) -> String {
    format!("{count} {}", if count == 1 { unit.trim_end_matches('s') } else { unit })
}

impl Kind {
    /// What a value must be, for messages: `an integer from 0 to 5000 milliseconds`; `unit` may be empty.
    #[must_use]
    pub fn expectation(&self, unit: &str) -> String {
        match self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Integer { .. } => numbers("an integer", self.bounds(), unit),
            Kind::Float { .. } => numbers("a number", self.bounds(), unit),
            Kind::Text(format) => match format.length.text("bytes") {
                Some(length) => format!("{} of {length}", format.noun),
                None => format.noun.to_owned(),
            },
            Kind::Choice(names) => format!("one of {}", choice_names(names)),
            Kind::Optional(kind) => kind.expectation(unit),
            Kind::List { item, length } => match length.text("items") {
                Some(length) => format!("a list of {length}, each {}", item.expectation(unit)),
                None => format!("a list, each item {}", item.expectation(unit)),
            },
            Kind::Section { .. } => "a table".to_owned(),
            Kind::Tables(_) => "a list of tables".to_owned(),
        }
    }

    /// Name of the type in the reference page.
    #[must_use]
    pub fn type_name(&self) -> String {
        match self {
            Kind::Bool => "boolean".to_owned(),
            Kind::Integer { .. } => "integer".to_owned(),
            Kind::Float { .. } => "number".to_owned(),
            Kind::Text(format) => format.type_name.to_owned(),
            Kind::Choice(_) => "choice".to_owned(),
            Kind::Optional(kind) => format!("{}, optional", kind.type_name()),
            Kind::List { item, .. } => format!("list of {}", item.type_name()),
            Kind::Section { optional: false, .. } => "table".to_owned(),
            Kind::Section { optional: true, .. } => "table, optional".to_owned(),
            Kind::Tables(_) => "list of tables".to_owned(),
        }
    }

    /// The values that are allowed, for the reference page: `1 to 65535`; empty if the type says it all.
    #[must_use]
    pub fn range_text(&self) -> String {
        match self {
            Kind::Integer { .. } | Kind::Float { .. } => match self.bounds() {
                (Some(min), Some(max)) => format!("{min} to {max}"),
                (Some(min), None) => format!("{min} or more"),
                (None, Some(max)) => format!("{max} or less"),
                (None, None) => String::new(),
            },
            Kind::Text(format) => format.length.text("bytes").unwrap_or_default(),
            Kind::Choice(names) => choice_names(names),
            Kind::Optional(kind) => kind.range_text(),
            Kind::List { item, length } => {
                let mut text = length.text("items").unwrap_or_default();
                let each = item.range_text();
                if !each.is_empty() {
                    let gap = if text.is_empty() { "" } else { ", " };
                    write!(text, "{gap}each {each}").expect("a String takes all");
                }
                text
            }
            Kind::Bool | Kind::Section { .. } | Kind::Tables(_) => String::new(),
        }
    }

    /// Whether it is a number, an optional number or a list of numbers, so that the unit in its key's name
    /// applies.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        match self {
            Kind::Integer { .. } | Kind::Float { .. } => true,
            Kind::Optional(kind) | Kind::List { item: kind, .. } => kind.is_numeric(),
            _ => false,
        }
    }

    /// Keys of the section, or of each of the tables.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Kind::Section { schema, .. } | Kind::Tables(schema) => Some(schema),
            _ => None,
        }
    }

    /// The numeric type in this kind, for `range`.
    pub(crate) fn number_mut(&mut self) -> Option<&mut Kind> {
        match self {
            Kind::Integer { .. } | Kind::Float { .. } => Some(self),
            Kind::Optional(kind) | Kind::List { item: kind, .. } => kind.number_mut(),
            _ => None,
        }
    }

    /// The length in this kind, for `length`.
    pub(crate) fn length_mut(&mut self) -> Option<&mut Length> {
        match self {
            Kind::Text(format) => Some(&mut format.length),
            Kind::List { length, .. } => Some(length),
            Kind::Optional(kind) => kind.length_mut(),
            _ => None,
        }
    }

    /// Least and greatest number as text, each `None` where the type has no end worth naming.
    fn bounds(&self) -> (Option<String>, Option<String>) {
        match *self {
            Kind::Integer { min, max } => {
                ((min != i64::MIN).then(|| min.to_string()), (max != i64::MAX).then(|| max.to_string()))
            }
            Kind::Float { min, max } => {
                ((min != f64::MIN).then(|| format!("{min:?}")), (max != f64::MAX).then(|| format!("{max:?}")))
            }
            _ => (None, None),
        }
    }
}

fn numbers(noun: &str, bounds: (Option<String>, Option<String>), unit: &str) -> String {
    let gap = if unit.is_empty() { "" } else { " " };
    match bounds {
        (Some(min), Some(max)) => format!("{noun} from {min} to {max}{gap}{unit}"),
        (Some(min), None) => format!("{noun} of at least {min}{gap}{unit}"),
        (None, Some(max)) => format!("{noun} of at most {max}{gap}{unit}"),
        (None, None) if unit.is_empty() => noun.to_owned(),
        (None, None) => format!("{noun} ({unit})"),
    }
}

fn choice_names(names: &[ChoiceName]) -> String {
    names.iter().map(|choice| quoted(choice.name)).collect::<Vec<_>>().join(", ")
}
