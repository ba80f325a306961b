//! Which stream belongs to which item.

/// The stream of the source directory, as stock consumers have it.
pub(crate) const DIRECTORY_STREAM_ID: i32 = 2;

/// The first stream id of an item: login, directory and the first dictionaries have those below, by custom.
pub(crate) const FIRST_FREE_ID: i32 = 3;

const PAGE_BITS: u32 = 10;
const PAGE_IDS: usize = 1 << PAGE_BITS;
const NONE: u32 = u32::MAX;

/// Stream ids to the places of their items.
///
/// Ids are given in ascending order and not used again before all others were: what a server still sends on a
/// stream that was closed must not be taken for another item's. A look-up is two array accesses; a page of 4
/// KiB goes when its last stream is closed.
#[derive(Debug)]
pub(crate) struct StreamTable {
    pages: Vec<Option<Box<Page>>>,
    next_id: i32,
}

#[derive(Debug)]
struct Page {
    places: [u32; PAGE_IDS],
    used_count: u16,
}

impl Default for StreamTable {
    fn default() -> Self {
        StreamTable { pages: Vec::new(), next_id: FIRST_FREE_ID }
    }
}

impl StreamTable {
    /// The place of the item on a stream.
    #[inline]
    pub(crate) fn get(&self, stream_id: i32) -> Option<u32> {
        // Negative ids are beyond every page.
        let id = stream_id as u32;
        let page = self.pages.get((id >> PAGE_BITS) as usize)?.as_ref()?;
        let place = page.places[id as usize % PAGE_IDS];
        (place != NONE).then_some(place)
    }

    /// An id that nobody has, for a stream that is no item's.
    pub(crate) fn reserve(&mut self) -> i32 {
        loop {
            let id = self.next_id;
            self.next_id = if id == i32::MAX { FIRST_FREE_ID } else { id + 1 };
            // Fewer items can be subscribed than there are ids.
            if self.get(id).is_none() {
                return id;
            }
        }
    }

    /// Opens a stream for the item at `place`.
    pub(crate) fn open(&mut self, place: u32) -> i32 {
        let id = self.reserve();
        let page = id as usize / PAGE_IDS;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Box::new(Page { places: [NONE; PAGE_IDS], used_count: 0 }));
        page.places[id as usize % PAGE_IDS] = place;
        page.used_count += 1;
        id
    }

    /// Opens streams with the ids that follow `stream_id`, one for each place, as long as these are to be
    /// had; returns how many.
    pub(crate) fn open_following(&mut self, stream_id: i32, places: impl Iterator<Item = u32>) -> i32 {
        let mut count = 0;
        for place in places {
            let is_next = self.next_id == stream_id + count + 1 && self.get(self.next_id).is_none();
            if !is_next || self.next_id == i32::MAX {
                break;
            }
            self.open(place);
            count += 1;
        }
        count
    }

    /// Closes the stream of an item.
    pub(crate) fn close(&mut self, stream_id: i32) {
        let Some(slot) = self.pages.get_mut(stream_id as u32 as usize / PAGE_IDS) else { return };
        let Some(page) = slot else { return };
        let place = &mut page.places[stream_id as u32 as usize % PAGE_IDS];
        if std::mem::replace(place, NONE) != NONE {
            page.used_count -= 1;
            if page.used_count == 0 {
                *slot = None;
            }
        }
    }

    /// Forgets all streams: a new connection begins with the first id.
    pub(crate) fn clear(&mut self) {
        *self = StreamTable::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_to_their_items_and_closed_ones_nowhere() {
        let mut streams = StreamTable::default();
        let ids: Vec<i32> = (0..5_000).map(|place| streams.open(place)).collect();
        assert_eq!((ids[0], ids[4_999]), (3, 5_002));
        assert!(ids.iter().zip(0..).all(|(id, place)| streams.get(*id) == Some(place)));
        for id in [i32::MIN, -1, 0, 2, 5_003, i32::MAX] {
            assert_eq!(streams.get(id), None, "{id}");
            streams.close(id);
        }
        streams.close(ids[7]);
        streams.close(ids[7]);
        assert_eq!((streams.get(ids[7]), streams.get(ids[8])), (None, Some(8)));
        assert_eq!(streams.open(9_000), 5_003, "a closed id is not used again");
    }

    #[test]
    fn pages_without_streams_take_no_memory() {
        let mut streams = StreamTable::default();
        for place in 0..100_000 {
            let id = streams.open(place);
            streams.close(id);
        }
        assert_eq!(streams.pages.iter().flatten().count(), 0);
    }

    #[test]
    fn after_the_last_id_the_first_free_one_follows() {
        let mut streams = StreamTable::default();
        assert_eq!((streams.open(1), streams.reserve()), (3, 4));
        streams.next_id = i32::MAX - 3;
        let batch = streams.reserve();
        assert_eq!(
            streams.open_following(batch, [7, 8, 9].into_iter()),
            2,
            "the last id is left to a single item"
        );
        streams.next_id = i32::MAX;
        assert_eq!((streams.open(2), streams.open(3)), (i32::MAX, 4));
        assert_eq!((streams.get(i32::MAX), streams.get(3), streams.get(4)), (Some(2), Some(1), Some(3)));
        streams.clear();
        assert_eq!((streams.get(3), streams.reserve()), (None, 3));
    }
}
