//! What of a connection's output is given back while more waits.

/// As much memory as a connection keeps for its output, whatever waited before.
const KEPT_BYTES: usize = 1 << 20;

/// Frees what the socket has taken of `out`, that is `sent` bytes, once that is the greater part: a peer that always
/// has something asked for costs what waits for it, not what it has ever read. Each byte is moved once at most on
/// the average.
pub(super) fn release_sent(out: &mut Vec<u8>, sent: &mut usize) {
    let waits = out.len() - *sent;
    if waits > 0 && (*sent < KEPT_BYTES || *sent < waits) {
        return;
    }
    out.drain(..*sent);
    *sent = 0;
    if out.capacity() > KEPT_BYTES && out.capacity() / 4 > waits {
        out.shrink_to((2 * waits).max(KEPT_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_never_ends_takes_as_much_memory_as_what_waits() {
        let (mut out, mut sent, mut moved, mut total) = (Vec::new(), 0, 0, 0);
        let mut next_expected: u32 = 0;
        let mut next: u32 = 0;
        for _ in 0..1_000 {
            out.extend((0..10_000).flat_map(|i| (next + i).to_be_bytes()));
            next += 10_000;
            // The peer takes as much as comes, and 1 MiB waits.
            let taken = (out.len() - sent).saturating_sub(1 << 20);
            for word in out[sent..sent + taken].chunks(4) {
                assert_eq!(word, next_expected.to_be_bytes());
                next_expected += 1;
            }
            (sent, total) = (sent + taken, total + taken);
            let before = out.len();
            release_sent(&mut out, &mut sent);
            moved += if out.len() < before { out.len() } else { 0 };
        }
        assert!(total > 38_000_000);
        assert!(out.capacity() <= 8 << 20, "{} bytes are kept", out.capacity());
        assert!(moved <= total, "{moved} bytes were moved for {total} sent");
    }

    #[test]
    fn after_a_burst_the_memory_is_given_back() {
        let (mut out, mut sent) = (vec![7; 64 << 20], 64 << 20);
        release_sent(&mut out, &mut sent);
        assert_eq!((out.len(), sent), (0, 0));
        assert!(out.capacity() <= KEPT_BYTES);
    }
}
