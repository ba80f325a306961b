use crate::{HandshakeError, Text};

/// Reads the fields of one part of a handshake message in order, never beyond its end.
pub(super) struct Fields<'a> {
    part: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Reads `part` from its byte `at` on; `at` is where the part stands in the message, for errors.
    pub(super) fn new(part: &'a [u8], at: usize) -> Fields<'a> {
        Fields { part, at }
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, HandshakeError> {
        Ok(self.bytes(field, 1)?[0])
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, HandshakeError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, HandshakeError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, HandshakeError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// A text with its length in one byte before it.
    pub(super) fn text(&mut self, field: &'static str) -> Result<Text<'a>, HandshakeError> {
        let bytes = self.u8(field)?;
        Ok(Text::new(self.bytes(field, usize::from(bytes))?))
    }

    pub(super) fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], HandshakeError> {
        let end = self.at + count;
        let Some(bytes) = self.part.get(self.at..end) else {
            return Err(HandshakeError::Field {
                field,
                end: wire_u16(end),
                limit: wire_u16(self.part.len()),
            });
        };
        self.at = end;
        Ok(bytes)
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.part.get(self.at..).unwrap_or_default()
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], HandshakeError> {
        let bytes = self.bytes(field, N)?;
        Ok(*bytes.first_chunk().expect("as many bytes as were asked for"))
    }
}

/// Sets the length field of a message that was appended to `out` at `start`.
pub(super) fn set_length(out: &mut [u8], start: usize) {
    let length = wire_u16(out.len() - start);
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text with its length in one byte before it.
pub(super) fn put_text(out: &mut Vec<u8>, text: Text<'_>) {
    out.push(u8::try_from(text.as_bytes().len()).expect("a text of the handshake has at most 255 bytes"));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a component container: `u8` length of the rest; `u8` length, component version.
pub(super) fn put_component(out: &mut Vec<u8>, version: Text<'_>) {
    assert!(version.as_bytes().len() <= 253, "a component version has at most 253 bytes");
    out.push(version.as_bytes().len() as u8 + 1);
    put_text(out, version);
}

/// A position in a message, for an error or a length field.
pub(super) fn wire_u16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
