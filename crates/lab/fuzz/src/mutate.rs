//! Changes of bytes in the ways in which they go wrong.

use units::Rng;

/// Numbers at the edges of what lengths, counts and sizes can say.
const EDGES: [u32; 16] = [
    0,
    1,
    2,
    3,
    0x7f,
    0x80,
    0xfd,
    0xfe,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x00ff_ffff,
    0x3fff_ffff,
    0x7fff_ffff,
    0xffff_ffff,
];

/// The longest piece that is copied, moved or filled at once.
const PIECE_BYTES_MAX: u64 = 64;

/// Changes `bytes` in place, once or a few times; `other` lends pieces. Never longer than `longest_bytes`.
pub(crate) fn mutate(bytes: &mut Vec<u8>, other: &[u8], longest_bytes: usize, rng: &mut Rng) {
    // Half of the inputs have one change: of those most are still taken.
    let more = match rng.below(10) {
        0 => 16,
        1..=4 => 4,
        _ => 0,
    };
    for _ in 0..=rng.below(more) {
        once(bytes, other, rng);
    }
    bytes.truncate(longest_bytes);
}

fn once(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    match rng.below(10) {
        0 => change(bytes, at, |byte, rng| byte ^ (1 << rng.below(8)), rng),
        1 => change(bytes, at, |_, rng| rng.next_u64() as u8, rng),
        2 => change(bytes, at, |byte, rng| byte.wrapping_add(rng.below(9) as u8).wrapping_sub(4), rng),
        3 | 4 => edge(bytes, at, rng),
        5 => bytes.truncate(at),
        6 => insert(bytes, at, &rng.next_u64().to_be_bytes()[..1 + rng.below(8) as usize]),
        7 => drop(bytes.drain(at..at + piece(bytes.len() - at, rng))),
        8 => {
            let copy = bytes[at..at + piece(bytes.len() - at, rng)].to_vec();
            insert(bytes, rng.below(bytes.len() as u64 + 1) as usize, &copy);
        }
        _ => splice(bytes, at, other, rng),
    }
}

fn change(bytes: &mut [u8], at: usize, to: impl FnOnce(u8, &mut Rng) -> u8, rng: &mut Rng) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = to(*byte, rng);
    }
}

/// Puts an edge in place of one, two or four bytes.
fn edge(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let value = EDGES[rng.below(EDGES.len() as u64) as usize].to_be_bytes();
    let width = (1 << rng.below(3)).min(bytes.len() - at);
    bytes[at..at + width].copy_from_slice(&value[4 - width..]);
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

/// Puts a piece of another input in place of what is there, or between it.
fn splice(bytes: &mut Vec<u8>, at: usize, other: &[u8], rng: &mut Rng) {
    let from = rng.below(other.len() as u64 + 1) as usize;
    let taken = &other[from..from + piece(other.len() - from, rng)];
    let replaced = if rng.chance(0.5) { taken.len().min(bytes.len() - at) } else { 0 };
    bytes.splice(at..at + replaced, taken.iter().copied());
}

fn piece(left: usize, rng: &mut Rng) -> usize {
    rng.below((left as u64).min(PIECE_BYTES_MAX) + 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_follow_from_the_seed_stay_within_the_length_and_differ() {
        let _repeat = testkit::repeat!();
        let all = |seed| {
            let mut rng = Rng::new(seed);
            let one = |rng: &mut Rng| {
                let mut bytes = b"some input of a few bytes".to_vec();
                mutate(&mut bytes, b"another", 40, rng);
                bytes
            };
            (0..2000).map(|_| one(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        let made = all(2);
        assert!(made.iter().all(|bytes| bytes.len() <= 40));
        let distinct: std::collections::HashSet<_> = made.iter().collect();
        assert!(distinct.len() > 1500, "{} different ones", distinct.len());
    }

    #[test]
    fn nothing_can_be_changed_too() {
        let _repeat = testkit::repeat!();
        let mut rng = Rng::new(3);
        for _ in 0..2000 {
            mutate(&mut Vec::new(), &[], 40, &mut rng);
        }
    }
}
