//! JSON as the vectors are to be compared: numbers as exact decimals, members without their order, members
//! of the same name side by side.

use std::fmt;

/// A JSON value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// `null`, `true`, `false`.
    Word(String),
    /// Sign, digits without zeros at either end, and the power of ten of the last one.
    Number { negative: bool, digits: String, exponent: i64 },
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Value>),
    /// An object, sorted by name.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a text that serde_json agrees to be JSON.
    pub(crate) fn read(text: &str) -> Result<Value, serde_json::Error> {
        serde_json::from_str::<serde_json::Value>(text)?;
        let (value, rest) = value(text.trim_start());
        assert!(rest.trim_start().is_empty(), "{text}");
        Ok(value)
    }
}

fn value(text: &str) -> (Value, &str) {
    match text.as_bytes()[0] {
        b'{' => {
            let (mut members, rest) = parts(&text[1..], '}', |text| {
                let (name, rest) = string(text);
                let (value, rest) = value(rest.trim_start().trim_start_matches(':').trim_start());
                ((name, value), rest)
            });
            members.sort_by(|a, b| a.0.cmp(&b.0));
            (Value::Object(members), rest)
        }
        b'[' => {
            let (items, rest) = parts(&text[1..], ']', value);
            (Value::Array(items), rest)
        }
        b'"' => {
            let (text, rest) = string(text);
            (Value::Text(text), rest)
        }
        _ => {
            let (word, rest) = text.split_at(text.find([',', ']', '}', ' ', '\n']).unwrap_or(text.len()));
            let number = word.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
            (if number { decimal(word) } else { Value::Word(word.to_owned()) }, rest)
        }
    }
}

fn parts<T>(mut text: &str, close: char, part: impl Fn(&str) -> (T, &str)) -> (Vec<T>, &str) {
    let mut found = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix(close) {
            return (found, rest);
        }
        let (one, rest) = part(text.strip_prefix(',').unwrap_or(text).trim_start());
        found.push(one);
        text = rest;
    }
}

fn string(text: &str) -> (String, &str) {
    let mut escaped = false;
    let end = text[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let (string, rest) = text.split_at(end.expect("checked to be JSON") + 2);
    (serde_json::from_str(string).expect("checked to be JSON"), rest)
}

fn decimal(word: &str) -> Value {
    let (word, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let mut exponent: i64 = exponent.parse().expect("checked to be JSON");
    let negative = word.starts_with('-');
    let (whole, decimals) =
        word.trim_start_matches('-').split_once('.').unwrap_or((word.trim_start_matches('-'), ""));
    exponent -= decimals.len() as i64;
    let digits = format!("{whole}{decimals}");
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    exponent += (digits.len() - short.len()) as i64;
    match short {
        "" => Value::Number { negative: false, digits: "0".to_owned(), exponent: 0 },
        _ => Value::Number { negative, digits: short.to_owned(), exponent },
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Word(word) => f.write_str(word),
            Value::Number { negative, digits, exponent } => {
                write!(f, "{}{digits}e{exponent}", if *negative { "-" } else { "" })
            }
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Array(items) => f.debug_list().entries(items).finish(),
            Value::Object(members) => f.debug_map().entries(members.iter().map(|(n, v)| (n, v))).finish(),
        }
    }
}
