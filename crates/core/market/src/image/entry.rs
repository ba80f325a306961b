//! What maps, vectors and filter lists have alike: entries, a summary, parts of a limited size.

use rwf::{DataType, DecodeError, Place};

use super::{Context, Image};

/// The longest container that an entry can hold, and a summary.
pub(super) const ENTRY_BYTES_MAX: usize = 0xFFFF;
const SUMMARY_BYTES_MAX: usize = 0x7FFF;
/// An entry takes at most so many bytes besides key, permission data and container: action, index or id,
/// type, and the lengths of all these.
const HEAD_BYTES_MAX: usize = 16;
/// A message has a 16-bit count of entries.
const ENTRIES_MAX: usize = u16::MAX as usize;
/// The same for the container around it: flags, types, hint, count, lengths.
pub(super) const CONTAINER_HEAD_BYTES_MAX: usize = 24;
/// The most a total count hint can say.
const HINT_MAX: usize = (1 << 30) - 1;

/// What stands for a key, an index, an id.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) content: Image,
    pub(super) permission_data: Option<Box<[u8]>>,
}

/// What a message says of an entry.
pub(super) struct Change<'a> {
    pub(super) place: Place,
    /// It replaces what was there.
    pub(super) is_whole: bool,
    pub(super) container_type: DataType,
    pub(super) data: Option<&'a [u8]>,
    pub(super) permission_data: Option<&'a [u8]>,
}

impl Entry {
    /// Returns whether all of it could be merged.
    pub(super) fn apply(&mut self, change: &Change<'_>, context: &Context<'_>) -> Result<bool, DecodeError> {
        if change.is_whole {
            *self = Entry::default();
        }
        if let Some(permission_data) = change.permission_data {
            self.permission_data = Some(permission_data.into());
        }
        let Some(data) = change.data else { return Ok(true) };
        let is_merged = self.content.merge(change.container_type, data, context)?;
        self.content.keep_within(ENTRY_BYTES_MAX, change.place)?;
        Ok(is_merged)
    }

    /// It takes at most so many bytes on the wire, besides its key; see [`Image::bound_bytes`].
    pub(super) fn bound_bytes(&self) -> usize {
        self.content.bound_bytes() + self.frame_bytes()
    }

    /// See [`Image::wire_bytes`].
    pub(super) fn wire_bytes(&self) -> usize {
        self.content.wire_bytes() + self.frame_bytes()
    }

    fn frame_bytes(&self) -> usize {
        HEAD_BYTES_MAX + self.permission_data.as_ref().map_or(0, |data| data.len())
    }

    /// Bytes held, about, with those of the table that it is in.
    pub(super) fn memory_bytes(&self) -> usize {
        let held = self.permission_data.as_ref().map_or(0, |data| data.len());
        size_of::<Entry>() + held + self.content.memory_bytes()
    }
}

/// What holds for all entries of a container.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary(Option<Box<Image>>);

impl Summary {
    /// Returns whether all of it could be merged. Where entries hold nothing, neither does a summary.
    pub(super) fn apply(
        &mut self,
        container_type: DataType,
        data: Option<&[u8]>,
        context: &Context<'_>,
    ) -> Result<bool, DecodeError> {
        let Some(data) = data.filter(|_| container_type != DataType::NO_DATA) else { return Ok(true) };
        let kept = self.0.get_or_insert_default();
        let is_merged = kept.merge(container_type, data, context)?;
        kept.keep_within(SUMMARY_BYTES_MAX, Place::Summary)?;
        Ok(is_merged)
    }

    pub(super) fn get(&self) -> Option<&Image> {
        self.0.as_deref()
    }

    pub(super) fn bound_bytes(&self) -> usize {
        self.get().map_or(0, Image::bound_bytes)
    }

    pub(super) fn wire_bytes(&self) -> usize {
        self.get().map_or(0, Image::wire_bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.get().map_or(0, |image| size_of::<Image>() + image.memory_bytes())
    }
}

/// The room in one part of a refresh.
pub(super) struct PartRoom {
    bytes_left: usize,
    entries_left: usize,
    is_blank: bool,
}

impl PartRoom {
    /// For about `bytes` bytes of entries.
    pub(super) fn new(bytes: usize) -> PartRoom {
        PartRoom { bytes_left: bytes, entries_left: ENTRIES_MAX, is_blank: true }
    }

    /// The same, for as many entries as a filter list can count.
    pub(super) fn of_few(bytes: usize) -> PartRoom {
        PartRoom { entries_left: u8::MAX.into(), ..PartRoom::new(bytes) }
    }

    /// Whether an entry goes in; the first does always.
    pub(super) fn takes(&mut self, entry_bytes: usize) -> bool {
        let fits = self.is_blank || entry_bytes <= self.bytes_left && self.entries_left > 0;
        self.is_blank = false;
        self.bytes_left = self.bytes_left.saturating_sub(entry_bytes);
        self.entries_left = self.entries_left.saturating_sub(1);
        fits
    }
}

/// So many entries, as a total count hint says it.
pub(super) fn hint(count: usize) -> u32 {
    count.min(HINT_MAX) as u32
}
