//! Set definitions: which values, of which types, set data holds in which order.

use crate::error::clip;
use crate::primitive::{SelfSizedBlank, is_set_type};
use crate::reader::Reader;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// The highest set id that a container can define for itself.
pub const LOCAL_SET_ID_MAX: u16 = 15;
const LOCAL_SETS: usize = LOCAL_SET_ID_MAX as usize + 1;

/// One value of a field list set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSetEntry {
    /// The field id.
    pub id: i16,
    /// The type, which may be a set-defined fixed one.
    pub data_type: DataType,
}

/// One value of an element list set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementSetEntry<'a> {
    /// The element name.
    pub name: &'a [u8],
    /// The type, which may be a set-defined fixed one.
    pub data_type: DataType,
}

mod sealed {
    pub trait Sealed {}
}

/// What a set definition's entry is: of fields or of elements.
pub trait SetEntry<'a>: Copy + sealed::Sealed {
    /// Reads one entry from the front of `bytes`; returns it with the bytes behind it.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is cut off.
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError>;
    /// Writes the entry.
    fn put(&self, w: &mut Writer<'_>);
    /// The type of the value.
    fn data_type(&self) -> DataType;
}

impl sealed::Sealed for FieldSetEntry {}
impl SetEntry<'_> for FieldSetEntry {
    #[inline]
    fn split(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let mut r = Reader::new(bytes);
        let [high, low, data_type] = *r.chunk(Place::SetDefinitions)?;
        Ok((FieldSetEntry { id: i16::from_be_bytes([high, low]), data_type: DataType(data_type) }, r.rest()))
    }

    fn put(&self, w: &mut Writer<'_>) {
        w.i16(self.id);
        w.u8(self.data_type.0);
    }

    #[inline]
    fn data_type(&self) -> DataType {
        self.data_type
    }
}

impl sealed::Sealed for ElementSetEntry<'_> {}
impl<'a> SetEntry<'a> for ElementSetEntry<'a> {
    #[inline]
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let mut r = Reader::new(bytes);
        let name = r.buf15(Place::SetDefinitions)?;
        let data_type = DataType(r.u8(Place::SetDefinitions)?);
        Ok((ElementSetEntry { name, data_type }, r.rest()))
    }

    fn put(&self, w: &mut Writer<'_>) {
        w.buf15(self.name, Place::ElementName);
        w.u8(self.data_type.0);
    }

    #[inline]
    fn data_type(&self) -> DataType {
        self.data_type
    }
}

/// A set definition to write, or to write set data by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetDef<'a, E> {
    /// The set id, 0..=15. For field lists only 0 is read reliably by the vendor's Java library.
    pub id: u16,
    /// The values in their order.
    pub entries: &'a [E],
}

/// A field list set definition.
pub type FieldSetDef<'a> = SetDef<'a, FieldSetEntry>;
/// An element list set definition.
pub type ElementSetDef<'a> = SetDef<'a, ElementSetEntry<'a>>;

/// The set definitions that a map, series or vector is to be written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetDefinitions<'a> {
    /// For field lists.
    Fields(&'a [FieldSetDef<'a>]),
    /// For element lists.
    Elements(&'a [ElementSetDef<'a>]),
    /// As they were read from another container.
    Encoded(&'a [u8]),
}

impl SetDefinitions<'_> {
    pub(crate) fn put(self, w: &mut Writer<'_>) {
        w.nested15(Place::SetDefinitions, |w| match self {
            SetDefinitions::Fields(defs) => put_defs(defs, w),
            SetDefinitions::Elements(defs) => put_defs(defs, w),
            SetDefinitions::Encoded(bytes) => w.bytes(bytes),
        });
    }
}

