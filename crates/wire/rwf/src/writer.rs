use crate::error::clip;
use crate::primitive::Primitive;
use crate::{DataType, Dictionary, EncodeError, FieldName, Place};

/// Encodes into the caller's buffer.
///
/// Errors are kept, not returned by every call: the first one stays until [`Writer::status`] or
/// [`Writer::finish`] hands it out, so that encoding a list of fields is straight-line code. Writing past the
/// end of the buffer writes nothing and goes on counting; the error then says how many bytes the whole needs.
///
/// Nested parts are closures: their length is closed up when the closure returns, in the shortest form. A
/// part is moved once by one or two bytes only when it turns out too long for the short form.
///
/// Bytes of the buffer behind what was written are unspecified.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut [u8],
    /// Bytes written; beyond `buf.len()` bytes that would have been.
    len: usize,
    fault: Option<EncodeError>,
    /// What fields are named and typed by, if anything.
    pub(crate) dictionary: Option<&'b Dictionary>,
    /// The field that the fault is about, if it is about one.
    pub(crate) refused_field: Option<FieldName>,
}

/// A state of a [`Writer`] to return to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    len: usize,
    fault: Option<EncodeError>,
}

impl<'b> Writer<'b> {
    /// Starts at the beginning of `buf`.
    #[inline]
    #[must_use]
    pub fn new(buf: &'b mut [u8]) -> Writer<'b> {
        Writer { buf, len: 0, fault: None, dictionary: None, refused_field: None }
    }

    /// Bytes written so far; more than the buffer holds if it is too small.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes the buffer holds.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buf.len()
    }

    /// The number of bytes written, or the first error.
    ///
    /// # Errors
    /// The first thing that could not be encoded; else [`EncodeError::BufferTooSmall`] if the buffer was.
    #[inline]
    pub fn status(&self) -> Result<usize, EncodeError> {
        match self.fault {
            Some(fault) => Err(fault),
            None if self.len > self.buf.len() => Err(self.too_small()),
            None => Ok(self.len),
        }
    }

    /// Ends the encoding and returns the bytes written.
    ///
    /// # Errors
    /// As [`Writer::status`].
    #[inline]
    pub fn finish(self) -> Result<&'b mut [u8], EncodeError> {
        let length = self.status()?;
        Ok(&mut self.buf[..length])
    }

    /// Keeps `fault` unless there is an earlier one.
    #[cold]
    pub(crate) fn fail(&mut self, fault: EncodeError) {
        if self.fault.is_none() {
            self.fault = Some(fault);
        }
    }

    /// Remembers this point, to return to when what follows turns out not to fit.
    #[must_use]
    pub(crate) fn mark(&self) -> Mark {
        Mark { len: self.len, fault: self.fault }
    }

    /// Forgets what was written, and what went wrong, since `mark` was taken.
    ///
    /// A mark of an enclosing part must not be used inside a nested one: the nested part's length would be
    /// taken from bytes that are gone. It is ignored (and the error kept) if the writer is not past it.
    pub(crate) fn rollback(&mut self, mark: Mark) {
        if mark.len <= self.len {
            self.len = mark.len;
            self.fault = mark.fault;
        }
    }

    #[cold]
    fn too_small(&self) -> EncodeError {
        EncodeError::BufferTooSmall { need_bytes: clip(self.len), have_bytes: clip(self.buf.len()) }
    }
}

