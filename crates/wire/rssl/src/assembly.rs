use crate::{FrameError, Limits};

/// Buffers up to this size stay with their slot when a message is complete, so that a stream of fragmented
/// messages needs no allocation for each.
pub(crate) const SLOT_KEEPS_BYTES: usize = 128 << 10;

/// What a slot uses itself; the table doubles, hence twice.
pub(crate) const SLOT_BYTES: usize = 2 * size_of::<Slot>();

/// First allocation of a slot; it doubles from there, never beyond what was announced.
const SLOT_STARTS_BYTES: usize = 16 << 10;

/// Puts fragmented messages together: a table by fragment id.
///
/// Memory: at most `fragmented_bytes_max` announced bytes plus [`SLOT_KEEPS_BYTES`] for each of
/// `fragmented_open_max` slots. It is taken as the bytes arrive, not as they are announced.
#[derive(Debug)]
pub(crate) struct Assembly {
    slots: Vec<Slot>,
    announced_bytes: u64,
    limits: Limits,
    used: bool,
}

#[derive(Debug, Default)]
struct Slot {
    id: Option<u16>,
    total_bytes: u32,
    message: Vec<u8>,
}

/// Index of a slot whose message is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complete(usize);

/// What a further fragment did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// The message needs more.
    Open,
    /// The message is complete: read it with [`Assembly::message`], then [`Assembly::release`] it.
    Complete(Complete),
    /// No message is open under this id; the fragment was dropped.
    Unknown,
}

impl Assembly {
    pub(crate) fn new(limits: Limits) -> Assembly {
        Assembly { slots: Vec::new(), announced_bytes: 0, limits, used: false }
    }

    /// Opens a message with its first fragment, which is shorter than the message. Tells whether an
    /// unfinished message under the same id was given up for it.
    pub(crate) fn first(&mut self, id: u16, total_bytes: u32, data: &[u8]) -> Result<bool, FrameError> {
        let replaced = self.give_up(id);
        let announced = self.announced_bytes + u64::from(total_bytes);
        if announced > self.limits.fragmented_bytes_max {
            let limit_bytes = self.limits.fragmented_bytes_max;
            return Err(FrameError::FragmentBytes { bytes: announced, limit_bytes });
        }
        let slot = self.free_slot()?;
        slot.id = Some(id);
        slot.total_bytes = total_bytes;
        slot.append(data);
        self.announced_bytes = announced;
        self.used = true;
        Ok(replaced)
    }

    /// Adds a further fragment.
    pub(crate) fn next(&mut self, id: u16, data: &[u8]) -> Result<Progress, FrameError> {
        let Some(index) = self.find(id) else { return Ok(Progress::Unknown) };
        let slot = &mut self.slots[index];
        let bytes = slot.message.len() + data.len();
        let total = slot.total_bytes as usize;
        if bytes > total {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            return Err(FrameError::FragmentOverrun { id, bytes, total_bytes: slot.total_bytes });
        }
        slot.append(data);
        if units::planted(units::Bug::FragmentsTwice) {
            slot.append(data);
        }
        Ok(if bytes == total { Progress::Complete(Complete(index)) } else { Progress::Open })
    }

    /// A message whose last fragment has come.
    pub(crate) fn message(&self, complete: Complete) -> &[u8] {
        &self.slots[complete.0].message
    }

    /// Frees the slot of a message that was delivered.
    pub(crate) fn release(&mut self, complete: Complete) {
        self.free(complete.0);
    }

    /// Gives up the unfinished message under `id`, if there is one.
    pub(crate) fn give_up(&mut self, id: u16) -> bool {
        let found = self.find(id);
        if let Some(index) = found {
            self.free(index);
        }
        found.is_some()
    }

    /// Gives memory back if no message was opened since the last call and none is open.
    pub(crate) fn trim(&mut self) {
        if !self.used && self.announced_bytes == 0 {
            self.slots = Vec::new();
        }
        self.used = false;
    }

    /// Heap memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        let messages: usize = self.slots.iter().map(|s| s.message.capacity()).sum();
        messages + self.slots.capacity() * size_of::<Slot>()
    }

    fn find(&self, id: u16) -> Option<usize> {
        self.slots.iter().position(|s| s.id == Some(id))
    }

    fn free_slot(&mut self) -> Result<&mut Slot, FrameError> {
        let free = self.slots.iter().position(|s| s.id.is_none());
        if free.is_none() && self.slots.len() == usize::from(self.limits.fragmented_open_max) {
            return Err(FrameError::FragmentCount { limit_count: self.limits.fragmented_open_max });
        }
        let index = free.unwrap_or(self.slots.len());
        if free.is_none() {
            self.slots.push(Slot::default());
        }
        Ok(&mut self.slots[index])
    }

    fn free(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.id = None;
        self.announced_bytes -= u64::from(slot.total_bytes);
        slot.message.clear();
        if slot.message.capacity() > SLOT_KEEPS_BYTES {
            slot.message = Vec::new();
        }
    }
}

