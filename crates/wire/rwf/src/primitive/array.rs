use super::{Decode, FixedForm, Primitive, Sealed, Typed, Value, put_sized, take_sized};
use crate::reader::Reader;
use crate::{DataType, DecodeError, EncodeError, Place, Writer};

/// Values of one type, in a row.
///
/// Shape: item type `u8`, item length `u16ob`, count `u16`, items. Item length 0: each item has a length of
/// its own; n: each item takes n bytes. Arrays of arrays do not exist. Source: RWF 14.1, Array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// The type of the items.
    pub item_type: DataType,
    /// Bytes of each item; 0 if they have a length each.
    pub item_length: u16,
    count: u16,
    items: &'a [u8],
}

/// The contents of an [`Array`]'s items, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct ArrayItems<'a> {
    item_type: DataType,
    item_length: u16,
    left: u16,
    reader: Reader<'a>,
}

impl<'a> Array<'a> {
    /// Reads the head; the items are checked when they are read.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] without a whole head; [`DecodeError::BadType`] for items that are no
    /// primitives.
    pub fn parse(content: &'a [u8]) -> Result<Array<'a>, DecodeError> {
        let mut r = Reader::new(content);
        let item_type = DataType(r.u8(Place::Array)?);
        if !is_item_type(item_type) {
            return Err(DecodeError::BadType { place: Place::Array, data_type: item_type });
        }
        let item_length = r.u16ob(Place::Array)?;
        let count = r.u16(Place::EntryCount)?;
        Ok(Array { item_type, item_length, count, items: r.rest() })
    }

    /// The number of items that the head announces.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The contents of the items; blank ones are empty.
    #[must_use]
    pub fn items(&self) -> ArrayItems<'a> {
        ArrayItems {
            item_type: self.item_type,
            item_length: self.item_length,
            left: self.count,
            reader: Reader::new(self.items),
        }
    }

    /// The items as values of their type.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'a>, DecodeError>> + use<'a> {
        let item_type = self.item_type;
        self.items().map(move |item| Value::decode(item_type, item?))
    }
}

fn is_item_type(data_type: DataType) -> bool {
    data_type.is_primitive() && data_type != DataType::ARRAY
}

impl<'a> Iterator for ArrayItems<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = match self.item_length {
            0 => take_sized(&mut self.reader, self.item_type, Place::ArrayItem),
            length => self.reader.take(length.into(), Place::ArrayItem),
        };
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }
}

impl Sealed for Array<'_> {}
impl Typed for Array<'_> {
    const TYPE: DataType = DataType::ARRAY;
}

impl<'a> Decode<'a> for Array<'a> {
    fn decode(content: &'a [u8]) -> Result<Option<Array<'a>>, DecodeError> {
        if content.is_empty() { Ok(None) } else { Array::parse(content).map(Some) }
    }
}

/// Writes the array again as it was read.
impl Primitive for Array<'_> {
    fn data_type(&self) -> DataType {
        Self::TYPE
    }

    fn content_len(&self) -> usize {
        3 + if self.item_length < 0xFE { 1 } else { 3 } + self.items.len()
    }

    fn put_content(&self, w: &mut Writer<'_>) {
        w.u8(self.item_type.0);
        w.u16ob(self.item_length);
        w.u16(self.count);
        w.bytes(self.items);
    }

    fn put_fixed(&self, _: FixedForm, w: &mut Writer<'_>) {
        w.fail(EncodeError::BadType { place: Place::ArrayItem, data_type: Self::TYPE });
    }
}

/// Writes the items of an array; made by the `array` methods of lists and of [`Writer`].
#[derive(Debug)]
pub struct ArrayWriter<'w, 'b> {
    w: &'w mut Writer<'b>,
    item_type: DataType,
    item_length: u16,
    count: usize,
}

impl ArrayWriter<'_, '_> {
    /// Writes the next item, of the type announced. A blank needs items with a length each, or a type that
    /// has a blank of fixed size.
    #[inline]
    pub fn put(&mut self, value: impl Primitive) {
        let given = value.data_type();
        if given != self.item_type {
            self.w.fail(EncodeError::OtherType { place: Place::ArrayItem, given, wanted: self.item_type });
        }
        self.count += 1;
        match self.item_length {
            0 => put_sized(self.w, &value),
            length => value.put_fixed(FixedForm::Width(length.into()), self.w),
        }
    }
}

impl Writer<'_> {
    /// Writes the content of an array. `item_length` 0 gives each item a length of its own.
    pub fn array(
        &mut self,
        item_type: DataType,
        item_length: u16,
        write: impl FnOnce(&mut ArrayWriter<'_, '_>),
    ) {
        if !is_item_type(item_type) {
            self.fail(EncodeError::BadType { place: Place::Array, data_type: item_type });
        }
        self.u8(item_type.0);
        self.u16ob(item_length);
        let count_at = self.len();
        self.u16(0);
        let mut items = ArrayWriter { w: self, item_type, item_length, count: 0 };
        write(&mut items);
        let count = items.count;
        self.patch_count(count_at, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsciiString, Date, encode_to_vec};

    #[test]
    fn items_come_back_in_order_with_their_blanks() {
        let content = encode_to_vec(|w| {
            w.array(DataType::ASCII_STRING, 0, |a| {
                a.put(AsciiString(b"ab"));
                a.put(None::<AsciiString<'_>>);
                a.put(AsciiString(&[b'x'; 254]));
            });
        })
        .expect("legal");
        let array = Array::parse(&content).expect("legal");
        let items: Result<Vec<_>, _> = array.items().collect();
        assert_eq!(items, Ok(vec![&b"ab"[..], b"", &[b'x'; 254]]));
        assert_eq!(encode_to_vec(|w| array.put_content(w)), Ok(content));
    }

    #[test]
    fn a_blank_of_fixed_size_exists_for_dates_and_not_for_integers() {
        let dates = encode_to_vec(|w| w.array(DataType::DATE, 4, |a| a.put(None::<Date>)));
        assert_eq!(dates, Ok(vec![9, 4, 0, 1, 0, 0, 0, 0]));
        let integers = encode_to_vec(|w| w.array(DataType::INT, 4, |a| a.put(None::<i64>)));
        assert_eq!(integers, Err(EncodeError::Blank { place: Place::Int }));
    }

    #[test]
    fn items_of_another_type_and_arrays_of_arrays_are_refused() {
        let other = encode_to_vec(|w| w.array(DataType::INT, 0, |a| a.put(1u64)));
        let wanted = DataType::INT;
        assert_eq!(
            other,
            Err(EncodeError::OtherType { place: Place::ArrayItem, given: DataType::UINT, wanted })
        );
        let nested = Err(DecodeError::BadType { place: Place::Array, data_type: DataType::ARRAY });
        assert_eq!(Array::parse(&[15, 0, 0, 0]), nested);
    }

    #[test]
    fn an_array_that_announces_more_items_than_it_has_ends_with_one_error() {
        let array = Array::parse(&[3, 0, 0, 3, 1, 7]).expect("whole head");
        let items: Vec<_> = array.items().collect();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0], Ok(&[7][..]));
        assert!(matches!(items[1], Err(DecodeError::Truncated { place: Place::ArrayItem, .. })));
    }
}
