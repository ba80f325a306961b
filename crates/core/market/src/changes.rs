//! What of an item has changed since a reader was sent something: which fields of a field list, which entries of a map.
//!
//! A reader that is too slow for every update gets the newest values when it has room. They stand in the item's image;
//! [`Changes`] says which of them the reader lacks. It is kept only for an item that has such readers, and holds no
//! values:
//!
//! | of | is kept | bytes |
//! |---|---|---|
//! | a field list | for each field, in the image's order, which update changed it last | 4 a field |
//! | a map | for each key that changed: its last change, its last add, when it came first, when it went last | some 60 a key, and the key |
//!
//! Updates are counted for the item ([`CachedItem::version`](crate::CachedItem::version)); a reader remembers the count
//! up to which it was sent everything. Noting an update allocates nothing but for keys that were not noted before.
//! Vectors, filter lists, series, element lists and payloads without parts are not followed: their readers get images.
//!
//! `changes/tests.rs` holds readers that get updates, conflated updates and images in any order against the image.

use std::collections::BTreeMap;

use rwf::{DataType, FieldList, Map, MapAction, UpdateMsg, Writer};

use crate::image::{Image, MapImage};

/// Which parts of an image changed when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// All changes after this version are known.
    known_after: u64,
    /// Versions are kept as distances from this one; at 0 is what has not changed since.
    base: u64,
    /// By place in the image.
    fields: Vec<u32>,
    summary_at: u32,
    permission_at: u32,
    entries: BTreeMap<Box<[u8]>, EntryChange>,
    /// Of all keys in `entries`.
    key_bytes: usize,
}

/// What happened to the entry of a key.
#[derive(Clone, Copy, Debug, Default)]
struct EntryChange {
    is_there: bool,
    /// The last time, in whatever way.
    changed_at: u32,
    /// When it was added last, or came back. Who knew it before replaces it.
    added_at: u32,
    /// When it came back last, and when it had gone before that; 0 if it has not.
    came_back_at: u32,
    gone_before: u32,
    /// When it was added first; 0 if it was there before.
    first_added_at: u32,
    /// When it was deleted last.
    gone_at: u32,
}

/// So many keys are noted: more than order books have, and some 500 kB.
const ENTRIES_MAX: usize = 4_096;
/// Bytes of their keys together. A key can have 32 kB.
const KEYS_BYTES_MAX: usize = 1 << 18;
/// A longer map is better sent as an image, which is cut into parts.
const MAP_BYTES_MAX: usize = 1 << 16;

/// The part of an update that a merge changes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged<'m, 'b> {
    pub(crate) msg: &'m UpdateMsg<'b>,
    /// Old values move to the fields that theirs ripple to.
    pub(crate) ripples: bool,
}

/// What a reader lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// Only an image says it.
    Image,
    Nothing,
    /// What [`Changes::write`] writes.
    Some,
}

impl Changes {
    /// Notes what changes after this version.
    pub(crate) fn new(version: u64) -> Changes {
        Changes { known_after: version, base: version, ..Changes::default() }
    }

