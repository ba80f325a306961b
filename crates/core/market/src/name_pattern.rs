//! Patterns of names.

use std::fmt;

/// A pattern of item names: `*` stands for any bytes, or none, `?` for one byte, and everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Box<str>);

impl NamePattern {
    /// The longest pattern. A name has no more bytes.
    pub const BYTES_MAX: usize = 255;

    /// A pattern as it is written.
    #[must_use]
    pub fn new(pattern: &str) -> NamePattern {
        NamePattern(pattern.into())
    }

    /// Whether a name is of this pattern. Takes as many steps as the product of both lengths at most.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut from) = (0, 0);
        // Behind the last `*`, and how much of the name that has taken.
        let mut star: Option<(usize, usize)> = None;
        while from < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    at += 1;
                    star = Some((at, from));
                }
                Some(byte) if *byte == b'?' || *byte == name[from] => {
                    at += 1;
                    from += 1;
                }
                _ => {
                    let Some((behind, taken)) = star else { return false };
                    (at, from) = (behind, taken + 1);
                    star = Some((behind, taken + 1));
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_bytes_and_a_question_mark_one() {
        for (pattern, good, bad) in [
            ("*", &["", "A", "*"][..], &[][..]),
            ("", &[""], &["A"]),
            ("A", &["A"], &["", "AA", "a"]),
            ("?", &["A", "*"], &["", "AB"]),
            ("*.N", &[".N", "IBM.N", "A.N.N"], &["IBM", "IBM.NX"]),
            ("B*T", &["BT", "BXT", "BTT"], &["B", "BTX", "XBT"]),
            ("*A*B", &["AB", "xAyB", "AAB", "ABAB"], &["BA", "A", "ABx"]),
            ("?*?", &["AB", "ABC"], &["A", ""]),
            ("**", &["", "A"], &[]),
        ] {
            let compiled = NamePattern::new(pattern);
            assert_eq!(compiled.to_string(), pattern);
            for name in good {
                assert!(compiled.matches(name.as_bytes()), "{pattern} {name}");
            }
            for name in bad {
                assert!(!compiled.matches(name.as_bytes()), "{pattern} {name}");
            }
        }
        let slow = NamePattern::new(&"*a".repeat(127));
        assert!(!slow.matches(&[b'b'; 255]) && slow.matches(&[b'a'; 255]));
    }
}
