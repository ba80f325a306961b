use std::collections::VecDeque;

/// The payloads of dictionaries in one form, and in the form that they were made into: RWF and JSON, JSON and
/// compressed.
///
/// There are two dictionaries in four verbosities; what was used last stays.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    known: VecDeque<Known>,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    from: Box<[u8]>,
    made: Box<[u8]>,
}

/// Most bytes that are kept, of both together.
const KEPT_BYTES: usize = 64 << 20;

impl Dictionaries {
    /// What a payload was made into, if that was kept.
    pub(crate) fn find(&mut self, from: &[u8]) -> Option<&[u8]> {
        let at = self.known.iter().position(|known| *known.from == *from)?;
        let known = self.known.remove(at)?;
        self.known.push_front(known);
        self.known.front().map(|known| &*known.made)
    }

    /// Keeps what a payload was made into; what was not used for longest makes room.
    pub(crate) fn keep(&mut self, from: &[u8], made: &[u8]) {
        self.bytes += from.len() + made.len();
        self.known.push_front(Known { from: from.into(), made: made.into() });
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.known.pop_back()
        {
            self.bytes -= oldest.from.len() + oldest.made.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept_within_the_limit() {
        let mut dictionaries = Dictionaries::default();
        let payload = |n: u8| vec![n; KEPT_BYTES / 8];
        for n in 0..3 {
            dictionaries.keep(&payload(n), &payload(n + 100));
        }
        assert_eq!(dictionaries.find(&payload(0)), Some(&payload(100)[..]));
        dictionaries.keep(&payload(3), &payload(103));
        dictionaries.keep(&payload(4), &payload(104));
        assert_eq!(dictionaries.find(&payload(1)), None, "it was not used for longest");
        assert_eq!(dictionaries.find(&payload(0)), Some(&payload(100)[..]));
        dictionaries.keep(&[9; KEPT_BYTES], b"");
        assert_eq!(dictionaries.find(&payload(0)), None);
    }
}
