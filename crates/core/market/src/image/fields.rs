use std::sync::Arc;

use rwf::{
    DataType, DecodeError, FieldEntries, FieldEntry, FieldList, FieldListHead, FieldListInfo, FieldSetDefs,
    FixedForm, Place, Primitive, Value, Writer, rmtes,
};

use super::FieldRules;
use super::shape::{
    FIELDS_MAX, NOWHERE, RING, RIPPLE_MAX, ROOM_MAX, ROOM_OF_LONG, SLOT_MAX, Shape, Slot, room_for,
};

/// The fields of an item: ids and contents, in the order in which the fields first came.
///
/// The ids, and where each value stands, are the image's shape, which images of one record template share.
/// The values are one block of bytes: a slot for each, and behind the slots what is too long for one. Merging
/// an update neither searches nor allocates nor moves in the steady state. What a shape has no place for gives
/// the image a shape of its own for the rest of the message; at its end it gets one that others can share.
/// Set data is kept as ordinary fields.
///
/// `tests/plain.rs` holds it against an image that is a list of ids and contents.
#[derive(Clone, Debug, Default)]
pub struct FieldImage {
    shape: Option<Arc<Shape>>,
    block: Vec<u8>,
    info: Option<FieldListInfo>,
}

/// In place of a length: the value is a record behind the slots. Where it begins stands in the slot.
const LONG: u8 = 0xFF;
/// A record begins with the bytes there are for the value, and with its length.
const RECORD_HEAD: usize = 4;
/// More values than so many bytes of them are not asked for ahead.
const PREFETCHED_BYTES_MAX: usize = 16 * prefetch::LINE_BYTES;
/// Room of records is given in steps.
const RECORD_STEP: usize = 16;
/// The longest content that a fixed form of set data can have as a standard entry: a DateTime of 12 bytes.
const FIXED_CONTENT_MAX: usize = 12;
/// A field takes so many bytes besides its content, a list besides its fields.
const ENTRY_HEAD_MAX: usize = 5;
pub(super) const LIST_HEAD_MAX: usize = 16;

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
        *self = FieldImage::begin(list);
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
        let ripple = ripple && rules.fields().ripples();
        match &self.shape {
            Some(shape) if shape.is_by(rules.fields()) => {}
            Some(shape) => self.shape = Some(Arc::new(shape.with_rules(rules.fields()))),
            None => self.shape = Some(self.first_shape(list, ripple, rules)),
        }
        let result = self.merge_all(list, defs, ripple, rules);
        if self.shape.as_ref().is_some_and(|shape| !shape.is_settled) {
            self.settle(rules);
        }
        result
    }

    /// The shape of an image whose first fields are those of a list.
    #[cold]
    fn first_shape(&mut self, list: &FieldList<'_>, ripple: bool, rules: &FieldRules) -> Arc<Shape> {
        // Where values ripple it matters which of the fields come first.
        if !ripple
            && list.set_data.is_none()
            && let Some(shape) = rules.shapes().find(list, rules.fields())
        {
            self.block = vec![0; shape.slots_bytes()];
            return shape;
        }
        Arc::new(Shape::new(rules.fields()))
    }

    #[inline]
    fn merge_all(
        &mut self,
        list: &FieldList<'_>,
        defs: Option<&FieldSetDefs<'_>>,
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        if let Some(defs) = defs {
            let mut room = SetValueRoom::default();
            for entry in list.set_entries(defs) {
                let entry = entry?;
                self.merge_one(entry.id, set_value(&entry, &mut room)?, ripple, rules)?;
            }
        }
        let mut entries = list.entries();
        while self.merge_some(&mut entries, ripple, rules)? {}
        Ok(())
    }

    /// Asks for the values, for a merge that comes soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::bytes(&self.block[..self.block.len().min(PREFETCHED_BYTES_MAX)]);
    }

    /// Merges entries up to the end, or up to and with one that is more than a new value of a field that has a
    /// slot for it. Returns whether there may be more of them.
    #[inline]
    fn merge_some(
        &mut self,
        entries: &mut FieldEntries<'_>,
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<bool, DecodeError> {
        let Some(shape) = self.shape.as_deref().filter(|shape| shape.is_laid_out()) else {
            let Some(entry) = entries.next().transpose()? else { return Ok(false) };
            return self.merge_one(entry.id, entry.content, ripple, rules).map(|()| true);
        };
        let (slots, block) = (shape.slots(), &mut *self.block);
        let has_records = block.len() > shape.slots_bytes();
        let mut place = slots.len();
        while let Some((id, encoded)) = entries.next_short() {
            let known = shape.follow(place, id);
            if let Some((found, slot)) = known
                && takes(slot, block, &encoded)
                && (!ripple || slot.next == NOWHERE || can_ripple(slots, block, slot, has_records))
            {
                if ripple && slot.next != NOWHERE {
                    ripple_along(slots, block, slot);
                }
                write_slot(block, slot, &encoded);
                place = found;
                continue;
            }
            return self.merge_short(id, &encoded, ripple, rules).map(|()| true);
        }
        match entries.next() {
            Some(entry) => {
                let entry = entry?;
                self.merge_one(entry.id, entry.content, ripple, rules).map(|()| true)
            }
            None => Ok(false),
        }
    }

    #[cold]
    fn merge_short(
        &mut self,
        id: i16,
        encoded: &[u8; SLOT_MAX],
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        self.merge_one(id, &encoded[1..][..encoded[0].into()], ripple, rules)
    }

    /// Merges whatever entry.
    fn merge_one(
        &mut self,
        id: i16,
        content: &[u8],
        ripple: bool,
        rules: &FieldRules,
    ) -> Result<(), DecodeError> {
        let found = self.place(id);
        if ripple && let Some(place) = found {
            self.ripple(id, place, rules)?;
        }
        if rmtes::is_partial_update(content) && rules.fields().is_rmtes(id) {
            let mut value = found.map_or(Vec::new(), |place| self.content(place).to_vec());
            rmtes::apply(&mut value, content, rmtes::VALUE_BYTES_MAX)?;
            return self.put(found, id, &value);
        }
        self.put(found, id, content)
    }

    /// Moves the old value of a field along its chain, the far end first. The chain ends before a field that the
    /// image does not have: an image has the fields that its provider sent, and no others.
    fn ripple(&mut self, id: i16, place: usize, rules: &FieldRules) -> Result<(), DecodeError> {
        let mut chain = vec![(id, place)];
        let mut from = id;
        while let Some(to) = rules.fields().ripples_to(from)
            && chain.len() < RIPPLE_MAX
            && let Some(place) = self.place(to)
        {
            chain.push((to, place));
            from = to;
        }
        for pair in chain.windows(2).rev() {
            let value = self.content(pair[0].1).to_vec();
            let (id, place) = pair[1];
            self.put(Some(place), id, &value)?;
        }
        Ok(())
    }

    #[inline]
    fn place(&self, id: i16) -> Option<usize> {
        self.shape.as_ref()?.place(id)
    }

    fn slots(&self) -> &[Slot] {
        self.shape.as_ref().map_or(&[], |shape| shape.slots())
    }

    fn content(&self, place: usize) -> &[u8] {
        self.value(self.slots()[place])
    }

    #[inline(always)]
    fn value(&self, slot: Slot) -> &[u8] {
        let at = slot.at as usize;
        match self.block[at] {
            LONG => {
                let record = &self.block[self.record_at(slot)..];
                &record[RECORD_HEAD..][..u16_at(record, 2)]
            }
            length => &self.block[at + 1..][..length.into()],
        }
    }

    /// Where the record of a long value begins.
    fn record_at(&self, slot: Slot) -> usize {
        let at = self.block[slot.at as usize + 1..].first_chunk().expect("the slot of a long value has room");
        u32::from_le_bytes(*at) as usize
    }

    /// Stores a content.
    fn put(&mut self, found: Option<usize>, id: i16, content: &[u8]) -> Result<(), DecodeError> {
        let Some(place) = found else { return self.add(id, content) };
        let slot = self.slots()[place];
        let is_long = self.block[slot.at as usize] == LONG;
        if is_long || content.len() > ROOM_MAX && usize::from(slot.room) >= ROOM_OF_LONG {
            return self.put_long(place, content);
        }
        if content.len() > slot.room.into() {
            let room = room_for(content.len());
            let at = self.make_room(usize::from(room) + 1)?;
            self.own_shape().relocate(place, at, room);
            return self.begin_slot(place, content);
        }
        write_content(&mut self.block, slot, content);
        Ok(())
    }

    /// Stores the content of a field that the image did not have.
    fn add(&mut self, id: i16, content: &[u8]) -> Result<(), DecodeError> {
        let place = self.slots().len();
        if place == FIELDS_MAX {
            let (value, max) = (FIELDS_MAX as u32 + 1, FIELDS_MAX as u32);
            return Err(DecodeError::BadValue { place: Place::EntryCount, value, max });
        }
        let room = room_for(content.len());
        let at = self.make_room(usize::from(room) + 1)?;
        self.own_shape().push(id, at, room);
        self.begin_slot(place, content)
    }

    /// Stores the first content of a slot at the end.
    fn begin_slot(&mut self, place: usize, content: &[u8]) -> Result<(), DecodeError> {
        let slot = self.slots()[place];
        self.block.resize(self.block.len() + slot.bytes(), 0);
        if content.len() > slot.room.into() {
            return self.put_long(place, content);
        }
        write_content(&mut self.block, slot, content);
        Ok(())
    }

    /// Stores a content behind the slots; there it stays, even if a shorter one follows.
    fn put_long(&mut self, place: usize, content: &[u8]) -> Result<(), DecodeError> {
        let slot = self.slots()[place];
        if self.block[slot.at as usize] == LONG {
            let at = self.record_at(slot);
            let record = &mut self.block[at..];
            if content.len() <= u16_at(record, 0) {
                record[2..RECORD_HEAD].copy_from_slice(&(content.len() as u16).to_le_bytes());
                record[RECORD_HEAD..][..content.len()].copy_from_slice(content);
                return Ok(());
            }
            // The record is waste from now on.
            self.block[slot.at as usize] = 0;
        }
        self.make_room(RECORD_HEAD + record_room(content.len()))?;
        // The slot may have moved to make room.
        let slot = self.slots()[place];
        append_record(&mut self.block, slot, content);
        Ok(())
    }

    /// Sees to it that so many bytes can be appended, and returns where they begin.
    fn make_room(&mut self, bytes: usize) -> Result<u32, DecodeError> {
        if self.block.capacity() - self.block.len() < bytes {
            if self.live_bytes() <= self.block.len() / 2 {
                self.close_up();
            }
            self.block.reserve_exact(bytes + self.block.len() / ROOM_FRACTION);
        }
        let at = u32::try_from(self.block.len() + bytes).map(|end| end - bytes as u32);
        let (place, length) = (Place::FieldList, u32::MAX);
        at.map_err(|_| DecodeError::BadLength { place, length, max: u32::MAX })
    }

    /// The bytes of the block that are in use.
    fn live_bytes(&self) -> usize {
        let is_long = |slot: &&Slot| self.block[slot.at as usize] == LONG;
        let record = |slot: &Slot| RECORD_HEAD + u16_at(&self.block[self.record_at(*slot)..], 0);
        self.slots().iter().filter(is_long).map(record).sum::<usize>() + self.slots_bytes()
    }

    fn slots_bytes(&self) -> usize {
        self.shape.as_ref().map_or(0, |shape| shape.slots_bytes())
    }

    /// Moves what is in use together.
    fn close_up(&mut self) {
        let Some(shape) = &self.shape else { return };
        let shape = if shape.is_laid_out() { Arc::clone(shape) } else { Arc::new(shape.laid_out()) };
        self.move_to(shape);
    }

    /// A shape that is this image's alone, to be changed.
    fn own_shape(&mut self) -> &mut Shape {
        let shape = Arc::make_mut(self.shape.as_mut().expect("merging begins with a shape"));
        shape.is_settled = false;
        shape
    }

    /// Takes the shape that others share, if the image has come to have one of its own.
    #[cold]
    fn settle(&mut self, rules: &FieldRules) {
        if let Some(shape) = self.shape.as_mut().and_then(|own| rules.shapes().settle(own)) {
            self.move_to(shape);
        }
    }

    /// Moves the values to where another shape of the same fields has them.
    fn move_to(&mut self, shape: Arc<Shape>) {
        let values = || self.slots().iter().map(|slot| self.value(*slot)).zip(shape.slots());
        let is_long = |(value, slot): &(&[u8], &Slot)| value.len() > slot.room.into();
        let record = |(value, _): (&[u8], &Slot)| RECORD_HEAD + record_room(value.len());
        let records: usize = values().filter(is_long).map(record).sum();
        let mut block = Vec::with_capacity(shape.slots_bytes() + records);
        block.resize(shape.slots_bytes(), 0);
        for (value, slot) in values() {
            match value.len() > slot.room.into() {
                true => append_record(&mut block, *slot, value),
                false => write_content(&mut block, *slot, value),
            }
        }
        self.block = block;
        self.shape = Some(shape);
    }

    /// The fields, in the order in which they first came.
    pub fn entries(&self) -> impl Iterator<Item = (i16, &[u8])> + '_ {
        self.slots().iter().map(|slot| (slot.id, self.value(*slot)))
    }

    /// The content of one field.
    #[must_use]
    pub fn field(&self, id: i16) -> Option<&[u8]> {
        self.place(id).map(|place| self.content(place))
    }

    /// How many fields there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots().len()
    }

    /// Writes the fields as a field list of standard data.
    pub fn write(&self, w: &mut Writer<'_>) {
        self.write_some(w, |_| true);
    }

    /// The same of some fields, by place.
    pub(crate) fn write_some(&self, w: &mut Writer<'_>, is_wanted: impl Fn(usize) -> bool) {
        let head = FieldListHead { info: self.info, set: None };
        w.field_list_with(&head, |f| {
            for (_, (id, content)) in self.entries().enumerate().filter(|(place, _)| is_wanted(*place)) {
                f.encoded(id, content);
            }
        });
    }

    /// Gives the places of all fields whose values the merge of a list has changed: those of the list, and those that
    /// old values have moved to. Of standard entries alone. Some places may be given twice, or more of a chain than was
    /// there when the list was merged.
    #[inline]
    pub(crate) fn each_changed(&self, list: &FieldList<'_>, ripple: bool, mut each: impl FnMut(usize)) {
        let Some(shape) = self.shape.as_deref() else { return };
        let ripple = ripple && shape.ripples();
        let (mut entries, mut before) = (list.entries(), shape.slots().len());
        loop {
            let id = match entries.next_short() {
                Some((id, _)) => id,
                None => match entries.next() {
                    Some(Ok(entry)) => entry.id,
                    _ => return,
                },
            };
            let Some((place, _)) = shape.follow(before, id) else { continue };
            each(place);
            if ripple {
                shape.each_along(place, &mut each);
            }
            before = place;
        }
    }

    /// The field list takes at most so many bytes: rooms are as long as contents, or longer.
    #[inline]
    pub(super) fn bound_bytes(&self) -> usize {
        self.block.len() + self.slots().len() * ENTRY_HEAD_MAX + LIST_HEAD_MAX
    }

    /// The same, more closely.
    pub(super) fn wire_bytes(&self) -> usize {
        let entries: usize = self.entries().map(|(_, content)| content.len() + ENTRY_HEAD_MAX).sum();
        entries + LIST_HEAD_MAX
    }

    /// Bytes held, about; a shape that others have too counts for none of them.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let own = self.shape.as_ref().filter(|shape| Arc::strong_count(shape) == 1);
        self.block.capacity() + own.map_or(0, |shape| shape.memory_bytes())
    }
}

