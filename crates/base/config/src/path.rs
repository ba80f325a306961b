//! Full names of keys: `p2ps.messaging.window_bytes`, `services.0.name`.

/// The name `name` in the section `path`; the root's path is empty.
pub(crate) fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether `path` is `section` or lies in it.
pub(crate) fn is_within(path: &str, section: &str) -> bool {
    section.is_empty()
        || path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A section as its header has it, for messages: ` in [p2ps]`, ` in [[services]]`, ` at the top level`.
pub(crate) fn place_text(path: &str) -> String {
    match header(path) {
        None => " at the top level".to_owned(),
        Some(header) => format!(" in {header}"),
    }
}

/// `[p2ps]`, or `[[services]]` for `services.0`; `None` for the root.
pub(crate) fn header(path: &str) -> Option<String> {
    let is_index = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let names: Vec<&str> = path.split('.').filter(|name| !is_index(name)).collect();
    let last_is_index = path.rsplit('.').next().is_some_and(is_index);
    match (names.is_empty(), last_is_index) {
        (true, _) => None,
        (false, true) => Some(format!("[[{}]]", names.join("."))),
        (false, false) => Some(format!("[{}]", names.join("."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_leave_out_the_numbers_of_tables() {
        assert_eq!(header("p2ps.messaging").as_deref(), Some("[p2ps.messaging]"));
        assert_eq!(header("services.0").as_deref(), Some("[[services]]"));
        assert_eq!(header("services.12.cache").as_deref(), Some("[services.cache]"));
        assert_eq!(header(""), None);
    }

    #[test]
    fn a_key_lies_within_its_sections_only() {
        assert!(is_within("p2ps.port", "p2ps"));
        assert!(is_within("p2ps", "p2ps"));
        assert!(is_within("p2ps", ""));
        assert!(!is_within("p2ps_two.port", "p2ps"));
    }
}
