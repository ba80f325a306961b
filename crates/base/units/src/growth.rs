//! How far a flat table grows that many things are kept in.

/// A table below this grows as others do: twice as long, copied.
const COPIED_MAX: usize = 4 << 20;
/// What allocators take from the kernel as a mapping of its own whatever came before (glibc: 32 MiB and more), and
/// lengthen without a copy.
const MAPPED: usize = 64 << 20;

/// Places to reserve, besides those in use, in a full table of `len` values of `size` bytes each; zero where the table
/// may grow by itself.
///
/// Twice as long each time means that one insertion copies millions of values, in tens of milliseconds. A table of
/// some MiB therefore takes a mapping of its own at once. Pages that nothing was written to take no memory, and a longer
/// mapping is the same pages elsewhere.
#[must_use]
pub fn places_to_reserve(len: usize, size: usize) -> usize {
    let bytes = len.saturating_mul(size);
    if (COPIED_MAX..MAPPED).contains(&bytes) { (MAPPED - bytes).div_ceil(size) } else { 0 }
}

/// [`places_to_reserve`] for a vector that is about to get one more value.
#[inline]
pub fn reserve_for_push<T>(table: &mut Vec<T>) {
    if table.len() == table.capacity() {
        table.reserve_exact(places_to_reserve(table.len(), size_of::<T>()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_copied_while_it_is_short_and_never_after() {
        let (mut table, mut copied) = (Vec::new(), 0);
        for i in 0..6_000_000_u64 {
            let before = table.capacity();
            reserve_for_push(&mut table);
            table.push(i);
            if table.capacity() != before && before * 8 < MAPPED {
                copied = before * 8;
            }
        }
        assert_eq!(copied, COPIED_MAX);
        assert_eq!(table.capacity() * 8, MAPPED);
    }

    #[test]
    fn what_has_no_size_needs_no_room() {
        assert_eq!(places_to_reserve(usize::MAX, 0), 0);
        assert_eq!((places_to_reserve(10, 8), places_to_reserve(1 << 30, 8)), (0, 0));
    }
}
