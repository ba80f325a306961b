use crate::delivery::Delivered;
use crate::wire::lbmc::Headers;
use std::collections::BTreeMap;

/// Messages that wait for a number before them.
#[derive(Default)]
pub(super) struct Hold {
    messages: BTreeMap<u64, Held>,
    bytes: usize,
    /// Buffers for later use.
    spare: Vec<Vec<u8>>,
}

/// One message, and what is known of the numbers between it and the one before it.
pub(super) struct Held {
    message: Delivered<'static>,
    chain_first: u8,
    chain_len: usize,
    /// Chain, then payload.
    bytes: Vec<u8>,
    /// A source passed over the gap before it and lacked nothing there.
    pub(super) is_clean: bool,
}

impl Held {
    /// The message as it came.
    pub(super) fn message(&self) -> Delivered<'_> {
        let (chain, payload) = self.bytes.split_at(self.chain_len);
        Delivered { payload, headers: Headers::from_checked(self.chain_first, chain), ..self.message }
    }
}

/// Buffers kept for later use, and the largest that is kept.
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 1 << 16;

impl Hold {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.messages.contains_key(&number)
    }

    pub(super) fn first(&self) -> Option<(u64, &Held)> {
        self.messages.first_key_value().map(|(&number, held)| (number, held))
    }

    /// The messages with numbers from `first` to `last`, for what is learnt of the gaps before them.
    pub(super) fn range_mut(&mut self, first: u64, last: u64) -> impl Iterator<Item = &mut Held> {
        self.messages.range_mut(first..=last).map(|(_, held)| held)
    }

    /// Keeps a copy. What was known of the gap that it splits is known of both parts.
    pub(super) fn insert(&mut self, number: u64, message: &Delivered<'_>) {
        let (chain_first, chain) = message.headers.parts();
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(chain);
        bytes.extend_from_slice(message.payload);
        self.bytes += bytes.len();
        let is_clean = self.messages.range(number..).next().is_some_and(|(_, held)| held.is_clean);
        let message = Delivered { payload: &[], headers: Headers::NONE, ..*message };
        let held = Held { message, chain_first, chain_len: chain.len(), bytes, is_clean };
        self.messages.insert(number, held);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Held)> {
        let (number, held) = self.messages.pop_first()?;
        self.bytes -= held.bytes.len();
        Some((number, held))
    }

    /// Takes the memory of a message back.
    pub(super) fn recycle(&mut self, held: Held) {
        if self.spare.len() < SPARE_MAX && held.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(held.bytes);
        }
    }
}