/// Shape: flags `u8` (0), number of sets `u8`, then per set: id `u15rb`, number of entries `u8`, entries.
fn put_defs<'a, E: SetEntry<'a>>(defs: &[SetDef<'_, E>], w: &mut Writer<'_>) {
    w.limit(defs.len(), LOCAL_SETS, Place::SetDefinitions);
    w.chunk([0, defs.len() as u8], 2);
    for def in defs {
        if def.id > LOCAL_SET_ID_MAX {
            let (value, max) = (def.id.into(), LOCAL_SET_ID_MAX.into());
            w.fail(EncodeError::BadValue { place: Place::SetId, value, max });
        }
        w.u15rb(def.id, Place::SetId);
        w.limit(def.entries.len(), u8::MAX.into(), Place::SetDefinitions);
        w.u8(def.entries.len() as u8);
        for entry in def.entries {
            if !is_set_type(entry.data_type()) {
                w.fail(EncodeError::BadType { place: Place::SetDefinitions, data_type: entry.data_type() });
            }
            entry.put(w);
        }
    }
}

/// The set definitions of a container, checked, and found by id in one step.
#[derive(Clone, Debug)]
pub struct SetDefs<'a, E> {
    sets: [Option<SetEntries<'a, E>>; LOCAL_SETS],
}

/// The definitions of field list sets.
pub type FieldSetDefs<'a> = SetDefs<'a, FieldSetEntry>;
/// The definitions of element list sets.
pub type ElementSetDefs<'a> = SetDefs<'a, ElementSetEntry<'a>>;

/// The entries of one set definition, in order.
#[derive(Clone, Copy, Debug)]
pub struct SetEntries<'a, E> {
    left: u8,
    /// Whether some value says its own size.
    self_sized: bool,
    rest: &'a [u8],
    kind: std::marker::PhantomData<E>,
}

impl<'a, E: SetEntry<'a>> SetDefs<'a, E> {
    /// Reads and checks all definitions. A set defined twice has the last one.
    ///
    /// # Errors
    /// [`DecodeError`] if they are cut off, name a type that cannot be in set data, or an id above 15.
    pub fn parse(bytes: &'a [u8]) -> Result<SetDefs<'a, E>, DecodeError> {
        let mut r = Reader::new(bytes);
        let [_flags, count] = *r.chunk(Place::SetDefinitions)?;
        let mut sets = [const { None }; LOCAL_SETS];
        for _ in 0..count {
            let id = r.u15rb(Place::SetId)?;
            let set = sets.get_mut(usize::from(id)).ok_or(DecodeError::BadValue {
                place: Place::SetId,
                value: id.into(),
                max: LOCAL_SET_ID_MAX.into(),
            })?;
            let entries = r.u8(Place::SetDefinitions)?;
            let (entries, rest) = SetEntries::split(r.rest(), entries)?;
            *set = Some(entries);
            r = Reader::new(rest);
        }
        Ok(SetDefs { sets })
    }

    /// The entries of the set `id`, `None` if it is not defined here.
    #[inline]
    #[must_use]
    pub fn get(&self, id: u16) -> Option<SetEntries<'a, E>> {
        *self.sets.get(usize::from(id))?
    }

    /// Every set that is defined, by id.
    pub fn iter(&self) -> impl Iterator<Item = (u16, SetEntries<'a, E>)> + '_ {
        (0..).zip(&self.sets).filter_map(|(id, set)| Some((id, (*set)?)))
    }
}

impl<'a, E: SetEntry<'a>> SetEntries<'a, E> {
    /// Checks one definition's entries; returns them with the bytes behind them.
    fn split(bytes: &'a [u8], count: u8) -> Result<(Self, &'a [u8]), DecodeError> {
        let (mut rest, mut self_sized) = (bytes, false);
        for _ in 0..count {
            let (entry, behind) = E::split(rest)?;
            let data_type = entry.data_type();
            if !is_set_type(data_type) {
                return Err(DecodeError::BadType { place: Place::SetDefinitions, data_type });
            }
            self_sized |= matches!(data_type, DataType::REAL_4RB | DataType::REAL_8RB);
            rest = behind;
        }
        Ok((SetEntries { left: count, self_sized, rest: bytes, kind: std::marker::PhantomData }, rest))
    }

    /// The form of blanks in set data of this definition.
    #[inline]
    pub(crate) fn self_sized_blank(&self, set_data: &[u8]) -> SelfSizedBlank {
        match self.self_sized {
            true => SelfSizedBlank::of(self.map(|entry| entry.data_type()), set_data),
            false => SelfSizedBlank::OneByte,
        }
    }
}