#[cfg(test)]
impl FieldImage {
    pub(super) fn has_shape_of(&self, other: &FieldImage) -> bool {
        matches!((&self.shape, &other.shape), (Some(one), Some(two)) if Arc::ptr_eq(one, two))
    }

    pub(super) fn addresses(&self) -> (*const u8, Option<*const Shape>) {
        (self.block.as_ptr(), self.shape.as_ref().map(Arc::as_ptr))
    }
}

/// The block grows by this part of itself where it has to.
const ROOM_FRACTION: usize = 8;

fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// The bytes that a record has for a value of this length.
fn record_room(length: usize) -> usize {
    length.next_multiple_of(RECORD_STEP).min(u16::MAX.into())
}

/// Appends the record of a long value, and notes in its slot where that is.
fn append_record(block: &mut Vec<u8>, slot: Slot, content: &[u8]) {
    let (at, room) = (block.len() as u32, record_room(content.len()));
    block.extend_from_slice(&(room as u16).to_le_bytes());
    block.extend_from_slice(&(content.len() as u16).to_le_bytes());
    block.extend_from_slice(content);
    block.resize(at as usize + RECORD_HEAD + room, 0);
    let slot = &mut block[slot.at as usize..][..5];
    slot[0] = LONG;
    slot[1..].copy_from_slice(&at.to_le_bytes());
}

