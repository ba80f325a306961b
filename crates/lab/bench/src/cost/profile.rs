//! What callgrind has written.

use std::collections::HashMap;

/// Instructions that each function took with all that it called, by name.
///
/// Format: `fn=NAME` begins a function, a line that begins with a position and a number is a cost of its own,
/// `calls=` precedes the cost of one callee's whole work. Names and positions must not be compressed.
pub(super) fn inclusive(text: &str) -> HashMap<&str, u64> {
    let mut all = HashMap::new();
    let mut function = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = Some(name);
        } else if let Some(name) = function
            && let Some(cost) = cost(line)
        {
            *all.entry(name).or_default() += cost;
        }
    }
    all
}

/// The number of a line `POSITION COST`.
fn cost(line: &str) -> Option<u64> {
    if !line.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    line.split_once(' ')?.1.trim().parse().ok()
}

/// The compiler that a program was built by, as its object file says.
pub(super) fn compiler(program: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"rustc version ";
    let found = program
        .windows(MARK.len() + 1)
        .position(|w| w.starts_with(MARK) && w[MARK.len()].is_ascii_digit())?;
    let text: Vec<u8> = program[found..].iter().copied().take_while(|b| (b' '..0x7f).contains(b)).collect();
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_costs_what_it_does_itself_and_what_it_calls() {
        let text = "\
version: 1
events: Ir

fl=(unknown)
fn=bench::measured_send
10 40
12 2
cfn=lbt::send
calls=2 100
11 300
cfn=net::flush
calls=1 200
11 58

fn=lbt::send
100 300

totals: 400
";
        let all = inclusive(text);
        assert_eq!((all["bench::measured_send"], all["lbt::send"], all.len()), (400, 300, 2));
    }

    #[test]
    fn the_compiler_is_read_from_the_program() {
        let program =
            b"\x00\"rustc version \"\x00junk\x00rustc version 1.95.0 (f2d3ce0bd 2026-03-21)\x00more";
        assert_eq!(compiler(program).as_deref(), Some("rustc version 1.95.0 (f2d3ce0bd 2026-03-21)"));
        assert_eq!(compiler(b"rustc version x"), None);
    }
}
