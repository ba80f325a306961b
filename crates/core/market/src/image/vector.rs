use rwf::{DataType, DecodeError, Place, Vector, VectorAction, VectorEntry, VectorHead, Writer};
use slab::Slab;

use super::definitions::Definitions;
use super::entry::{CONTAINER_HEAD_BYTES_MAX, Change, Entry, PartRoom, Summary, hint};
use super::{Context, Image};

/// A vector: containers by position.
///
/// Set replaces an entry, update merges into it, clear empties it and leaves the others where they are. Where
/// the provider has said that the vector supports sorting, insert and delete move the entries behind; else an
/// insert sets, and a delete clears. Positions may be apart; an empty one is as one that was never set.
#[derive(Clone, Debug)]
pub struct VectorImage {
    container_type: DataType,
    supports_sorting: bool,
    /// The provider says how many entries there are.
    is_hinted: bool,
    summary: Summary,
    /// Ascending by index.
    order: Vec<Position>,
    entries: Slab<Entry>,
    /// See [`Image::bound_bytes`].
    entries_bound_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    index: u32,
    /// Place in `entries`.
    place: u32,
}

/// The most entries that are kept: to insert one moves all behind it.
pub(super) const VECTOR_ENTRIES_MAX: usize = 65_535;
/// The highest index that the wire has room for.
const INDEX_MAX: u32 = (1 << 30) - 1;

impl VectorImage {
    pub(super) fn begin(vector: &Vector<'_>) -> VectorImage {
        VectorImage {
            container_type: vector.container_type,
            supports_sorting: vector.supports_sorting,
            is_hinted: false,
            summary: Summary::default(),
            order: Vec::new(),
            entries: Slab::new(),
            entries_bound_bytes: 0,
        }
    }

    /// Applies summary and entries of a part of a refresh, or of an update. Returns whether all of it could
    /// be merged.
    pub(super) fn apply(&mut self, vector: &Vector<'_>, context: &Context<'_>) -> Result<bool, DecodeError> {
        if self.container_type == DataType::NO_DATA {
            self.container_type = vector.container_type;
        }
        if ![self.container_type, DataType::NO_DATA].contains(&vector.container_type) {
            return Ok(false);
        }
        self.supports_sorting |= vector.supports_sorting;
        self.is_hinted |= vector.total_count_hint.is_some();
        let definitions = Definitions::read(vector.container_type, vector.set_definitions)?;
        let inner = context.inside(&definitions);
        let mut is_merged = self.summary.apply(vector.container_type, vector.summary, &inner)?;
        for entry in vector.entries() {
            is_merged &= self.apply_entry(&entry?, vector.container_type, &inner)?;
        }
        Ok(is_merged)
    }

    fn apply_entry(
        &mut self,
        entry: &VectorEntry<'_>,
        container_type: DataType,
        context: &Context<'_>,
    ) -> Result<bool, DecodeError> {
        let found = self.order.binary_search_by_key(&entry.index, |position| position.index);
        match (entry.action, found) {
            (VectorAction::Delete, _) if self.supports_sorting => {
                self.remove(found);
                let behind = found.unwrap_or_else(|place| place);
                self.order[behind..].iter_mut().for_each(|position| position.index -= 1);
                return Ok(true);
            }
            (VectorAction::Clear | VectorAction::Delete, _) => {
                self.remove(found);
                return Ok(true);
            }
            (VectorAction::Insert, Ok(at) | Err(at)) if self.supports_sorting => {
                if self.order.len() == VECTOR_ENTRIES_MAX {
                    return Ok(false);
                }
                self.make_room(at)?;
                self.put(at, entry.index);
            }
            (_, Err(_)) if self.order.len() == VECTOR_ENTRIES_MAX => return Ok(false),
            (_, Err(at)) => self.put(at, entry.index),
            (_, Ok(_)) => {}
        }
        let (Ok(at) | Err(at)) = found;
        let change = Change {
            place: Place::VectorEntry,
            is_whole: entry.action != VectorAction::Update,
            container_type,
            data: entry.data,
            permission_data: entry.permission_data,
        };
        self.change(at, &change, context)
    }

    fn change(&mut self, at: usize, change: &Change<'_>, context: &Context<'_>) -> Result<bool, DecodeError> {
        let kept = &mut self.entries[self.order[at].place as usize];
        let before = kept.bound_bytes();
        let result = kept.apply(change, context);
        self.entries_bound_bytes = self.entries_bound_bytes + kept.bound_bytes() - before;
        result
    }

    /// Puts an empty entry at a place in the order.
    fn put(&mut self, at: usize, index: u32) {
        let entry = Entry::default();
        self.entries_bound_bytes += entry.bound_bytes();
        let place = self.entries.insert(entry) as u32;
        self.order.insert(at, Position { index, place });
    }

    fn remove(&mut self, found: Result<usize, usize>) {
        let Ok(at) = found else { return };
        let gone = self.entries.remove(self.order.remove(at).place as usize);
        self.entries_bound_bytes -= gone.bound_bytes();
    }

    /// Moves the entries from a place on by one.
    fn make_room(&mut self, at: usize) -> Result<(), DecodeError> {
        let behind = &mut self.order[at..];
        if behind.last().is_some_and(|last| last.index == INDEX_MAX) {
            let (value, max) = (INDEX_MAX + 1, INDEX_MAX);
            return Err(DecodeError::BadValue { place: Place::VectorIndex, value, max });
        }
        behind.iter_mut().for_each(|position| position.index += 1);
        Ok(())
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Index and content of each entry, ascending.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Image)> {
        self.all().map(|(index, entry)| (index, &entry.content))
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.order.iter().map(|position| (position.index, &self.entries[position.place as usize]))
    }

    /// Writes a vector from the index `from` on (`None`: the beginning, with the summary) until about
    /// `part_bytes` are written. Returns the index of the entry that did not fit, if there is one.
    pub(super) fn write(&self, from: Option<usize>, part_bytes: usize, w: &mut Writer<'_>) -> Option<usize> {
        let head = VectorHead {
            total_count_hint: (from.is_none() && self.is_hinted).then(|| hint(self.order.len())),
            supports_sorting: self.supports_sorting,
            ..VectorHead::new(self.container_type)
        };
        let (mut room, mut next) = (PartRoom::new(part_bytes), None);
        w.vector(&head, |v| {
            if let (None, Some(summary)) = (from, self.summary.get()) {
                v.summary(|w| summary.write_inside(self.container_type, w));
            }
            for (index, entry) in self.all().skip_while(|(index, _)| (*index as usize) < from.unwrap_or(0)) {
                if !room.takes(entry.wire_bytes()) {
                    next = Some(index as usize);
                    break;
                }
                let permission_data = entry.permission_data.as_deref();
                let write = |w: &mut Writer<'_>| entry.content.write_inside(self.container_type, w);
                v.entry(VectorAction::Set, index, permission_data, write);
            }
        });
        next
    }

    /// See [`Image::bound_bytes`].
    pub(super) fn bound_bytes(&self) -> usize {
        CONTAINER_HEAD_BYTES_MAX + self.summary.bound_bytes() + self.entries_bound_bytes
    }

    /// See [`Image::wire_bytes`].
    pub(super) fn wire_bytes(&self) -> usize {
        let entries: usize = self.all().map(|(_, entry)| entry.wire_bytes()).sum();
        CONTAINER_HEAD_BYTES_MAX + self.summary.wire_bytes() + entries
    }

    /// Bytes held, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.all().map(|(_, entry)| size_of::<Position>() + entry.memory_bytes()).sum();
        size_of::<VectorImage>() + self.summary.memory_bytes() + entries
    }
}
