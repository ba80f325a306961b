use rwf::{
    DataType, DecodeError, FieldEntry, FieldList, FieldListHead, FieldListInfo, FieldSetDefs, FixedForm,
    Primitive, Value, Writer, rmtes,
};

use super::FieldRules;

/// The fields of an item: ids and contents, in the order in which the fields first came.
///
/// Contents lie one behind the other in one run of bytes, each with the room it first took; a longer value
/// moves to the end, and the run is closed up when more than half of it is waste. Merging an update neither
/// allocates nor moves in the steady state. Set data is kept as ordinary fields.
#[derive(Clone, Debug, Default)]
pub struct FieldImage {
    ids: Vec<i16>,
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    waste: usize,
    info: Option<FieldListInfo>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    at: u32,
    len: u16,
    room: u16,
}

/// Room is given in steps, so that a price that gains a digit stays where it is.
const ROOM_STEP: usize = 8;
/// Below this there is nothing worth closing up.
const WASTE_MIN: usize = 256;
/// The longest content that a fixed form of set data can have as a standard entry: a DateTime of 12 bytes.
const FIXED_CONTENT_MAX: usize = 12;
/// A field takes so many bytes besides its content, a list besides its fields.
const ENTRY_HEAD_MAX: usize = 5;
pub(super) const LIST_HEAD_MAX: usize = 16;
/// The most times one value ripples on; dictionaries have chains of five.
const RIPPLE_MAX: usize = 16;

impl FieldImage {
    /// An image without fields, with what the head of a list says.
    pub(super) fn begin(list: &FieldList<'_>) -> FieldImage {
        FieldImage { info: list.info, ..FieldImage::default() }
    }

    /// Takes the fields of a refresh in place of those there were.
    ///
    /// # Errors
    /// The list is malformed; the fields before the fault are there.
    pub fn replace(&mut self, list: &FieldList<'_>, rules: &FieldRules) -> Result<(), DecodeError> {
        self.ids.clear();
        self.slots.clear();
        self.bytes.clear();
        self.waste = 0;
        self.info = list.info;
        self.merge(list, false, rules)
    }

    /// Merges the fields of an update.
    ///
    /// # Errors
    /// The list is malformed; the fields before the fault are merged.
    pub fn merge(
        &mut self,
        list: &FieldList<'_>,
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        self.merge_with(list, None, ripple, rules)
    }

    /// Merges fields, some of which may stand in set data.
    ///
    /// # Errors
    /// As [`FieldImage::merge`].
    pub fn merge_with(
        &mut self,
        list: &FieldList<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        let ripple = ripple && rules.ripples();
        let mut hint = 0;
        if let Some(defs) = defs {
            let mut room = SetValueRoom::default();
            for entry in list.set_entries(defs) {
                let entry = entry?;
                self.merge_one(entry.id, set_value(&entry, &mut room)?, ripple, rules, &mut hint)?;
            }
        }
        for entry in list.entries() {
            let entry = entry?;
            self.merge_one(entry.id, entry.content, ripple, rules, &mut hint)?;
        }
        Ok(())
    }

    /// `hint` is where the field probably is: updates of an item tend to keep the order of its fields.
    fn merge_one(
        &mut self,
        id: i16,
        content: &[u8],
        ripple: bool,
        rules: &FieldRules,
        hint: &mut usize,
    ) -> Result<(), DecodeError> {
        let found = self.position(id, *hint);
        if ripple && let Some(index) = found {
            self.ripple(id, index, rules);
        }
        if rmtes::is_partial_update(content) && rules.is_rmtes(id) {
            let mut value = found.map_or(Vec::new(), |i| self.content(i).to_vec());
            rmtes::apply(&mut value, content, rmtes::VALUE_BYTES_MAX)?;
            *hint = self.put(found, id, &value) + 1;
        } else {
            *hint = self.put(found, id, content) + 1;
        }
        Ok(())
    }

    /// Moves the old value of a field along its chain, the far end first. The chain ends before a field that the
    /// image does not have: an image has the fields that its provider sent, and no others.
    fn ripple(&mut self, id: i16, index: usize, rules: &FieldRules) {
        let mut chain = vec![index];
        let mut from = id;
        while let Some(to) = rules.ripples_to(from)
            && chain.len() < RIPPLE_MAX
            && let Some(index) = self.position(to, 0)
        {
            chain.push(index);
            from = to;
        }
        for pair in chain.windows(2).rev() {
            let value = self.content(pair[0]).to_vec();
            self.put(Some(pair[1]), self.ids[pair[1]], &value);
        }
    }

    #[inline]
    fn position(&self, id: i16, hint: usize) -> Option<usize> {
        if self.ids.get(hint) == Some(&id) {
            return Some(hint);
        }
        self.ids.iter().position(|&i| i == id)
    }

