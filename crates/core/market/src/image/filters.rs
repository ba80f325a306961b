use std::collections::BTreeMap;

use rwf::{DataType, DecodeError, FilterAction, FilterList, Place, Writer};

use super::definitions::Definitions;
use super::entry::{CONTAINER_HEAD_BYTES_MAX, Change, Entry, PartRoom};
use super::{Context, Image};

/// A filter list: containers by a small number, each of a type of its own.
///
/// Set replaces an entry, update merges into it, clear removes what it holds, and with it the entry.
#[derive(Clone, Debug)]
pub struct FilterImage {
    /// Of the entries that do not name another.
    container_type: DataType,
    entries: BTreeMap<u8, Entry>,
    /// See [`Image::bound_bytes`].
    entries_bound_bytes: usize,
}

impl FilterImage {
    pub(super) fn begin(filters: &FilterList<'_>) -> FilterImage {
        FilterImage {
            container_type: filters.container_type,
            entries: BTreeMap::new(),
            entries_bound_bytes: 0,
        }
    }

    /// Applies the entries of a part of a refresh, or of an update. Returns whether all of it could be
    /// merged.
    pub(super) fn apply(
        &mut self,
        filters: &FilterList<'_>,
        context: &Context<'_>,
    ) -> Result<bool, DecodeError> {
        // A filter list has no set definitions.
        let inner = context.inside(&Definitions::None);
        let mut is_merged = true;
        for entry in filters.entries() {
            let entry = entry?;
            let before = self.entries.get(&entry.id).map_or(0, Entry::bound_bytes);
            self.entries_bound_bytes -= before;
            if entry.action == FilterAction::Clear {
                self.entries.remove(&entry.id);
                continue;
            }
            let kept = self.entries.entry(entry.id).or_default();
            let change = Change {
                place: Place::FilterEntry,
                is_whole: entry.action == FilterAction::Set,
                container_type: entry.container_type,
                data: entry.data,
                permission_data: entry.permission_data,
            };
            let result = kept.apply(&change, &inner);
            self.entries_bound_bytes += kept.bound_bytes();
            is_merged &= result?;
        }
        Ok(is_merged)
    }

    /// Id and content of each entry, ascending.
    pub fn entries(&self) -> impl Iterator<Item = (u8, &Image)> {
        self.entries.iter().map(|(id, entry)| (*id, &entry.content))
    }

    /// Writes a filter list from the id `from` on until about `part_bytes` are written. Returns the id of the
    /// entry that did not fit, if there is one.
    pub(super) fn write(&self, from: Option<usize>, part_bytes: usize, w: &mut Writer<'_>) -> Option<usize> {
        let (mut room, mut next) = (PartRoom::of_few(part_bytes), None);
        let rest = self.entries.iter().filter(|(id, _)| usize::from(**id) >= from.unwrap_or(0));
        w.filter_list(self.container_type, None, |f| {
            for (id, entry) in rest {
                if !room.takes(entry.wire_bytes()) {
                    next = Some(usize::from(*id));
                    break;
                }
                let own = Some(entry.content.container_type()).filter(|own| *own != self.container_type);
                let permission_data = entry.permission_data.as_deref();
                let write = |w: &mut Writer<'_>| entry.content.write_inside(DataType::NO_DATA, w);
                f.entry_with(FilterAction::Set, *id, own, permission_data, write);
            }
        });
        next
    }

    /// See [`Image::bound_bytes`].
    pub(super) fn bound_bytes(&self) -> usize {
        CONTAINER_HEAD_BYTES_MAX + self.entries_bound_bytes
    }

    /// See [`Image::wire_bytes`].
    pub(super) fn wire_bytes(&self) -> usize {
        CONTAINER_HEAD_BYTES_MAX + self.entries.values().map(Entry::wire_bytes).sum::<usize>()
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<FilterImage>() + self.entries.values().map(Entry::memory_bytes).sum::<usize>()
    }
}