/// Plain parts.
impl Writer<'_> {
    /// Writes bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(room) = self.buf.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
        }
        self.len = end;
    }

    /// Writes the first `length` bytes of `chunk`: one store of constant size where there is room for all of
    /// it.
    #[inline]
    pub(crate) fn chunk<const N: usize>(&mut self, chunk: [u8; N], length: usize) {
        let start = self.len;
        match self.buf.get_mut(start..).and_then(|room| room.first_chunk_mut::<N>()) {
            Some(room) => {
                *room = chunk;
                self.len = start + length;
            }
            None => self.bytes(&chunk[..length]),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.chunk([value], 1);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.chunk(value.to_be_bytes(), 2);
    }

    #[inline]
    pub(crate) fn i16(&mut self, value: i16) {
        self.chunk(value.to_be_bytes(), 2);
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.chunk(value.to_be_bytes(), 4);
    }

    #[inline]
    pub(crate) fn i32(&mut self, value: i32) {
        self.chunk(value.to_be_bytes(), 4);
    }

    #[inline]
    pub(crate) fn u15rb(&mut self, value: u16, place: Place) {
        if value < 0x80 {
            self.u8(value as u8);
        } else {
            self.limit(usize::from(value), U15_MAX, place);
            self.u16(value | 0x8000);
        }
    }

    #[inline]
    pub(crate) fn u16ob(&mut self, value: u16) {
        let [high, low] = value.to_be_bytes();
        if value < 0xFE { self.u8(low) } else { self.chunk([0xFE, high, low], 3) }
    }

    pub(crate) fn u30rb(&mut self, value: u32, place: Place) {
        let [a, b, c, d] = value.to_be_bytes();
        match value {
            0..=0x3F => self.u8(d),
            0x40..=0x3FFF => self.chunk([0x80 | c, d], 2),
            0x4000..=0x3F_FFFF => self.chunk([0x40 | b, c, d], 3),
            0x40_0000..=U30_MAX => self.chunk([0xC0 | a, b, c, d], 4),
            _ => self.fail(EncodeError::BadValue { place, value, max: U30_MAX }),
        }
    }

    pub(crate) fn buf8(&mut self, bytes: &[u8], place: Place) {
        self.limit(bytes.len(), u8::MAX.into(), place);
        self.u8(bytes.len() as u8);
        self.bytes(bytes);
    }

    pub(crate) fn buf15(&mut self, bytes: &[u8], place: Place) {
        self.limit(bytes.len(), U15_MAX, place);
        self.u15rb(bytes.len().min(U15_MAX) as u16, place);
        self.bytes(bytes);
    }

    pub(crate) fn buf16(&mut self, bytes: &[u8], place: Place) {
        self.limit(bytes.len(), U16_MAX, place);
        self.u16ob(bytes.len() as u16);
        self.bytes(bytes);
    }

    pub(crate) fn container_type(&mut self, data_type: DataType, place: Place) {
        match data_type.container_byte() {
            Some(byte) => self.u8(byte),
            None => self.fail(EncodeError::BadType { place, data_type }),
        }
    }

    /// A value with its length (`u16ob`) in front, as it stands in a standard entry.
    #[inline]
    pub(crate) fn prefixed(&mut self, value: &impl Primitive) {
        let length = value.content_len();
        self.limit(length, U16_MAX, Place::Content);
        self.u16ob(length as u16);
        value.put_content(self);
    }

    /// Fails unless `length` is at most `max`.
    #[inline]
    pub(crate) fn limit(&mut self, length: usize, max: usize, place: Place) {
        if length > max {
            self.fail(EncodeError::TooLong { place, length: clip(length), max: clip(max) });
        }
    }
}

pub(crate) const U15_MAX: usize = 0x7FFF;
pub(crate) const U16_MAX: usize = 0xFFFF;
pub(crate) const U30_MAX: u32 = 0x3FFF_FFFF;

/// Parts whose length, count or flags are known only when they end.
impl Writer<'_> {
    /// A part behind its `u16ob` length. Returns what `write` returns.
    #[inline]
    pub(crate) fn nested16<R>(&mut self, place: Place, write: impl FnOnce(&mut Self) -> R) -> R {
        self.u8(0);
        let start = self.len;
        let result = write(self);
        let length = self.len - start;
        if length < 0xFE {
            self.patch(start - 1, [length as u8]);
        } else {
            self.limit(length, U16_MAX, place);
            self.open_gap(start, 2);
            let [high, low] = (length as u16).to_be_bytes();
            self.patch(start - 1, [0xFE, high, low]);
        }
        result
    }

    /// A part behind its `u15rb` length. Returns what `write` returns.
    #[inline]
    pub(crate) fn nested15<R>(&mut self, place: Place, write: impl FnOnce(&mut Self) -> R) -> R {
        self.u8(0);
        let start = self.len;
        let result = write(self);
        let length = self.len - start;
        if length < 0x80 {
            self.patch(start - 1, [length as u8]);
        } else {
            self.limit(length, U15_MAX, place);
            self.open_gap(start, 1);
            self.patch(start - 1, (length as u16 | 0x8000).to_be_bytes());
        }
        result
    }

    /// Puts the length of what was written from `start` on in front of it: a `u15rb` in two bytes, as the
    /// libraries write the length of set data.
    pub(crate) fn insert_length15_long(&mut self, start: usize, place: Place) {
        let length = self.len - start;
        self.limit(length, U15_MAX, place);
        self.open_gap(start, 2);
        self.patch(start, (length as u16 | 0x8000).to_be_bytes());
    }

    /// A part behind a `u15rb` length that is always written in two bytes, as the libraries write keys.
    pub(crate) fn nested15_long(&mut self, place: Place, write: impl FnOnce(&mut Self)) {
        self.u16(0);
        let start = self.len;
        write(self);
        let length = self.len - start;
        self.limit(length, U15_MAX, place);
        self.patch(start - 2, (length as u16 | 0x8000).to_be_bytes());
    }

    /// Overwrites what was written at `at`.
    #[inline]
    pub(crate) fn patch<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(room) = self.buf.get_mut(at..).and_then(|room| room.first_chunk_mut::<N>()) {
            *room = bytes;
        }
    }

    /// Fills in a number of entries for which two bytes were left at `at`.
    #[inline]
    pub(crate) fn patch_count(&mut self, at: usize, count: usize) {
        self.limit(count, U16_MAX, Place::EntryCount);
        self.patch(at, (count as u16).to_be_bytes());
    }

    /// Moves everything from `at` on by `width` bytes. Past the end of the buffer it is counted only.
    #[cold]
    fn open_gap(&mut self, at: usize, width: usize) {
        if self.len + width <= self.buf.len() {
            self.buf.copy_within(at..self.len, at + width);
        }
        self.len += width;
    }
}

