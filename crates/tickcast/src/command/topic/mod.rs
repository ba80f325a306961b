//! `tickcast pub` and `tickcast sub`: any topic, from the command line.

mod payload;
mod publish;
mod stamp;
mod statistics;
mod subscribe;

pub(crate) use publish::PublishArgs;
pub(super) use publish::run as publish;
pub(crate) use subscribe::SubscribeArgs;
pub(super) use subscribe::run as subscribe;

use std::fmt::Write as _;
use std::time::Duration;

use messaging::Context;

/// How long a turn waits at most, so that signals and ends are noticed.
const TURN: Duration = Duration::from_millis(50);

/// A time of the command line, in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|e| e.to_string())
}

/// Says why `tickcast counters` does not find this process, if it does not though it should.
fn warn_of_counters(context: &Context) {
    if let Some(error) = context.counters().publish_error() {
        say!("`tickcast counters` will not find this process: {error}");
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A payload as a line of text: what is no text, and what would end the line, is escaped.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_on_one_line_whatever_is_in_it() {
        assert_eq!(printable("Zürich 1\n".as_bytes()), "Zürich 1\\n");
        assert_eq!(printable(&[b'a', 0, 0xff]), "a\\u{0}\\xff");
        assert_eq!(hex(&[0, 255]), "00ff");
    }
}
