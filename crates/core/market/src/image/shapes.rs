use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rwf::FieldList;

use super::rules::RuleTable;
use super::shape::{ByIds, Shape};

/// The shapes that images share, found by the ids of their fields.
///
/// It holds one for each sequence of ids: the one with the most room. Shapes that no image has any more are
/// dropped in time. What is beyond the bound is shared with nobody, and takes no more than an image with ids
/// of its own would. The lock is for images that begin or change their shape; merging takes none.
#[derive(Debug, Default)]
pub(super) struct Shapes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    known: HashSet<ByIds>,
    /// Of all shapes together.
    fields: usize,
    /// The same when those that no image has were looked for the last time.
    fields_at_sweep: usize,
    /// Fields of new shapes since then.
    seen: usize,
    /// The one that was found last.
    last: Option<Arc<Shape>>,
    /// Working room: the ids of a list.
    ids: Vec<i16>,
}

/// The most fields that all shapes have together: some thousand templates. They take some 5 MB.
const FIELDS_MAX: usize = 1 << 18;
/// No template has more fields than this; an image that does has a shape of its own.
const SHARED_FIELDS_MAX: usize = 512;
/// Below this there is nothing worth looking for.
const SWEEP_MIN: usize = 1 << 12;

impl Shapes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shape of images that have exactly the fields of a list, in this order, if one is known.
    pub(super) fn find(&self, list: &FieldList<'_>, rules: &Arc<RuleTable>) -> Option<Arc<Shape>> {
        let mut table = self.table();
        let Table { known, last, ids, .. } = &mut *table;
        ids.clear();
        for entry in list.entries().take(SHARED_FIELDS_MAX + 1) {
            ids.push(entry.ok()?.id);
        }
        if let Some(last) = last.as_ref().filter(|last| last.ids() == &**ids) {
            return Some(Arc::clone(last)).filter(|last| last.is_by(rules));
        }
        let found = Arc::clone(&known.get(&**ids)?.0);
        *last = Some(Arc::clone(&found));
        Some(found).filter(|found| found.is_by(rules))
    }

    /// What an image is to have that has come to a shape of its own, if it is not to stay with that: the one
    /// that others share, if there can be one.
    pub(super) fn settle(&self, own: &mut Arc<Shape>) -> Option<Arc<Shape>> {
        match own.ids().len() {
            0 => None,
            1..=SHARED_FIELDS_MAX => Some(self.table().share(own)),
            _ => {
                Arc::make_mut(own).is_settled = true;
                None
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.table().known.len()
    }
}

impl Table {
    fn share(&mut self, own: &Shape) -> Arc<Shape> {
        let room = |place: usize| own.slots()[place].room;
        let before = self.known.get(own.ids()).map(|known| &known.0);
        let is_new = before.is_none();
        let mut shape = match before.filter(|known| known.has_rules_of(own)) {
            Some(known) if known.slots().iter().enumerate().all(|(place, slot)| slot.room >= room(place)) => {
                return Arc::clone(known);
            }
            Some(known) => known.with_rooms(|place| known.slots()[place].room.max(room(place))),
            None => own.with_rooms(room),
        };
        shape.is_settled = true;
        let count = shape.ids().len();
        if is_new && !self.has_room_for(count) {
            return Arc::new(shape.compact());
        }
        let shape = Arc::new(shape);
        self.fields += if is_new { count } else { 0 };
        self.known.replace(ByIds(Arc::clone(&shape)));
        self.last = Some(Arc::clone(&shape));
        shape
    }

    fn has_room_for(&mut self, count: usize) -> bool {
        self.seen += count;
        if self.seen > self.fields_at_sweep + SWEEP_MIN {
            self.last = None;
            self.known.retain(|known| Arc::strong_count(&known.0) > 1);
            self.fields = self.known.iter().map(|known| known.0.ids().len()).sum();
            // The next time as much has come again, so that a look costs each a little.
            (self.seen, self.fields_at_sweep) = (0, self.fields);
        }
        self.fields + count <= FIELDS_MAX
    }
}
