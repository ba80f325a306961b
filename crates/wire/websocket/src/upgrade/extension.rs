//! `permessage-deflate` and its parameters.

use crate::UpgradeError;
use crate::upgrade::{EXTENSIONS, Headers};

/// What was agreed about compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflate {
    /// The peer compresses each message by itself.
    pub peer_starts_anew: bool,
}

const NAME: &str = "permessage-deflate";
const WINDOW_BITS_MAX: u8 = 15;

/// The parameters of one offer or answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parameters {
    server_starts_anew: bool,
    client_starts_anew: bool,
    server_window_bits: Option<u8>,
    /// `Some(None)`: named without a value, which only an offer may do.
    client_window_bits: Option<Option<u8>>,
}

impl Parameters {
    /// The parameters of an entry of the header; `None` if it is another extension, or malformed, or has a
    /// parameter twice or one that is not known: then it must be declined.
    fn parse(entry: &str) -> Option<Parameters> {
        let mut parts = entry.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let mut found = Parameters::default();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                None => (part, None),
            };
            let is_first = match name {
                "server_no_context_takeover" if value.is_none() => {
                    !std::mem::replace(&mut found.server_starts_anew, true)
                }
                "client_no_context_takeover" if value.is_none() => {
                    !std::mem::replace(&mut found.client_starts_anew, true)
                }
                "server_max_window_bits" => found.server_window_bits.replace(window_bits(value?)?).is_none(),
                "client_max_window_bits" => {
                    let bits = match value {
                        Some(value) => Some(window_bits(value)?),
                        None => None,
                    };
                    found.client_window_bits.replace(bits).is_none()
                }
                _ => return None,
            };
            if !is_first {
                return None;
            }
        }
        Some(found)
    }
}

/// 8 to 15, without leading zeros.
fn window_bits(value: &str) -> Option<u8> {
    let bits = value.parse().ok()?;
    ((8..=WINDOW_BITS_MAX).contains(&bits) && !value.starts_with(['0', '+'])).then_some(bits)
}

/// What a server does with the offers of a client: the first that it can keep to. Windows smaller than 32 KiB
/// for what the server sends are declined, because all clients share what is compressed once.
pub(crate) fn agree(headers: Headers<'_>) -> Option<Deflate> {
    headers.list(EXTENSIONS).filter_map(Parameters::parse).find_map(|offer| {
        let is_whole_window = offer.server_window_bits.is_none_or(|bits| bits == WINDOW_BITS_MAX);
        is_whole_window.then_some(Deflate { peer_starts_anew: offer.client_starts_anew })
    })
}

impl Deflate {
    /// The value of the header in a server's answer.
    pub(crate) fn answer(&self) -> &'static str {
        if self.peer_starts_anew {
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        } else {
            "permessage-deflate; server_no_context_takeover"
        }
    }
}

/// The value of the header in a client's request. Whether the server keeps a context is its choice.
pub(crate) const OFFER: &str = "permessage-deflate; client_no_context_takeover";

/// What a server's answer to [`OFFER`], or to none, means.
///
/// # Errors
/// It accepts what was not offered, or more than one thing.
pub(crate) fn accepted(headers: Headers<'_>, has_offered: bool) -> Result<Option<Deflate>, UpgradeError> {
    let mut answers = headers.list(EXTENSIONS);
    let Some(answer) = answers.next() else { return Ok(None) };
    let answer = Parameters::parse(answer).filter(|_| has_offered && answers.next().is_none());
    match answer {
        // A window for the client's messages may be named in an answer only if it was in the offer.
        Some(answer) if answer.client_window_bits.is_none() => {
            Ok(Some(Deflate { peer_starts_anew: answer.server_starts_anew }))
        }
        _ => Err(UpgradeError::Extension),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade::Head;

    fn with<T>(value: &str, read: impl FnOnce(Headers<'_>) -> T) -> T {
        let head = format!("x\r\n{EXTENSIONS}: {value}");
        read(Head::parse(head.as_bytes()).expect("a good head").headers)
    }

    #[test]
    fn offers_of_clients_in_the_field_are_accepted() {
        for offer in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate;server_no_context_takeover",
            "x-other, permessage-deflate; client_max_window_bits=10; server_max_window_bits=15",
            "permessage-deflate; server_max_window_bits=10, permessage-deflate",
        ] {
            let agreed = with(offer, agree).expect(offer);
            assert!(!agreed.peer_starts_anew);
            assert_eq!(agreed.answer(), "permessage-deflate; server_no_context_takeover");
        }
        let agreed = with("permessage-deflate; client_no_context_takeover", agree).expect("it is good");
        assert!(agreed.peer_starts_anew && agreed.answer().ends_with("; client_no_context_takeover"));
    }

    #[test]
    fn offers_that_cannot_be_kept_to_are_declined() {
        for offer in [
            "",
            "x-webkit-deflate-frame",
            "permessage-deflate; server_max_window_bits=10",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=7",
            "permessage-deflate; client_max_window_bits=016",
            "permessage-deflate; client_max_window_bits=16",
            "permessage-deflate; unknown",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        ] {
            assert_eq!(with(offer, agree), None, "{offer}");
        }
    }

    #[test]
    fn a_client_takes_only_what_it_offered() {
        let good = with("permessage-deflate; server_max_window_bits=9", |h| accepted(h, true));
        assert_eq!(good, Ok(Some(Deflate { peer_starts_anew: false })));
        assert_eq!(with("", |h| accepted(h, false)), Ok(None));
        for (answer, has_offered) in [
            ("permessage-deflate", false),
            ("permessage-deflate; client_max_window_bits=9", true),
            ("permessage-deflate, permessage-deflate", true),
            ("x-other", true),
        ] {
            let error = with(answer, |h| accepted(h, has_offered));
            assert_eq!(error, Err(UpgradeError::Extension), "{answer}");
        }
    }
}