impl Slot {
    fn append(&mut self, data: &[u8]) {
        let needed = self.message.len() + data.len();
        if needed > self.message.capacity() {
            let doubled = (2 * self.message.capacity()).max(SLOT_STARTS_BYTES).max(needed);
            let target = doubled.min(self.total_bytes as usize);
            self.message.reserve_exact(target - self.message.len());
        }
        self.message.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { fragmented_open_max: 3, fragmented_bytes_max: 100_000, ..Limits::default() }
    }

    fn complete(assembly: &mut Assembly, id: u16, data: &[u8]) -> Vec<u8> {
        let Ok(Progress::Complete(complete)) = assembly.next(id, data) else {
            panic!("message {id} is not complete")
        };
        let message = assembly.message(complete).to_vec();
        assembly.release(complete);
        message
    }

    #[test]
    fn interleaved_messages_come_out_whole() {
        let mut assembly = Assembly::new(limits());
        for id in 1..=3u16 {
            assert_eq!(assembly.first(id, 4, &[id as u8; 1]), Ok(false));
        }
        for id in 1..=3u16 {
            assert!(matches!(assembly.next(id, &[id as u8; 2]), Ok(Progress::Open)));
        }
        for id in [2, 3, 1u16] {
            assert_eq!(complete(&mut assembly, id, &[id as u8]), [id as u8; 4]);
        }
        assert_eq!(assembly.announced_bytes, 0);
    }

    #[test]
    fn an_id_used_again_replaces_the_unfinished_message() {
        let mut assembly = Assembly::new(limits());
        assert_eq!(assembly.first(7, 90_000, &[1]), Ok(false));
        assert_eq!(assembly.first(7, 50_000, &[2]), Ok(true));
        assert_eq!(assembly.announced_bytes, 50_000);
        assert_eq!(assembly.first(7, 2, &[3]), Ok(true));
        assert_eq!(complete(&mut assembly, 7, &[4]), [3, 4]);
    }

    #[test]
    fn a_fragment_of_no_message_is_dropped() {
        let mut assembly = Assembly::new(limits());
        assert!(matches!(assembly.next(1, &[1]), Ok(Progress::Unknown)));
        assembly.first(1, 2, &[1]).expect("the limits allow it");
        complete(&mut assembly, 1, &[1]);
        assert!(matches!(assembly.next(1, &[1]), Ok(Progress::Unknown)), "an id ends with its message");
    }

    #[test]
    fn more_than_announced_is_refused() {
        let mut assembly = Assembly::new(limits());
        assembly.first(1, 3, &[1, 1]).expect("the limits allow it");
        let error = assembly.next(1, &[1, 1]).expect_err("four of three bytes");
        assert_eq!(error, FrameError::FragmentOverrun { id: 1, bytes: 4, total_bytes: 3 });
    }

    #[test]
    fn open_messages_and_announced_bytes_are_bounded() {
        let mut assembly = Assembly::new(limits());
        assembly.first(1, 99_998, &[1]).expect("the limits allow it");
        let error = assembly.first(2, 3, &[1]).expect_err("one byte too much");
        assert_eq!(error, FrameError::FragmentBytes { bytes: 100_001, limit_bytes: 100_000 });
        assembly.first(2, 1, &[]).expect("the limits allow it");
        assembly.first(3, 1, &[]).expect("the limits allow it");
        assert_eq!(assembly.first(4, 0, &[]), Err(FrameError::FragmentCount { limit_count: 3 }));
    }

    #[test]
    fn memory_is_taken_as_bytes_arrive_and_never_beyond_the_announcement() {
        let mut assembly = Assembly::new(limits());
        assembly.first(1, 99_000, &[1; 6137]).expect("the limits allow it");
        let table = assembly.slots.capacity() * size_of::<Slot>();
        assert_eq!(assembly.memory_bytes() - table, SLOT_STARTS_BYTES);
        for _ in 0..15 {
            assert!(matches!(assembly.next(1, &[1; 6141]), Ok(Progress::Open)));
        }
        assert_eq!(assembly.memory_bytes() - table, 99_000);
    }

    #[test]
    fn buffers_are_used_again_and_given_back_when_idle() {
        let mut assembly = Assembly::new(limits());
        assembly.first(1, 20_000, &[1; 6137]).expect("the limits allow it");
        complete(&mut assembly, 1, &[1; 20_000 - 6137]);
        let held = assembly.memory_bytes();
        for id in 2..100 {
            assembly.first(id, 20_000, &[1; 6137]).expect("the limits allow it");
            complete(&mut assembly, id, &[1; 20_000 - 6137]);
            assert_eq!(assembly.memory_bytes(), held);
        }
        assembly.trim();
        assert_eq!(assembly.memory_bytes(), held, "used since the last call");
        assembly.trim();
        assert_eq!(assembly.memory_bytes(), 0);
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let mut assembly = Assembly::new(Limits::default());
        assembly.first(1, 1 << 20, &[1; 10]).expect("the limits allow it");
        complete(&mut assembly, 1, &vec![1; (1 << 20) - 10]);
        assert!(assembly.memory_bytes() <= assembly.slots.capacity() * size_of::<Slot>());
    }
}
