use crate::wire::lbmr::NAME_LEN_MAX;
use regex::{Regex, RegexBuilder};
use std::fmt;

/// What a wildcard query asks for.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Topics that begin so: `^literal`, `^literal.*`, `^literal.*$`.
    Prefix(String),
    /// The one topic of this name: `^literal$`.
    Exact(String),
    /// Topics in whose names the expression is found.
    Expression(Regex),
}

/// Why a pattern is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(Box<str>);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PatternError {}

/// Memory that a compiled expression may take, bytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 18;
/// How deep an expression may be nested.
const NESTING_MAX: u32 = 32;

impl Pattern {
    /// Reads a pattern in the syntax of Perl.
    ///
    /// Of that syntax everything is understood that can be matched in time linear in the name's length. Look
    /// around, references back, recursion, atomic groups and possessive repetition are not, nor are classes
    /// of Unicode beyond `\d`, `\s`, `\w`.
    pub(super) fn parse(pattern: &str) -> Result<Pattern, PatternError> {
        if pattern.len() > NAME_LEN_MAX || pattern.is_empty() || pattern.contains('\0') {
            let bytes = pattern.len();
            let text = format!("a pattern of {bytes} bytes: allowed are 1 to {NAME_LEN_MAX}, none zero");
            return Err(PatternError(text.into()));
        }
        if let Some(literal) = Pattern::parse_literal(pattern) {
            return Ok(literal);
        }
        let mut builder = RegexBuilder::new(pattern);
        match builder.size_limit(EXPRESSION_BYTES_MAX).nest_limit(NESTING_MAX).build() {
            Ok(expression) => Ok(Pattern::Expression(expression)),
            Err(regex::Error::CompiledTooBig(limit)) => {
                let text = format!("the pattern {pattern:?} takes more than {limit} bytes when compiled");
                Err(PatternError(text.into()))
            }
            Err(error) => {
                // the last line says what is wrong, those before it show where
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Err(PatternError(format!("the pattern {pattern:?} is not understood: {reason}").into()))
            }
        }
    }

    /// A pattern that is no more than a literal, anchored at its begin.
    fn parse_literal(pattern: &str) -> Option<Pattern> {
        let mut rest = pattern.strip_prefix('^')?.chars();
        let mut literal = String::new();
        loop {
            let at = rest.clone();
            match rest.next() {
                Some('\\') => literal.push(rest.next().filter(|c| !c.is_alphanumeric())?),
                Some(c) if !is_special(c) => literal.push(c),
                _ => {
                    return match at.as_str() {
                        "" | ".*" | ".*$" => Some(Pattern::Prefix(literal)),
                        "$" => Some(Pattern::Exact(literal)),
                        _ => None,
                    };
                }
            }
        }
    }

    /// Whether a topic is asked for.
    pub(super) fn matches(&self, topic: &str) -> bool {
        match self {
            Pattern::Prefix(prefix) => topic.starts_with(prefix),
            Pattern::Exact(name) => topic == name,
            Pattern::Expression(expression) => expression.is_match(topic),
        }
    }

    /// The pattern for topics that begin with `prefix`.
    pub(super) fn of_prefix(prefix: &str) -> String {
        let mut out = String::from("^");
        for c in prefix.chars() {
            if is_special(c) {
                out.push('\\');
            }
            out.push(c);
        }
        out.push_str(".*");
        out
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '\\' | '^' | '$' | '.' | '|' | '?' | '*' | '+' | '(' | ')' | '[' | ']' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_prefixes_read_back_from_their_patterns() {
        for prefix in ["", "px.eq.", "a+b*c", "äöü", r"back\slash", "plain"] {
            let pattern = Pattern::of_prefix(prefix);
            match Pattern::parse(&pattern) {
                Ok(Pattern::Prefix(read)) => assert_eq!(read, prefix, "{pattern}"),
                other => panic!("{pattern}: {other:?}"),
            }
        }
    }

    #[test]
    fn literals_need_no_expression_and_everything_else_becomes_one() {
        let table = [
            (r"^px\.eq\..*$", "prefix px.eq."),
            (r"^px\.eq", "prefix px.eq"),
            (r"^px\.eq$", "exact px.eq"),
            ("^.*", "prefix "),
            ("px", "expression"),
            (r"^px\.eq\.[A-M].*$", "expression"),
            (r"^\d+", "expression"),
            ("^a|b", "expression"),
            ("^a.b.*", "expression"),
        ];
        for (pattern, expected) in table {
            let read = match Pattern::parse(pattern).expect("understood") {
                Pattern::Prefix(text) => format!("prefix {text}"),
                Pattern::Exact(text) => format!("exact {text}"),
                Pattern::Expression(_) => "expression".to_owned(),
            };
            assert_eq!(read, expected, "{pattern}");
        }
    }

    #[test]
    fn expressions_match_names_as_perl_would() {
        let table = [
            (r"^px\.eq\.[A-M].*$", "px.eq.ACME", true),
            (r"^px\.eq\.[A-M].*$", "px.eq.ZETA", false),
            ("eq", "px.eq.ACME", true),
            (r"\.(ACME|ZETA)$", "px.eq.ZETA", true),
            (r"^orders\.[a-z]+$", "orders.eu2", false),
            (r"(?i)\.acme$", "px.eq.ACME", true),
            (r"^\w+\.\d{2,4}$", "px.123", true),
            (r"^px\.eq\.", "px.fx.EUR", false),
            (r"^px\.eq$", "px.eq", true),
        ];
        for (pattern, topic, expected) in table {
            assert_eq!(Pattern::parse(pattern).expect("understood").matches(topic), expected, "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_matched_in_linear_time_or_small_memory_is_refused_with_the_reason() {
        let refused = [
            ("a(?=b)", "look-around"),
            (r"(a)\1", "backreferences"),
            ("(a", "unclosed group"),
            (r"^a\", "incomplete escape"),
            (r"(\w{200}){200}", "262144 bytes"),
            ("", "1 to 255"),
        ];
        for (pattern, reason) in refused {
            let error = Pattern::parse(pattern).expect_err(pattern).to_string();
            assert!(error.contains(reason), "{pattern}: {error}");
        }
        let deep = "(".repeat(100) + &")".repeat(100);
        assert!(Pattern::parse(&deep).is_err());
        assert!(Pattern::parse(&"x".repeat(256)).is_err());
    }
}
