/// Where each field is: from id to place.
///
/// A table of cells that is searched from where an id's number points to, a few cells at most. Ids that were
/// chosen to meet at one cell, and shapes that nobody shares, get a sorted table instead: it is smaller, and a
/// search takes some steps more.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    cells: Vec<Cell>,
    is_sorted: bool,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    id: i16,
    place: u16,
}

const FREE: Cell = Cell { id: 0, place: u16::MAX };
/// The longest search.
const PROBES_MAX: usize = 16;
const CELLS_MIN: usize = 8;
/// So many cells have one for each id.
const CELLS_MAX: usize = 1 << 16;
/// Odd, so that no two ids are the same; 2^16 divided by the golden ratio.
const MULTIPLIER: u16 = 0x9E37;

impl Index {
    #[inline]
    pub(super) fn place(&self, id: i16) -> Option<usize> {
        if let Some(cell) = self.cells.get(self.begin(id))
            && cell.id == id
            && cell.place != FREE.place
            && !self.is_sorted
        {
            return Some(cell.place.into());
        }
        self.search(id)
    }

    fn search(&self, id: i16) -> Option<usize> {
        if self.is_sorted {
            let found = self.cells.binary_search_by_key(&id, |cell| cell.id);
            return found.ok().map(|at| self.cells[at].place.into());
        }
        let places = self.probes(id).map(|at| self.cells[at]).take_while(|cell| cell.place != FREE.place);
        places.filter(|cell| cell.id == id).map(|cell| cell.place.into()).next()
    }

    /// Where the search for an id begins.
    #[inline]
    fn begin(&self, id: i16) -> usize {
        let bits = self.cells.len().trailing_zeros() & 31;
        ((u32::from((id as u16).wrapping_mul(MULTIPLIER)) << bits) >> 16) as usize
    }

    fn probes(&self, id: i16) -> impl Iterator<Item = usize> + use<> {
        let (begin, len) = (self.begin(id), self.cells.len());
        (0..PROBES_MAX.min(len)).map(move |step| (begin + step) & (len - 1))
    }

    /// Adds an id that is not there.
    pub(super) fn insert(&mut self, id: i16, place: u16) {
        self.count += 1;
        let cell = Cell { id, place };
        if self.is_sorted {
            let at = self.cells.partition_point(|other| other.id < id);
            self.cells.insert(at, cell);
            return;
        }
        if self.cells.len() < CELLS_MAX && self.count * 2 > self.cells.len() {
            self.resize((self.cells.len() * 2).max(CELLS_MIN));
        }
        if !self.is_sorted && self.set(cell) {
            return;
        }
        // Twice as many cells may be enough.
        if !self.is_sorted && self.cells.len() < CELLS_MAX.min(self.count * 4) {
            self.resize(self.cells.len() * 2);
            if !self.is_sorted && self.set(cell) {
                return;
            }
        }
        if !self.is_sorted {
            self.sort();
        }
        let at = self.cells.partition_point(|other| other.id < id);
        self.cells.insert(at, cell);
    }

    /// Returns false if all cells where it could be are taken.
    fn set(&mut self, cell: Cell) -> bool {
        let free = self.probes(cell.id).find(|at| self.cells[*at].place == FREE.place);
        if let Some(at) = free {
            self.cells[at] = cell;
        }
        free.is_some()
    }

    fn resize(&mut self, len: usize) {
        let old = std::mem::replace(&mut self.cells, vec![FREE; len]);
        let taken = || old.iter().filter(|cell| cell.place != FREE.place);
        if taken().all(|cell| self.set(*cell)) {
            return;
        }
        self.cells = taken().copied().collect();
        self.sort();
    }

    /// Makes the table as small as it can be.
    pub(super) fn sort(&mut self) {
        if self.is_sorted {
            return;
        }
        self.cells.retain(|cell| cell.place != FREE.place);
        self.cells.sort_unstable_by_key(|cell| cell.id);
        self.cells.shrink_to_fit();
        self.is_sorted = true;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_finds(ids: impl Iterator<Item = i16> + Clone) -> bool {
        let mut index = Index::default();
        for (place, id) in ids.clone().enumerate() {
            assert_eq!(index.place(id), None);
            index.insert(id, place as u16);
        }
        let is_sorted = index.is_sorted;
        for _ in 0..2 {
            for (place, id) in ids.clone().enumerate() {
                assert_eq!(index.place(id), Some(place), "{id}");
            }
            index.sort();
        }
        is_sorted
    }

    #[test]
    fn every_id_is_found_where_it_was_put() {
        assert!(!assert_finds(0..0));
        assert!(!assert_finds(-50..50));
        assert!(!assert_finds(i16::MIN..i16::MAX));
        for step in [3, 100, 7_919, 30_011] {
            assert_finds((0..3_000i16).map(|n| n.wrapping_mul(step | 1)));
        }
    }

    #[test]
    fn ids_that_meet_at_one_cell_are_found_too() {
        let inverse = (0..=u16::MAX).find(|n| n.wrapping_mul(MULTIPLIER) == 1).expect("it is odd");
        // All point to the first cells, of however many.
        assert!(assert_finds((0..300u16).map(|n| n.wrapping_mul(inverse) as i16)));
    }
}
