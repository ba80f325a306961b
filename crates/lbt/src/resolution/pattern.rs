/// What a wildcard query asks for, of the patterns that can be answered without a regular expression engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Topics that begin so: `^literal`, `^literal.*`, `^literal.*$`.
    Prefix(String),
    /// The one topic of this name: `^literal$`.
    Exact(String),
}

impl Pattern {
    /// Reads a pattern in the syntax of Perl; `None` for those that are more than a literal.
    pub(super) fn parse(pattern: &str) -> Option<Pattern> {
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
            assert_eq!(Pattern::parse(&pattern), Some(Pattern::Prefix(prefix.to_owned())), "{pattern}");
        }
    }

    #[test]
    fn literals_are_understood_and_everything_else_is_not() {
        let prefix = |p: &str| Some(Pattern::Prefix(p.to_owned()));
        let table = [
            (r"^px\.eq\..*$", prefix("px.eq.")),
            (r"^px\.eq", prefix("px.eq")),
            (r"^px\.eq$", Some(Pattern::Exact("px.eq".to_owned()))),
            ("^.*", prefix("")),
            ("px", None),
            (r"^px\.eq\.[A-M].*$", None),
            (r"^\d+", None),
            ("^a|b", None),
            ("^a.b.*", None),
            (r"^a\", None),
            ("", None),
        ];
        for (pattern, expected) in table {
            assert_eq!(Pattern::parse(pattern), expected, "{pattern}");
        }
    }
}