/// Encodes with `write` into a new vector of the right size.
///
/// For the control plane: it starts with a small buffer and runs `write` again with the exact size when that
/// was too small, so `write` must do the same each time.
///
/// # Errors
/// What [`Writer::finish`] returns, except that a buffer is never too small.
pub fn encode_to_vec(mut write: impl FnMut(&mut Writer<'_>)) -> Result<Vec<u8>, EncodeError> {
    let mut buffer = vec![0; 512];
    loop {
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer);
        match writer.status() {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(EncodeError::BufferTooSmall { need_bytes, have_bytes }) if need_bytes > have_bytes => {
                buffer.resize(need_bytes as usize, 0);
            }
            Err(fault) => return Err(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Place = Place::Content;

    /// Every nested form around `length` bytes, twice nested, so that closing up moves what was closed
    /// before.
    fn nested(w: &mut Writer<'_>, length: usize) {
        w.u8(0xAA);
        w.nested16(P, |w| w.nested15(P, |w| w.nested15_long(P, |w| w.bytes(&vec![7; length]))));
        w.u30rb(64, P);
    }

    #[test]
    fn lengths_are_closed_up_in_their_shortest_form() {
        for (length, head) in [
            (3, &[0xAA, 6, 5, 0x80, 3][..]),
            (126, &[0xAA, 130, 0x80, 128, 0x80, 126]),
            (250, &[0xAA, 0xFE, 0, 254, 0x80, 252, 0x80, 250]),
            (300, &[0xAA, 0xFE, 1, 48, 0x81, 46, 0x81, 44]),
        ] {
            let bytes = encode_to_vec(|w| nested(w, length)).expect("short enough");
            assert_eq!(&bytes[..head.len()], head);
            assert_eq!(bytes.len(), head.len() + length + 2);
            assert!(bytes[head.len()..head.len() + length].iter().all(|b| *b == 7));
            assert_eq!(bytes[bytes.len() - 2..], [0x80, 64]);
        }
    }

    #[test]
    fn a_buffer_too_small_by_any_number_of_bytes_is_told_the_exact_need() {
        for length in [0, 3, 126, 250, 300] {
            let whole = encode_to_vec(|w| nested(w, length)).expect("short enough");
            for have in 0..whole.len() {
                let mut buffer = vec![0; have];
                let mut writer = Writer::new(&mut buffer);
                nested(&mut writer, length);
                let too_small =
                    EncodeError::BufferTooSmall { need_bytes: clip(whole.len()), have_bytes: clip(have) };
                assert_eq!(writer.finish().expect_err("too small"), too_small);
            }
            let mut buffer = vec![0; whole.len()];
            let mut writer = Writer::new(&mut buffer);
            nested(&mut writer, length);
            assert_eq!(writer.finish().expect("exact"), whole);
        }
    }

    #[test]
    fn the_first_error_is_kept_and_rolled_back_with_what_caused_it() {
        let mut buffer = [0; 8];
        let mut writer = Writer::new(&mut buffer);
        writer.u8(1);
        let mark = writer.mark();
        writer.buf8(&[0; 256], P);
        writer.u30rb(u32::MAX, P);
        let too_long = EncodeError::TooLong { place: P, length: 256, max: 255 };
        assert_eq!(writer.status(), Err(too_long));
        writer.rollback(mark);
        writer.u8(2);
        assert_eq!(writer.finish().expect("rolled back"), [1, 2]);
    }

    #[test]
    fn every_size_of_number_is_written_in_its_shortest_form() {
        let one = |write: fn(&mut Writer<'_>)| encode_to_vec(write).expect("small");
        assert_eq!(one(|w| w.u15rb(0x7F, P)), [0x7F]);
        assert_eq!(one(|w| w.u15rb(0x80, P)), [0x80, 0x80]);
        assert_eq!(one(|w| w.u15rb(0x7FFF, P)), [0xFF, 0xFF]);
        assert_eq!(one(|w| w.u16ob(0xFD)), [0xFD]);
        assert_eq!(one(|w| w.u16ob(0xFE)), [0xFE, 0, 0xFE]);
        assert_eq!(one(|w| w.u30rb(0x3F, P)), [0x3F]);
        assert_eq!(one(|w| w.u30rb(0x3FFF, P)), [0xBF, 0xFF]);
        assert_eq!(one(|w| w.u30rb(0x3F_FFFF, P)), [0x7F, 0xFF, 0xFF]);
        assert_eq!(one(|w| w.u30rb(U30_MAX, P)), [0xFF; 4]);
        let refused = EncodeError::TooLong { place: P, length: 0x8000, max: 0x7FFF };
        assert_eq!(encode_to_vec(|w| w.u15rb(0x8000, P)), Err(refused));
    }
}
