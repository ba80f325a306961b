//! What the demo writes: events, each a line that stays, and a line of counters that on a terminal is written over.

use std::io::{self, IsTerminal, Write};

/// A line that stays.
pub(super) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // On a terminal it takes the place of the counters, which come again beneath it.
    let written = if out.is_terminal() { writeln!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
    written.and_then(|()| out.flush())
}

/// The counters of this moment.
pub(super) fn show(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() { write!(out, "\r{line}\x1b[K") } else { writeln!(out, "{line}") };
    written.and_then(|()| out.flush())
}
