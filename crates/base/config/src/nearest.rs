//! The known name that an unknown one was probably meant to be.

/// Longest name that is compared; longer ones are no slips of the finger.
const NAME_CHARS_MAX: usize = 64;

/// The candidate nearest to `name`, if one is near enough: at most a third of its characters differ.
///
/// Case and the choice between `-` and `_` do not count as differences. Of equally near ones the first is
/// taken.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = folded(name);
    if name.len() > NAME_CHARS_MAX {
        return None;
    }
    let distances = candidates.into_iter().map(|candidate| {
        let other = folded(candidate);
        (distance(&name, &other), name.len().max(other.len()), candidate)
    });
    let near = distances.filter(|&(distance, length, _)| distance <= (length / 3).max(1));
    near.min_by_key(|&(distance, ..)| distance).map(|(.., candidate)| candidate)
}

fn folded(name: &str) -> Vec<char> {
    name.chars()
        .take(NAME_CHARS_MAX + 1)
        .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
        .collect()
}

/// Insertions, deletions, substitutions and swaps of neighbours that lead from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance_of(a: &str, b: &str) -> usize {
        distance(&folded(a), &folded(b))
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        assert_eq!(distance_of("prot", "port"), 1);
        assert_eq!(distance_of("", "abc"), 3);
        assert_eq!(distance_of("abc", ""), 3);
        assert_eq!(distance_of("kitten", "sitting"), 3);
        assert_eq!(distance_of("Item-Linger-MS", "item_linger_ms"), 0);
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let known = ["port", "item_linger_ms", "interfaces"];
        assert_eq!(nearest("prot", known), Some("port"));
        assert_eq!(nearest("item_linger", known), Some("item_linger_ms"));
        assert_eq!(nearest("ib", ["id"]), Some("id"));
        assert_eq!(nearest("xy", ["id"]), None);
        assert_eq!(nearest("bandwidth", known), None);
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
        assert_eq!(nearest("", known), None);
    }
}