fn write_content(block: &mut [u8], slot: Slot, content: &[u8]) {
    let to = &mut block[slot.at as usize..][..=content.len()];
    to[0] = content.len() as u8;
    to[1..].copy_from_slice(content);
}

/// Whether a slot simply takes a value: it has room for it, and its value is neither behind the slots nor
/// changed in part.
#[inline]
fn takes(slot: Slot, block: &[u8], encoded: &[u8; SLOT_MAX]) -> bool {
    let is_partial = || encoded[0] >= 2 && rmtes::is_partial_update(&encoded[1..]);
    encoded[0] <= slot.room && block[slot.at as usize] != LONG && !(slot.is_rmtes && is_partial())
}

/// Fills a slot. The bytes behind the value mean nothing.
#[inline]
fn write_slot(block: &mut [u8], slot: Slot, encoded: &[u8; SLOT_MAX]) {
    let to = block[slot.at as usize..].first_chunk_mut::<SLOT_MAX>();
    let to = to.expect("a block has bytes behind its last slot");
    match slot.room {
        3 => to[..4].copy_from_slice(&encoded[..4]),
        7 => to[..8].copy_from_slice(&encoded[..8]),
        11 => to[..12].copy_from_slice(&encoded[..12]),
        _ => *to = *encoded,
    }
}

