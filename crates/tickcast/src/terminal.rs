//! What the terminal is like that a person looks at: its size, and whether it shows colours.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Whether text may be coloured and redrawn in place on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Colours are wanted: `NO_COLOR` is not set (<https://no-color.org>).
    pub(crate) colours: bool,
    /// It moves its cursor: it is not a `dumb` one.
    pub(crate) moves: bool,
}

impl Style {
    /// As the environment says.
    pub(crate) fn of_environment() -> Style {
        Style::of(env::var_os("NO_COLOR").as_deref(), env::var_os("TERM").as_deref())
    }

    fn of(no_color: Option<&OsStr>, term: Option<&OsStr>) -> Style {
        let moves = term.is_none_or(|term| term != "dumb");
        Style { colours: moves && no_color.is_none_or(OsStr::is_empty), moves }
    }
}

/// Columns and lines of the terminal that standard output is; `None` if it has no size.
pub(crate) fn size() -> Option<(usize, usize)> {
    let (terminal_size::Width(columns), terminal_size::Height(lines)) = terminal_size::terminal_size()?;
    (columns > 0 && lines > 0).then_some((usize::from(columns), usize::from(lines)))
}

/// A terminal whose keys come one by one without being shown, and whose screen is another one than before. It is as it was
/// when this is dropped.
pub(crate) struct RawMode(Termios);

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

impl RawMode {
    /// Reads of standard input end after 100 ms without a key. Ctrl-C stays a signal.
    pub(crate) fn enter() -> io::Result<RawMode> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 1;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        restore_at_panic(before.clone());
        let entered = RawMode(before);
        print(ENTER)?;
        Ok(entered)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

/// A panic aborts the process: nothing is dropped, and its message must not be lost with the other screen.
fn restore_at_panic(before: Termios) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore(&before);
        report(panic);
    }));
}

fn restore(before: &Termios) {
    // A terminal that is gone needs nothing.
    let _ = print(LEAVE);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line with its colours (escape sequences `ESC [ ... m`) cut to `columns`, so that it stays on one line; without its
/// colours if there are to be none.
pub(crate) fn fit(line: &str, columns: usize, colours: bool) -> String {
    let (mut text, mut shown, mut is_coloured) = (String::with_capacity(line.len()), 0, false);
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        if let Some(sequence) = sequence(rest) {
            if colours {
                text += sequence;
                is_coloured = sequence != RESET;
            }
            rest = &rest[sequence.len()..];
            continue;
        }
        if shown == columns {
            break;
        }
        text.push(next);
        shown += 1;
        rest = &rest[next.len_utf8()..];
    }
    if is_coloured {
        text += RESET;
    }
    text
}

const RESET: &str = "\x1b[0m";

/// The colour that a text begins with.
fn sequence(text: &str) -> Option<&str> {
    let end = text.strip_prefix("\x1b[")?.find(|c: char| c.is_ascii_alphabetic())?;
    Some(&text[..end + 3])
}

/// What is shown in place of a character that others have chosen: nothing that commands a terminal, or turns the order of
/// the characters behind it round.
pub(crate) fn shown(c: char) -> char {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || turns { '?' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_behind_what_is_seen_of_them_and_end_in_no_colour() {
        let line = "ab\x1b[32mcd\x1b[0mef";
        assert_eq!(fit(line, 6, true), line);
        assert_eq!(fit(line, 3, true), "ab\x1b[32mc\x1b[0m");
        assert_eq!(fit(line, 4, true), "ab\x1b[32mcd\x1b[0m");
        assert_eq!((fit(line, 5, false), fit(line, 0, true)), ("abcde".to_owned(), String::new()));
        assert_eq!(fit("\u{e4}\u{f6}\u{fc}", 2, true), "\u{e4}\u{f6}", "characters, not bytes");
        assert_eq!(fit("a\x1b[", 9, true), "a\x1b[", "no sequence");
    }

    #[test]
    fn colours_are_left_out_where_nobody_wants_them_or_can_show_them() {
        let style = |no_color: Option<&str>, term: Option<&str>| {
            let Style { colours, moves } = Style::of(no_color.map(OsStr::new), term.map(OsStr::new));
            (colours, moves)
        };
        assert_eq!(style(None, Some("xterm")), (true, true));
        assert_eq!(style(Some(""), None), (true, true), "an empty NO_COLOR is none");
        assert_eq!(style(Some("1"), Some("xterm")), (false, true));
        assert_eq!(style(None, Some("dumb")), (false, false));
    }
}
