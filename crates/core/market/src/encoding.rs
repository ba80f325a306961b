//! A buffer that messages are encoded into again and again.

use rwf::{Dictionary, EncodeError, FieldName, Writer};

/// Holds the bytes of the last message encoded; grows to what the largest needed and keeps that room.
#[derive(Debug, Default)]
pub struct Encoding {
    room: Vec<u8>,
    len: usize,
}

/// Why a message cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeFault {
    /// What is wrong.
    pub error: EncodeError,
    /// The field that was refused, if it is one.
    pub field: Option<FieldName>,
    /// Whether there was a dictionary.
    pub has_dictionary: bool,
}

impl Encoding {
    /// Encodes with `write`, which is run again in more room if there was too little, and must then do the
    /// same.
    ///
    /// Everything this crate encodes was either decoded before or is made here; if it cannot be encoded all
    /// the same (a name of 300 bytes in a configuration, say), nothing is held and the fault is returned.
    ///
    /// # Errors
    /// What [`Writer::status`] says, except that the room is never too small.
    pub fn try_encode(&mut self, write: impl FnMut(&mut Writer<'_>)) -> Result<&[u8], EncodeError> {
        self.try_encode_with(None, write).map_err(|fault| fault.error)
    }

    /// The same with a dictionary that fields are held against, and named by.
    ///
    /// # Errors
    /// As [`Encoding::try_encode`], with the field that it is about.
    pub fn try_encode_with(
        &mut self,
        dictionary: Option<&Dictionary>,
        mut write: impl FnMut(&mut Writer<'_>),
    ) -> Result<&[u8], EncodeFault> {
        self.len = 0;
        loop {
            let mut w = Writer::new(&mut self.room).with_dictionary(dictionary);
            write(&mut w);
            match w.status() {
                Ok(len) => {
                    self.len = len;
                    return Ok(&self.room[..len]);
                }
                Err(EncodeError::BufferTooSmall { need_bytes, .. }) => {
                    self.room.resize((need_bytes as usize).max(512), 0);
                }
                Err(error) => {
                    let field = w.refused_field();
                    return Err(EncodeFault { error, field, has_dictionary: dictionary.is_some() });
                }
            }
        }
    }

    /// As [`Encoding::try_encode`], for what is known to be encodable.
    pub(crate) fn encode(&mut self, write: impl FnMut(&mut Writer<'_>)) -> &[u8] {
        let result = self.try_encode(write).map(<[u8]>::len);
        debug_assert!(result.is_ok(), "{result:?}");
        self.bytes()
    }

    /// The last message; empty if it could not be encoded.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }
}
