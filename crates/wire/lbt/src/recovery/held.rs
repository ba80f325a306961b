use crate::delivery::Delivered;
use crate::wire::lbmc::Headers;
use std::collections::VecDeque;

/// Whole live messages that wait behind a gap, oldest first: one run of bytes.
#[derive(Default)]
pub(super) struct HeldMessages {
    bytes: Vec<u8>,
    /// Where the oldest begins.
    head: usize,
    messages: VecDeque<Held>,
}

struct Held {
    chain_first: u8,
    chain_len: u32,
    payload_len: u32,
    recovered: bool,
}

/// The oldest message.
pub(super) struct HeldMessage<'a> {
    pub(super) headers: Headers<'a>,
    pub(super) payload: &'a [u8],
    pub(super) recovered: bool,
}

/// Bytes that are kept while nothing is held, and bytes that may lie unused before the oldest.
const KEPT_MAX: usize = 1 << 18;

impl HeldMessages {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that a message takes.
    pub(super) fn bytes_of(message: &Delivered<'_>) -> usize {
        message.headers.parts().1.len() + message.payload.len()
    }

    pub(super) fn push(&mut self, message: &Delivered<'_>) {
        let (chain_first, chain) = message.headers.parts();
        self.bytes.extend_from_slice(chain);
        self.bytes.extend_from_slice(message.payload);
        self.messages.push_back(Held {
            chain_first,
            chain_len: chain.len() as u32,
            payload_len: message.payload.len() as u32,
            recovered: message.recovered,
        });
    }

    pub(super) fn front(&self) -> Option<HeldMessage<'_>> {
        let held = self.messages.front()?;
        let (chain, rest) = self.bytes[self.head..].split_at(held.chain_len as usize);
        let payload = &rest[..held.payload_len as usize];
        let headers = Headers::from_checked(held.chain_first, chain);
        Some(HeldMessage { headers, payload, recovered: held.recovered })
    }

    /// Drops the oldest; returns how many bytes it took.
    pub(super) fn pop(&mut self) -> usize {
        let Some(held) = self.messages.pop_front() else { return 0 };
        let len = held.chain_len as usize + held.payload_len as usize;
        self.head += len;
        if self.messages.is_empty() {
            (self.head, self.bytes) = (0, std::mem::take(&mut self.bytes));
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_MAX);
        } else if self.head > KEPT_MAX && self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.messages.capacity() * size_of::<Held>()
    }
}