    fn content(&self, index: usize) -> &[u8] {
        let slot = self.slots[index];
        &self.bytes[slot.at as usize..][..slot.len.into()]
    }

    /// Stores a content and returns where its field is.
    #[inline]
    fn put(&mut self, found: Option<usize>, id: i16, content: &[u8]) -> usize {
        let len = content.len() as u16;
        match found {
            Some(index) if len <= self.slots[index].room => {
                let slot = &mut self.slots[index];
                slot.len = len;
                self.bytes[slot.at as usize..][..content.len()].copy_from_slice(content);
                index
            }
            Some(index) => {
                self.waste += usize::from(self.slots[index].room);
                self.slots[index] = self.append(content);
                if self.waste > WASTE_MIN && self.waste > self.bytes.len() / 2 {
                    self.close_up();
                }
                index
            }
            None => {
                let slot = self.append(content);
                self.ids.push(id);
                self.slots.push(slot);
                self.ids.len() - 1
            }
        }
    }

    fn append(&mut self, content: &[u8]) -> Slot {
        let at = self.bytes.len();
        let room = content.len().next_multiple_of(ROOM_STEP).min(u16::MAX.into());
        self.bytes.extend_from_slice(content);
        self.bytes.resize(at + room, 0);
        Slot { at: at as u32, len: content.len() as u16, room: room as u16 }
    }

    fn close_up(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.waste);
        for slot in &mut self.slots {
            let at = bytes.len();
            bytes.extend_from_slice(&self.bytes[slot.at as usize..][..slot.room.into()]);
            slot.at = at as u32;
        }
        self.bytes = bytes;
        self.waste = 0;
    }

    /// The fields, in the order in which they first came.
    pub fn entries(&self) -> impl Iterator<Item = (i16, &[u8])> + '_ {
        self.ids.iter().enumerate().map(|(i, &id)| (id, self.content(i)))
    }

    /// The content of one field.
    #[must_use]
    pub fn field(&self, id: i16) -> Option<&[u8]> {
        self.position(id, 0).map(|index| self.content(index))
    }

    /// Writes the fields as a field list of standard data.
    pub fn write(&self, w: &mut Writer<'_>) {
        let head = FieldListHead { info: self.info, set: None };
        w.field_list_with(&head, |f| {
            for (id, content) in self.entries() {
                f.encoded(id, content);
            }
        });
    }

    /// The field list takes at most so many bytes: rooms are as long as contents, or longer.
    #[inline]
    pub(super) fn bound_bytes(&self) -> usize {
        self.bytes.len() + self.ids.len() * ENTRY_HEAD_MAX + LIST_HEAD_MAX
    }

    /// The same, more closely.
    pub(super) fn wire_bytes(&self) -> usize {
        let entries: usize = self.entries().map(|(_, content)| content.len() + ENTRY_HEAD_MAX).sum();
        entries + LIST_HEAD_MAX
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ids.capacity() * 2 + self.slots.capacity() * size_of::<Slot>()
    }
}

/// Room for a value of set data as content.
pub(crate) type SetValueRoom = [u8; FIXED_CONTENT_MAX];

/// The content that a standard entry has, or would have if the value stands in set data.
///
/// # Errors
/// The value is not what the set definition says.
pub(crate) fn set_value<'a>(
    entry: &FieldEntry<'a>,
    room: &'a mut SetValueRoom,
) -> Result<&'a [u8], DecodeError> {
    as_content(entry.set_type, entry.content, room)
}

/// A value of set data as content.
pub(super) fn as_content<'a>(
    set_type: DataType,
    content: &'a [u8],
    room: &'a mut SetValueRoom,
) -> Result<&'a [u8], DecodeError> {
    if FixedForm::of(set_type).is_none() {
        return Ok(content);
    }
    let mut w = Writer::new(room);
    Value::decode(set_type, content)?.put_content(&mut w);
    Ok(w.finish().expect("no fixed form is longer as content"))
}

#[cfg(test)]
mod tests {
    use rwf::{Real, RmtesString, encode_to_vec};

    use super::*;

    fn list(fields: &[(i16, &[u8])]) -> Vec<u8> {
        encode_to_vec(|w| w.field_list(|f| fields.iter().for_each(|(id, content)| f.encoded(*id, content))))
            .expect("short fields")
    }

    fn merge(image: &mut FieldImage, fields: &[(i16, &[u8])], ripple: bool, rules: &FieldRules) {
        image.merge(&FieldList::parse(&list(fields)).expect("made here"), ripple, rules).expect("made here");
    }

    fn fields(image: &FieldImage) -> Vec<(i16, Vec<u8>)> {
        image.entries().map(|(id, content)| (id, content.to_vec())).collect()
    }

