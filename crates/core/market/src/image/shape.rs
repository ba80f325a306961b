use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::index::Index;
use super::rules::RuleTable;

/// What the images of one record template have in common: which fields there are, in which order they first
/// came, where each value stands in the image's block of bytes, and where old values ripple to.
///
/// A shape that images share never changes. One that is being made belongs to one image.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// What it was made by.
    rules: Arc<RuleTable>,
    ids: Vec<i16>,
    slots: Vec<Slot>,
    index: Index,
    /// Which field came behind another one the last time, in an update of an image of this shape: where to look
    /// first. Behind the fields, the one that an update began with. A wrong one costs a search.
    followers: Followers,
    /// All slots together, and so much behind the last that the longest could be read in its place.
    slots_bytes: usize,
    /// It is as it will stay.
    pub(super) is_settled: bool,
    /// Slots stand one behind the other and say where they ripple to.
    is_laid_out: bool,
}

#[derive(Debug, Default)]
struct Followers(Box<[AtomicU16]>);

impl Followers {
    /// Fields follow each other as they do in an image.
    fn of(count: usize) -> Followers {
        let next = |place| if place < count { place + 1 } else { 0 };
        Followers((0..=count).map(|place| AtomicU16::new(next(place) as u16)).collect())
    }
}

impl Clone for Followers {
    /// Shapes that are being made have none.
    fn clone(&self) -> Followers {
        Followers::default()
    }
}

/// Where a value stands: a byte for its length, then its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: i16,
    pub(super) at: u32,
    pub(super) room: u8,
    pub(super) is_rmtes: bool,
    /// The place of the field that takes the old value, or [`NOWHERE`], or [`RING`].
    pub(super) next: u16,
}

/// The old value is dropped.
pub(super) const NOWHERE: u16 = u16::MAX;
/// The chain comes back to a field that it has passed.
pub(super) const RING: u16 = u16::MAX - 1;

/// A value that needs more stands behind the slots.
pub(super) const ROOM_MAX: usize = 15;
/// A slot has so much at least where its value stands behind the slots.
pub(super) const ROOM_OF_LONG: usize = 7;
/// The longest slot.
pub(super) const SLOT_MAX: usize = ROOM_MAX + 1;
/// Slots are as long as a multiple of this.
const SLOT_STEP: usize = 4;
/// A field list has a 16-bit count of entries.
pub(super) const FIELDS_MAX: usize = u16::MAX as usize;
/// The most times one value ripples on; dictionaries have chains of five.
pub(super) const RIPPLE_MAX: usize = 16;

impl Slot {
    /// The bytes it takes.
    #[inline]
    pub(super) fn bytes(self) -> usize {
        usize::from(self.room) + 1
    }
}

/// The room for a value of this length: as much as it takes, up to the end of a step, so that a price that
/// gains a digit mostly stays where it is.
pub(super) fn room_for(length: usize) -> u8 {
    let room = if length > ROOM_MAX { ROOM_OF_LONG } else { (length + 1).next_multiple_of(SLOT_STEP) - 1 };
    room as u8
}

impl Shape {
    /// One without fields.
    pub(super) fn new(rules: &Arc<RuleTable>) -> Shape {
        Shape {
            rules: Arc::clone(rules),
            ids: Vec::new(),
            slots: Vec::new(),
            index: Index::default(),
            followers: Followers::default(),
            slots_bytes: 0,
            is_settled: false,
            is_laid_out: false,
        }
    }

    /// The same fields with other rooms, one slot behind the other.
    pub(super) fn with_rooms(&self, room: impl Fn(usize) -> u8) -> Shape {
        let mut shape = self.clone();
        for (place, slot) in shape.slots.iter_mut().enumerate() {
            slot.room = room(place);
        }
        shape.link();
        shape.place_slots();
        shape.followers = Followers::of(shape.ids.len());
        shape.is_laid_out = true;
        shape
    }

    /// The same with slots that stand one behind the other.
    pub(super) fn laid_out(&self) -> Shape {
        let mut shape = self.clone();
        shape.place_slots();
        shape
    }

    /// The same fields by other rules.
    pub(super) fn with_rules(&self, rules: &Arc<RuleTable>) -> Shape {
        let mut shape =
            Shape { rules: Arc::clone(rules), is_settled: false, is_laid_out: false, ..self.clone() };
        for (slot, id) in shape.slots.iter_mut().zip(&shape.ids) {
            (slot.is_rmtes, slot.next) = (rules.is_rmtes(*id), NOWHERE);
        }
        shape
    }

    /// The same without what is of use only if it is shared.
    pub(super) fn compact(mut self) -> Shape {
        self.index.sort();
        self.ids.shrink_to_fit();
        self.slots.shrink_to_fit();
        self
    }

    #[inline]
    pub(super) fn is_by(&self, rules: &Arc<RuleTable>) -> bool {
        Arc::ptr_eq(&self.rules, rules)
    }