    /// There is another image; of what was before, nothing is known.
    pub(crate) fn restart(&mut self, version: u64) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Changes { fields, ..Changes::new(version) };
    }

    /// An update, which has this version, says who may see the item.
    pub(crate) fn note_permission(&mut self, version: u64) {
        self.permission_at = self.at(version);
    }

    /// Notes the entries that an update, which has this version, is about to change.
    pub(crate) fn note_entries(&mut self, image: &Image, update: Merged<'_, '_>, version: u64) {
        let map = if let Image::Map(map) = image { Some(map) } else { None };
        let was_there = |key: &[u8]| map.is_some_and(|map| map.entry(key).is_some());
        self.note_map(update, version, was_there);
    }

    /// The same after the fact. Entries that are updated or deleted were there before: an update of another one means
    /// nothing. So may have been those that were added.
    pub(crate) fn note_entries_late(&mut self, update: Merged<'_, '_>, version: u64) {
        self.note_map(update, version, |_| true);
    }

    fn note_map(&mut self, update: Merged<'_, '_>, version: u64, was_there: impl Fn(&[u8]) -> bool) {
        if update.msg.container_type != DataType::MAP {
            return;
        }
        let Ok(map) = Map::parse(update.msg.payload) else { return };
        let at = self.at(version);
        if map.summary.is_some() {
            self.summary_at = at;
        }
        for entry in map.entries() {
            let Ok(entry) = entry else { return };
            let change = match self.entries.get_mut(entry.key) {
                Some(change) => change,
                None => {
                    let is_there = was_there(entry.key);
                    if !is_there && entry.action == MapAction::Delete {
                        continue;
                    }
                    if self.entries.len() >= ENTRIES_MAX || self.key_bytes + entry.key.len() > KEYS_BYTES_MAX
                    {
                        self.forget_oldest();
                    }
                    self.key_bytes += entry.key.len();
                    let first_added_at = if is_there { 0 } else { at };
                    let new = EntryChange { is_there, first_added_at, ..EntryChange::default() };
                    self.entries.entry(entry.key.into()).or_insert(new)
                }
            };
            change.note(entry.action, at);
        }
    }

    /// Drops the older half of the keys. Readers that lack any of their changes get images.
    #[cold]
    fn forget_oldest(&mut self) {
        let mut all: Vec<u32> = self.entries.values().map(|change| change.changed_at).collect();
        let middle = all.len() / 2;
        let Some((_, cut, _)) = all.get_mut(middle).is_some().then(|| all.select_nth_unstable(middle)) else {
            return;
        };
        self.known_after = self.known_after.max(self.base + u64::from(*cut));
        self.entries.retain(|_, change| change.changed_at > *cut);
        self.key_bytes = self.entries.keys().map(|key| key.len()).sum();
    }

    /// Notes the fields that an update, which has this version, has changed. The image has it.
    #[inline]
    pub(crate) fn note_fields(&mut self, image: &Image, update: Merged<'_, '_>, version: u64) {
        let Some(image) = image.fields().filter(|_| update.msg.container_type == DataType::FIELD_LIST) else {
            return;
        };
        let Ok(list) = FieldList::parse(update.msg.payload) else { return };
        let (at, fields) = (self.at(version), &mut self.fields);
        if fields.len() < image.len() {
            fields.resize(image.len(), 0);
        }
        image.each_changed(&list, update.ripples, |place| fields[place] = at);
    }

    /// A version as it is kept.
    #[inline]
    fn at(&mut self, version: u64) -> u32 {
        if version - self.base > u64::from(u32::MAX) {
            self.restart(version - 1);
        }
        (version - self.base) as u32
    }

    /// What a reader lacks that has everything up to a version of an image.
    pub(crate) fn after(&self, since: u64, image: &Image) -> Lacks {
        let Some(since) = self.since(since) else { return Lacks::Image };
        let is_some = |is_some| if is_some { Lacks::Some } else { Lacks::Nothing };
        let has_permission = self.permission_at > since;
        match image {
            Image::Fields(_) => is_some(has_permission || self.fields.iter().any(|at| *at > since)),
            Image::Map(map) => {
                let has_summary = self.summary_at > since;
                // Nothing replaces a summary.
                if has_summary && !is_list(map.container_type()) {
                    return Lacks::Image;
                }
                let news = self.news(since, map);
                let bytes: usize = news.map(|(key, _)| map.bytes_of(key)).sum();
                if bytes > MAP_BYTES_MAX {
                    return Lacks::Image;
                }
                is_some(has_permission || has_summary || bytes > 0)
            }
            _ => Lacks::Image,
        }
    }

    /// Whether who may see the item was said after a version.
    pub(crate) fn has_permission_after(&self, since: u64) -> bool {
        self.since(since).is_some_and(|since| self.permission_at > since)
    }

    /// Writes the payload of an update that brings a reader from a version to the image.
    pub(crate) fn write(&self, since: u64, image: &Image, w: &mut Writer<'_>) {
        let Some(since) = self.since(since) else { return };
        match image {
            Image::Fields(fields) => {
                fields.write_some(w, |place| self.fields.get(place).is_some_and(|at| *at > since));
            }
            Image::Map(map) => map.write_some(w, self.summary_at > since, self.news(since, map)),
            _ => {}
        }
    }

    /// A reader's version as it is kept; `None` if not all changes since are known.
    fn since(&self, since: u64) -> Option<u32> {
        let distance = since.checked_sub(self.base).filter(|_| since >= self.known_after)?;
        u32::try_from(distance).ok()
    }

    /// What has become of the entries of a map since a version, in the order of their keys.
    fn news(&self, since: u32, map: &MapImage) -> impl Iterator<Item = (&[u8], MapAction)> {
        let is_list = is_list(map.container_type());
        self.entries.iter().filter_map(move |(key, change)| {
            change.action_after(since, is_list).map(|action| (&**key, action))
        })
    }

    /// Bytes held, about.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let entry_bytes = size_of::<EntryChange>() + size_of::<Box<[u8]>>();
        self.fields.capacity() * 4 + self.entries.len() * entry_bytes + self.key_bytes
    }
}

/// Whether the whole of what an entry holds can be merged into what a reader has, and comes to the whole.
fn is_list(container_type: DataType) -> bool {
    [DataType::NO_DATA, DataType::FIELD_LIST, DataType::ELEMENT_LIST].contains(&container_type)
}

impl EntryChange {
    fn note(&mut self, action: MapAction, at: u32) {
        if action == MapAction::Delete {
            if self.is_there {
                (self.gone_at, self.changed_at) = (at, at);
            }
            self.is_there = false;
            return;
        }
        if !self.is_there && self.gone_at > 0 {
            (self.gone_before, self.came_back_at) = (self.gone_at, at);
        }
        if action == MapAction::Add || !self.is_there {
            self.added_at = at;
        }
        (self.changed_at, self.is_there) = (at, true);
    }

    /// What brings a reader up to date that has everything up to `since`. What is no list has to replace what the
    /// reader has.
    ///
    /// An entry that came and went more than twice may be deleted for a reader that does not know it any more.
    fn action_after(&self, since: u32, is_list: bool) -> Option<MapAction> {
        match self.is_there {
            _ if self.changed_at <= since => None,
            true if self.added_at > since || !is_list => Some(MapAction::Add),
            true => Some(MapAction::Update),
            false => {
                let was_gone = (self.gone_before..self.came_back_at).contains(&since);
                (self.first_added_at <= since && !was_gone).then_some(MapAction::Delete)
            }
        }
    }
}

#[cfg(test)]
mod tests;
