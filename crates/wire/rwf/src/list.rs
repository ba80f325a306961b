//! What field lists and element lists have in common: flags, information, set data, standard data.

use crate::primitive::{Primitive, put_set_value};
use crate::reader::Reader;
use crate::set_def::{SetCursor, SetEntry};
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

const INFO: u8 = 0x01;
const SET_DATA: u8 = 0x02;
const SET_ID: u8 = 0x04;
const STANDARD_DATA: u8 = 0x08;

/// The set data of a list, as bytes; a set definition tells what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetData<'a> {
    /// The set id if it is written; without it the set id is 0.
    pub explicit_id: Option<u16>,
    /// The values, one after the other.
    pub bytes: &'a [u8],
}

impl SetData<'_> {
    /// The id of the set definition that applies.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u16 {
        self.explicit_id.unwrap_or(0)
    }
}

/// A list, taken apart but for its entries.
pub(crate) struct ListParts<'a> {
    pub(crate) info: Option<&'a [u8]>,
    pub(crate) set_data: Option<SetData<'a>>,
    pub(crate) standard: Option<StandardData<'a>>,
}

/// The entries that name themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandardData<'a> {
    pub(crate) count: u16,
    pub(crate) entries: &'a [u8],
}

impl<'a> StandardData<'a> {
    #[inline]
    pub(crate) fn read(r: &mut Reader<'a>) -> Result<StandardData<'a>, DecodeError> {
        let count = r.u16(Place::EntryCount)?;
        Ok(StandardData { count, entries: r.rest() })
    }
}

/// Takes a list apart. No bytes at all are an empty list.
#[inline]
pub(crate) fn parse_list<'a>(bytes: &'a [u8], place: Place) -> Result<ListParts<'a>, DecodeError> {
    let mut r = Reader::new(bytes);
    let flags = if bytes.is_empty() { 0 } else { r.u8(place)? };
    if flags & (INFO | SET_DATA | STANDARD_DATA) == STANDARD_DATA {
        return Ok(ListParts { info: None, set_data: None, standard: Some(StandardData::read(&mut r)?) });
    }
    parse_rare(flags, r)
}

fn parse_rare<'a>(flags: u8, mut r: Reader<'a>) -> Result<ListParts<'a>, DecodeError> {
    let has = |flag| flags & flag != 0;
    let info = if has(INFO) { Some(r.buf8(Place::Info)?) } else { None };
    let set_data = if has(SET_DATA) {
        let explicit_id = if has(SET_ID) { Some(r.u15rb(Place::SetId)?) } else { None };
        let bytes = if has(STANDARD_DATA) { r.buf15(Place::SetData)? } else { r.rest() };
        Some(SetData { explicit_id, bytes })
    } else {
        None
    };
    let standard = if has(STANDARD_DATA) { Some(StandardData::read(&mut r)?) } else { None };
    Ok(ListParts { info, set_data, standard })
}

/// The set data that a list is to begin with.
#[derive(Clone, Copy, Debug)]
pub struct SetHead<'a, E> {
    /// The set id if it is to be written; without it set 0 is meant.
    pub explicit_id: Option<u16>,
    /// The entries of the definition, which the enclosing container, or a dictionary, holds.
    pub entries: &'a [E],
}

/// The part of a list's writer that knows where flags, set data and count stand.
#[derive(Debug)]
pub(crate) struct ListWriter<'w, 'b, 's, E> {
    pub(crate) w: &'w mut Writer<'b>,
    flags_at: usize,
    flags: u8,
    set: Option<SetCursor<'s, E>>,
    set_data_at: usize,
    count_at: usize,
    count: usize,
}

impl<'w, 'b, 's, 'a, E: SetEntry<'a>> ListWriter<'w, 'b, 's, E> {
    pub(crate) fn begin(w: &'w mut Writer<'b>) -> Self {
        let flags_at = w.len();
        w.u8(0);
        ListWriter { w, flags_at, flags: 0, set: None, set_data_at: 0, count_at: 0, count: 0 }
    }

    /// Writes what comes before any entry.
    pub(crate) fn head(&mut self, info: Option<impl FnOnce(&mut Writer<'_>)>, set: Option<SetHead<'s, E>>) {
        if let Some(info) = info {
            self.flags |= INFO;
            let length_at = self.w.len();
            self.w.u8(0);
            info(self.w);
            let length = self.w.len() - length_at - 1;
            self.w.patch(length_at, [length as u8]);
        }
        if let Some(set) = set {
            self.flags |= SET_DATA;
            if let Some(id) = set.explicit_id {
                self.flags |= SET_ID;
                self.w.u15rb(id, Place::SetId);
            }
            self.set = Some(SetCursor::new(set.entries));
            self.set_data_at = self.w.len();
        }
    }

    /// Begins the standard data, if it has not begun, and counts an entry of it.
    #[inline]
    pub(crate) fn count_entry(&mut self) {
        if self.flags & STANDARD_DATA == 0 {
            self.begin_standard();
        }
        self.count += 1;
    }

    pub(crate) fn begin_standard(&mut self) {
        if self.flags & STANDARD_DATA == 0 {
            if let Some(set) = &self.set {
                set.check_complete(self.w);
                self.w.insert_length15_long(self.set_data_at, Place::SetData);
            }
            self.flags |= STANDARD_DATA;
            self.count_at = self.w.len();
            self.w.u16(0);
        }
    }

    /// The type of the next value of the set data.
    fn next_set_type(&mut self) -> Option<DataType> {
        match &mut self.set {
            Some(set) if self.flags & STANDARD_DATA == 0 => set.next_type(self.w),
            _ => {
                self.w.fail(EncodeError::OutOfOrder { place: Place::SetData });
                None
            }
        }
    }

    pub(crate) fn put_set(&mut self, value: &impl Primitive) {
        if let Some(set_type) = self.next_set_type() {
            put_set_value(self.w, set_type, value);
        }
    }

    /// All values of the set data at once, encoded already.
    pub(crate) fn put_set_encoded(&mut self, bytes: &[u8]) {
        match &mut self.set {
            Some(set) if self.flags & STANDARD_DATA == 0 && set.written() == 0 => {
                set.complete();
                self.w.bytes(bytes);
            }
            _ => self.w.fail(EncodeError::OutOfOrder { place: Place::SetData }),
        }
    }

    /// A value of the set data that `write` writes: a container, or an array.
    pub(crate) fn put_set_nested(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        match self.next_set_type() {
            Some(set_type) if set_type.is_container() || set_type == DataType::ARRAY => {
                self.w.nested16(Place::SetData, write);
            }
            Some(data_type) => self.w.fail(EncodeError::BadType { place: Place::SetData, data_type }),
            None => {}
        }
    }

    #[inline]
    pub(crate) fn end(self) {
        if self.flags & STANDARD_DATA != 0 {
            self.w.patch_count(self.count_at, self.count);
        } else if let Some(set) = &self.set {
            set.check_complete(self.w);
        }
        self.w.patch(self.flags_at, [self.flags]);
    }
}