    pub(super) fn has_rules_of(&self, other: &Shape) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
    }

    #[inline]
    pub(super) fn is_laid_out(&self) -> bool {
        self.is_laid_out
    }

    #[inline]
    pub(super) fn ids(&self) -> &[i16] {
        &self.ids
    }

    #[inline]
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    #[inline]
    pub(super) fn slots_bytes(&self) -> usize {
        self.slots_bytes
    }

    #[inline]
    pub(super) fn place(&self, id: i16) -> Option<usize> {
        self.index.place(id)
    }

    /// The place and the slot of a field that comes behind another one in an update.
    #[inline]
    pub(super) fn follow(&self, before: usize, id: i16) -> Option<(usize, Slot)> {
        let follower = self.followers.0.get(before);
        if let Some(place) = follower.map(|place| usize::from(place.load(Ordering::Relaxed)))
            && let Some(slot) = self.slots.get(place)
            && slot.id == id
        {
            return Some((place, *slot));
        }
        let place = self.place(id)?;
        if let Some(follower) = follower {
            follower.store(place as u16, Ordering::Relaxed);
        }
        Some((place, self.slots[place]))
    }

    /// Adds a field whose slot begins there.
    pub(super) fn push(&mut self, id: i16, at: u32, room: u8) -> Slot {
        let slot = Slot { id, at, room, is_rmtes: self.rules.is_rmtes(id), next: NOWHERE };
        self.index.insert(id, self.ids.len() as u16);
        self.ids.push(id);
        self.slots.push(slot);
        self.slots_bytes += slot.bytes();
        self.is_laid_out = false;
        slot
    }

    /// Gives a field another slot.
    pub(super) fn relocate(&mut self, place: usize, at: u32, room: u8) -> Slot {
        self.is_laid_out = false;
        let slot = &mut self.slots[place];
        self.slots_bytes -= slot.bytes();
        (slot.at, slot.room) = (at, room);
        self.slots_bytes += slot.bytes();
        *slot
    }

    /// Puts one slot behind the other.
    fn place_slots(&mut self) {
        let mut at = 0;
        for slot in &mut self.slots {
            slot.at = at as u32;
            at += slot.bytes();
        }
        self.slots_bytes = at + SLOT_MAX - SLOT_STEP;
    }

    /// Notes where values ripple to, and gives each field room for what ripples to it.
    fn link(&mut self) {
        if !self.rules.ripples() {
            return;
        }
        for place in 0..self.ids.len() {
            let next = self.rules.ripples_to(self.ids[place]).and_then(|to| self.place(to));
            // The last two numbers mean something else: images so large are not laid out.
            self.slots[place].next = next.map_or(NOWHERE, |next| next as u16);
        }
        let is_ring: Vec<bool> = (0..self.ids.len()).map(|place| self.is_ring(place)).collect();
        let ends_in_ring = |place: usize| is_ring[place] || self.chain(place).any(|next| is_ring[next]);
        let rings: Vec<usize> = (0..self.ids.len()).filter(|place| ends_in_ring(*place)).collect();
        for place in 0..self.ids.len() {
            let room = self.slots[place].room;
            for next in self.chain(place).collect::<Vec<_>>() {
                self.slots[next].room = self.slots[next].room.max(room);
            }
        }
        rings.into_iter().for_each(|place| self.slots[place].next = RING);
    }

    /// The fields that a value ripples along.
    fn chain(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let next = |place: &usize| {
            let next = usize::from(self.slots[*place].next);
            (next < self.slots.len()).then_some(next)
        };
        std::iter::successors(Some(place), next).skip(1).take(RIPPLE_MAX - 1)
    }

    /// Whether there are ripples at all.
    #[inline]
    pub(super) fn ripples(&self) -> bool {
        self.rules.ripples()
    }

    /// Gives the fields that an old value ripples along, each perhaps more than once.
    #[inline]
    pub(super) fn each_along(&self, place: usize, mut each: impl FnMut(usize)) {
        match self.slots[place].next {
            NOWHERE if self.is_laid_out => {}
            RING => self.each_along_rules(place, each),
            _ if !self.is_laid_out => self.each_along_rules(place, each),
            _ => self.chain(place).for_each(&mut each),
        }
    }

    /// The same without links.
    #[cold]
    fn each_along_rules(&self, place: usize, mut each: impl FnMut(usize)) {
        let mut from = self.ids[place];
        for _ in 1..RIPPLE_MAX {
            let Some(to) = self.rules.ripples_to(from) else { return };
            let Some(place) = self.place(to) else { return };
            each(place);
            from = to;
        }
    }

    fn is_ring(&self, place: usize) -> bool {
        let mut seen = vec![place];
        for next in self.chain(place) {
            if seen.contains(&next) {
                return true;
            }
            seen.push(next);
        }
        false
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let (ids, slots) = (self.ids.capacity() * 2, self.slots.capacity() * size_of::<Slot>());
        size_of::<Shape>() + ids + slots + self.followers.0.len() * 2 + self.index.memory_bytes()
    }
}

/// A shape in a table, found by its ids.
#[derive(Debug)]
pub(super) struct ByIds(pub(super) Arc<Shape>);

impl Borrow<[i16]> for ByIds {
    fn borrow(&self) -> &[i16] {
        self.0.ids()
    }
}

impl PartialEq for ByIds {
    fn eq(&self, other: &ByIds) -> bool {
        self.0.ids() == other.0.ids()
    }
}

impl Eq for ByIds {}

impl Hash for ByIds {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.ids().hash(state);
    }
}