impl<'a, E: SetEntry<'a>> Iterator for SetEntries<'a, E> {
    type Item = E;

    #[inline]
    fn next(&mut self) -> Option<E> {
        self.left = self.left.checked_sub(1)?;
        let (entry, rest) =
            E::split(self.rest).expect("every entry was read once when the definitions were parsed");
        self.rest = rest;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl<'a, E: SetEntry<'a>> ExactSizeIterator for SetEntries<'a, E> {}

/// Writes set data by a definition, value by value.
#[derive(Debug)]
pub(crate) struct SetCursor<'s, E> {
    entries: &'s [E],
    written: usize,
}

impl<'a, 's, E: SetEntry<'a>> SetCursor<'s, E> {
    pub(crate) fn new(entries: &'s [E]) -> Self {
        SetCursor { entries, written: 0 }
    }

    /// The type of the next value; fails if the definition has no more.
    pub(crate) fn next_type(&mut self, w: &mut Writer<'_>) -> Option<DataType> {
        let entry = self.entries.get(self.written);
        self.written += 1;
        if entry.is_none() {
            self.check_complete(w);
        }
        entry.map(SetEntry::data_type)
    }

    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Takes all values for written.
    pub(crate) fn complete(&mut self) {
        self.written = self.entries.len();
    }

    pub(crate) fn check_complete(&self, w: &mut Writer<'_>) {
        if self.written != self.entries.len() {
            let (written, wanted) = (clip(self.written), clip(self.entries.len()));
            w.fail(EncodeError::SetIncomplete { written, wanted });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_to_vec;

    const BID: FieldSetEntry = FieldSetEntry { id: 22, data_type: DataType::REAL };
    const OWN: FieldSetEntry = FieldSetEntry { id: -7, data_type: DataType::INT_2 };

    #[test]
    fn definitions_are_found_by_id_in_their_order() {
        let defs = [FieldSetDef { id: 0, entries: &[BID, OWN] }, FieldSetDef { id: 15, entries: &[OWN] }];
        let bytes = encode_to_vec(|w| put_defs(&defs, w)).expect("legal");
        let parsed = FieldSetDefs::parse(&bytes).expect("legal");
        assert!(parsed.get(0).expect("defined").eq([BID, OWN]));
        assert!(parsed.get(15).expect("defined").eq([OWN]));
        assert!(parsed.get(1).is_none() && parsed.get(16).is_none());
        assert_eq!(
            parsed.iter().map(|(id, entries)| (id, entries.len())).collect::<Vec<_>>(),
            [(0, 2), (15, 1)]
        );
    }

    #[test]
    fn types_that_set_data_cannot_hold_and_global_ids_are_refused() {
        let no_data = FieldSetDefs::parse(&[0, 1, 0, 1, 0, 22, 128]).map(|_| ());
        assert_eq!(
            no_data,
            Err(DecodeError::BadType { place: Place::SetDefinitions, data_type: DataType::NO_DATA })
        );
        let global = FieldSetDefs::parse(&[0, 1, 16, 0]).map(|_| ());
        assert_eq!(global, Err(DecodeError::BadValue { place: Place::SetId, value: 16, max: 15 }));
        let defs = [FieldSetDef { id: 16, entries: &[] }];
        let refused = EncodeError::BadValue { place: Place::SetId, value: 16, max: 15 };
        assert_eq!(encode_to_vec(|w| put_defs(&defs, w)), Err(refused));
    }
}
