use super::{Header, Kind, MESSAGE_LEN_MAX, NEXT_DATA, NEXT_NONE};
use units::Sqn;

/// Builds a chain of extension headers; cleared and used again, it allocates no more.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    first: u8,
    bytes: Vec<u8>,
    last_at: usize,
}

impl Chain {
    /// Empties the chain and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a header.
    ///
    /// # Panics
    /// If the header with its two leading bytes is longer than 255 bytes, which its length field cannot say.
    pub fn push(&mut self, header: &Header<'_>) {
        if self.bytes.is_empty() {
            self.first = header.kind();
        } else {
            self.bytes[self.last_at] = header.kind();
        }
        self.last_at = self.bytes.len();
        self.bytes.extend_from_slice(&[NEXT_DATA, 0]);
        header.emit_body(&mut self.bytes);
        let len = self.bytes.len() - self.last_at;
        self.bytes[self.last_at + 1] = u8::try_from(len).expect("an extension header has at most 255 bytes");
    }

    /// Bytes of all headers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of the first header, `last` if there is none.
    pub(crate) fn first(&self, last: u8) -> u8 {
        if self.bytes.is_empty() { last } else { self.first }
    }

    /// The headers; the last one says that application data follows.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends one message.
///
/// `topic` is index and number, for the kinds that have them; without `payload` the chain ends in "nothing
/// follows".
///
/// # Panics
/// If the message would be longer than its length field can say, [`MESSAGE_LEN_MAX`], or `topic` is missing.
pub fn emit_message(
    out: &mut Vec<u8>,
    kind: Kind,
    topic: Option<(u32, Sqn)>,
    chain: &Chain,
    payload: Option<&[u8]>,
) {
    let start = out.len();
    let last = if payload.is_some() { NEXT_DATA } else { NEXT_NONE };
    out.extend_from_slice(&[kind.code(), chain.first(last), 0, 0]);
    if kind.has_topic() {
        let (index, sqn) = topic.expect("this kind of message has a topic index");
        out.extend_from_slice(&index.to_be_bytes());
        out.extend_from_slice(&sqn.0.to_be_bytes());
    }
    let chain_at = out.len();
    out.extend_from_slice(&chain.bytes);
    if !chain.is_empty() {
        out[chain_at + chain.last_at] = last;
    }
    out.extend_from_slice(payload.unwrap_or(&[]));
    let len = out.len() - start;
    assert!(len <= MESSAGE_LEN_MAX, "a message of {len} bytes must travel in fragments");
    out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
}