/// Whether the values of a chain are all in its slots, and each is there once.
#[inline]
fn can_ripple(slots: &[Slot], block: &[u8], slot: Slot, has_records: bool) -> bool {
    slot.next != RING && (!has_records || are_short(slots, block, slot))
}

/// Moves the value of a slot to the one that it ripples to, and the value there on; none of them is long. The
/// shape has room for it.
#[inline]
fn ripple_along(slots: &[Slot], block: &mut [u8], slot: Slot) {
    let (mut value, mut next) = (read_slot(block, slot), slot.next);
    for _ in 1..RIPPLE_MAX {
        let Some(slot) = slots.get(usize::from(next)) else { return };
        let old = read_slot(block, *slot);
        write_slot(block, *slot, &value);
        (value, next) = (old, slot.next);
    }
}

/// A slot and what is behind it.
#[inline]
fn read_slot(block: &[u8], slot: Slot) -> [u8; SLOT_MAX] {
    *block[slot.at as usize..].first_chunk().expect("a block has bytes behind its last slot")
}

/// Whether no value of a chain, but for the first one, is long.
#[inline]
fn are_short(slots: &[Slot], block: &[u8], slot: Slot) -> bool {
    let step = |slot: &Slot| slots.get(usize::from(slot.next)).copied();
    let mut chain = std::iter::successors(Some(slot), step).skip(1).take(RIPPLE_MAX - 1);
    chain.all(|slot| block[slot.at as usize] != LONG)
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
