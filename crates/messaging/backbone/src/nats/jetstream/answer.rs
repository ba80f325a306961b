//! Requests to the Direct Get API of JetStream, and its answers. Pure: the thread of NATS makes one run of bytes of what a
//! message says, and the thread of the data reads it. `docs/protocol/nats.md` has what is used of the API.

use super::search::Ask;

/// Bytes of the longest subject or number that is looked at.
const TEXT_BYTES_MAX: usize = 1_024;
const HEAD_BYTES: usize = 8 + 2 + 1 + 8 + 2;
/// Bytes that a server may send for one request. Each message of a batch has one more request's worth of room in the ring.
const BATCH_BYTES: u64 = 1 << 20;

/// The header with the place of a message in its stream.
pub(in crate::nats) const SEQUENCE: &str = "Nats-Sequence";
/// The header with the subject that a message was published to.
pub(in crate::nats) const SUBJECT: &str = "Nats-Subject";
/// The header that only messages of a batch have: how many are behind it.
pub(in crate::nats) const PENDING: &str = "Nats-Num-Pending";

/// What a server has sent to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) struct Answer<'a> {
    /// The number of the request.
    pub(super) token: u64,
    /// 0 if it has none: then it brings a message.
    pub(super) status: u16,
    /// Others may follow: it is one of a batch.
    pub(super) is_of_batch: bool,
    /// The place of the message in the stream; 0 if it says none.
    pub(super) sequence: u64,
    pub(super) subject: &'a str,
    pub(super) payload: &'a [u8],
}

/// Writes what matters of a message of NATS: the subject it came with, its status, its headers, its payload. What cannot
/// be read counts as missing, so that every message becomes an answer, if perhaps to no request.
pub(in crate::nats) fn write<'m>(
    to: &str,
    status: Option<u16>,
    header: impl Fn(&str) -> Option<&'m str>,
    payload: &[u8],
) -> Vec<u8> {
    let token = to.rsplit('.').next().and_then(|token| u64::from_str_radix(token, 16).ok()).unwrap_or(0);
    let text = |name| header(name).filter(|text| text.len() <= TEXT_BYTES_MAX);
    let sequence = text(SEQUENCE).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let subject = text(SUBJECT).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + subject.len() + payload.len());
    bytes.extend_from_slice(&token.to_be_bytes());
    bytes.extend_from_slice(&status.unwrap_or(0).to_be_bytes());
    bytes.push(header(PENDING).is_some().into());
    bytes.extend_from_slice(&sequence.to_be_bytes());
    bytes.extend_from_slice(&(subject.len() as u16).to_be_bytes());
    bytes.extend_from_slice(subject.as_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads what [`write`] has written.
pub(in crate::nats) fn read(bytes: &[u8]) -> Option<Answer<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let number_at = |at: usize| Some(u64::from_be_bytes(*head[at..].first_chunk()?));
    let short_at = |at: usize| Some(u16::from_be_bytes(*head[at..].first_chunk()?));
    let (subject, payload) = rest.split_at_checked(short_at(19)?.into())?;
    Some(Answer {
        token: number_at(0)?,
        status: short_at(8)?,
        is_of_batch: head[10] == 1,
        sequence: number_at(11)?,
        subject: std::str::from_utf8(subject).ok()?,
        payload,
    })
}

/// The body of a request about a subject, which has no characters that JSON would escape.
pub(in crate::nats) fn request(ask: Ask, subject: &str) -> String {
    match ask {
        Ask::Last => format!(r#"{{"last_by_subj":"{subject}"}}"#),
        Ask::From { sequence, most: 0 | 1 } => format!(r#"{{"seq":{sequence},"next_by_subj":"{subject}"}}"#),
        Ask::From { sequence, most } => format!(
            r#"{{"seq":{sequence},"next_by_subj":"{subject}","batch":{most},"max_bytes":{BATCH_BYTES}}}"#
        ),
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    fn headers<'h>(all: &'h [(&'h str, &'h str)]) -> impl Fn(&str) -> Option<&'h str> {
        move |name| all.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    #[test]
    fn what_a_server_says_is_read_as_it_was_written() {
        let of_message = [(SEQUENCE, "39"), (SUBJECT, "p.service.A"), ("Nats-Stream", "S")];
        let bytes = write("p.stored.00ab.000000000000002a", None, headers(&of_message), b"payload");
        let message = Answer {
            token: 0x2A,
            status: 0,
            is_of_batch: false,
            sequence: 39,
            subject: "p.service.A",
            payload: b"payload",
        };
        assert_eq!(read(&bytes), Some(message));
        let of_batch = [(SEQUENCE, "39"), (SUBJECT, "p.service.A"), (PENDING, "7")];
        let bytes = write("p.stored.00ab.2a", None, headers(&of_batch), b"payload");
        assert_eq!(read(&bytes), Some(Answer { is_of_batch: true, ..message }));
        let none = Answer { status: 404, sequence: 0, subject: "", payload: b"", ..message };
        assert_eq!(read(&write("p.stored.00ab.2a", Some(404), headers(&[]), b"")), Some(none));
    }

    #[test]
    fn what_cannot_be_read_counts_as_missing() {
        let long = "9".repeat(TEXT_BYTES_MAX + 1);
        let table: [(&str, &[(&str, &str)]); 6] = [
            ("", &[]),
            ("p.stored.x", &[(SEQUENCE, "x"), (SUBJECT, "")]),
            ("p.stored.", &[(SEQUENCE, "-1")]),
            ("p.stored.fffffffffffffffff", &[(SEQUENCE, "18446744073709551616")]),
            ("..", &[(SEQUENCE, &long), (SUBJECT, &long)]),
            ("p.+", &[(SEQUENCE, "1.5")]),
        ];
        for (to, all) in table {
            let bytes = write(to, None, headers(all), b"x");
            let answer = read(&bytes).expect("it is written");
            assert_eq!((answer.token, answer.sequence, answer.subject), (0, 0, ""), "{to} {all:?}");
        }
    }

    #[test]
    fn any_bytes_are_an_answer_or_none() {
        testkit::for_each_seed!(0..5_000, |seed| {
            let mut rng = Rng::new(seed);
            let of_message = [(SEQUENCE, "39"), (SUBJECT, "p.service.A"), (PENDING, "1")];
            let mut bytes =
                write("p.2a", Some(404).filter(|_| seed % 2 == 0), headers(&of_message), b"payload");
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            let Some(answer) = read(&bytes) else { return };
            assert_eq!(answer.subject.len() + answer.payload.len() + HEAD_BYTES, bytes.len());
        });
    }

    #[test]
    fn requests_are_those_of_the_api() {
        assert_eq!(request(Ask::Last, "a.b"), r#"{"last_by_subj":"a.b"}"#);
        let ask = |most| request(Ask::From { sequence: 7, most }, "a.b");
        assert_eq!(ask(1), r#"{"seq":7,"next_by_subj":"a.b"}"#);
        assert_eq!(ask(20), r#"{"seq":7,"next_by_subj":"a.b","batch":20,"max_bytes":1048576}"#);
    }
}