    #[test]
    fn an_update_changes_its_fields_alone_and_keeps_their_order() {
        let rules = FieldRules::default();
        let mut image = FieldImage::default();
        merge(&mut image, &[(22, b"aa"), (25, b"bb"), (30, b"c")], true, &rules);
        merge(&mut image, &[(30, b"C"), (22, b"a much longer value"), (6, b"d"), (25, b"")], true, &rules);
        let expected =
            [(22, b"a much longer value".to_vec()), (25, vec![]), (30, b"C".to_vec()), (6, b"d".to_vec())];
        assert_eq!(fields(&image), expected);
        assert_eq!(image.field(22), Some(&b"a much longer value"[..]));
        assert_eq!(image.field(99), None);
    }

    #[test]
    fn a_refresh_forgets_what_was_there() {
        let rules = FieldRules::default();
        let mut image = FieldImage::default();
        merge(&mut image, &[(22, b"aa")], true, &rules);
        image
            .replace(&FieldList::parse(&list(&[(25, b"b")])).expect("made here"), &rules)
            .expect("made here");
        assert_eq!(fields(&image), [(25, b"b".to_vec())]);
    }

    #[test]
    fn values_that_grow_again_and_again_do_not_grow_the_image_without_end() {
        let rules = FieldRules::default();
        let mut image = FieldImage::default();
        for i in 0..10_000usize {
            let value = vec![i as u8; i % 300];
            merge(&mut image, &[(1, b"fixed"), (2, &value)], true, &rules);
            assert_eq!(image.field(2), Some(&value[..]));
        }
        assert!(image.memory_bytes() < 4096, "{}", image.memory_bytes());
        assert_eq!(image.field(1), Some(&b"fixed"[..]));
    }

    #[test]
    fn partial_text_changes_the_cached_value_of_rmtes_fields_alone() {
        let mut rules = FieldRules::default();
        rules.set_rmtes(3);
        let mut image = FieldImage::default();
        merge(&mut image, &[(3, b"ABCDEF"), (4, b"ABCDEF")], true, &rules);
        merge(&mut image, &[(3, b"\x1b[2`xy"), (4, b"\x1b[2`xy")], true, &rules);
        assert_eq!(fields(&image), [(3, b"ABxyEF".to_vec()), (4, b"\x1b[2`xy".to_vec())]);
    }

    #[test]
    fn old_values_ripple_before_the_new_one_is_stored() {
        let mut rules = FieldRules::default();
        rules.set_ripple(6, 7);
        rules.set_ripple(7, 8);
        let mut image = FieldImage::default();
        merge(&mut image, &[(6, b"0"), (7, b""), (8, b"")], true, &rules);
        for price in [b"1", b"2", b"3"] {
            merge(&mut image, &[(6, price)], true, &rules);
        }
        let expected = [(6, b"3".to_vec()), (7, b"2".to_vec()), (8, b"1".to_vec())];
        assert_eq!(fields(&image), expected);
        merge(&mut image, &[(6, b"4")], false, &rules);
        assert_eq!(image.field(7), Some(&b"2"[..]), "an update may say that it does not ripple");
    }

    #[test]
    fn ripples_reach_only_fields_that_the_image_has() {
        let mut rules = FieldRules::default();
        for from in 6..9 {
            rules.set_ripple(from, from + 1);
        }
        let mut image = FieldImage::default();
        merge(&mut image, &[(6, b"1"), (7, b"x"), (9, b"z")], true, &rules);
        merge(&mut image, &[(6, b"2")], true, &rules);
        let expected = [(6, b"2".to_vec()), (7, b"1".to_vec()), (9, b"z".to_vec())];
        assert_eq!(fields(&image), expected, "field 8 is not there, and ends the chain");
    }

    #[test]
    fn a_ring_of_ripples_ends() {
        let mut rules = FieldRules::default();
        rules.set_ripple(6, 7);
        rules.set_ripple(7, 6);
        let mut image = FieldImage::default();
        merge(&mut image, &[(6, b"1"), (7, b"")], false, &rules);
        merge(&mut image, &[(6, b"2")], true, &rules);
        assert_eq!(image.field(6), Some(&b"2"[..]));
    }

    #[test]
    fn what_is_written_is_what_came() {
        let rules = FieldRules::default();
        let bytes = encode_to_vec(|w| {
            w.field_list(|f| {
                f.put(22, Real::decimal(3990, 2));
                f.put(3, RmtesString(&[b'x'; 300]));
                f.blank(25);
            });
        })
        .expect("legal");
        let mut image = FieldImage::default();
        image.replace(&FieldList::parse(&bytes).expect("made here"), &rules).expect("made here");
        assert_eq!(encode_to_vec(|w| image.write(w)).expect("legal"), bytes);
    }
}
