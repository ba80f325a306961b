//! A ring without the file, its locks and its sockets: what is fuzzed.

use std::sync::Arc;

use units::Nanos;

use super::layout::{CONTROL_BYTES, Geometry, Identity, LayoutError};
use super::producer::{ClaimError, Producer};
use super::reader::{Frame, Place, ReadError, Reader};
use super::region::Region;
use super::slots;
use super::source::Pacing;
use super::sync::Acquire;
use super::watch::{ReaderChanges, Watch};

/// A source in memory of this process, with which receivers of this process share it, and anything may be
/// written into it, as other processes could. For tests: all of one ring belongs to one thread.
pub struct BareRing {
    producer: Producer,
    watch: Watch,
    identity: [u8; Identity::BYTES],
}

/// A receiver of a [`BareRing`].
pub struct BareReceiver {
    reader: Reader,
    slot: Option<(usize, u64)>,
}

impl BareRing {
    /// A ring of `ring_bytes`.
    ///
    /// # Errors
    /// The size is not allowed.
    pub fn new(ring_bytes: u64, pacing: Pacing) -> Result<BareRing, LayoutError> {
        let region = Arc::new(Region::on_heap(Geometry::new(ring_bytes)?));
        Ok(BareRing::over(region, pacing))
    }

    fn over(region: Arc<Region>, pacing: Pacing) -> BareRing {
        let is_receiver_paced = matches!(pacing, Pacing::Receiver { .. });
        let identity = Identity {
            ring_bytes: region.geometry().ring_bytes(),
            session_id: 0,
            transport_id: 0,
            is_receiver_paced,
            source_pid: 0,
            created_ns: 0,
        };
        BareRing {
            producer: Producer::new(region, is_receiver_paced),
            watch: Watch::new(pacing),
            identity: identity.emit(),
        }
    }

    /// A new ring, in the same memory if its receivers are gone.
    #[must_use]
    pub fn renewed(self, pacing: Pacing) -> BareRing {
        let mut region = Arc::clone(self.producer.region());
        drop(self);
        match Arc::get_mut(&mut region) {
            Some(region) => region.clear(),
            None => region = Arc::new(Region::on_heap(region.geometry())),
        }
        BareRing::over(region, pacing)
    }

    /// As [`Source::push`](super::Source::push).
    ///
    /// # Errors
    /// As there.
    pub fn push(&mut self, tag: u32, message: &[u8]) -> Result<(), ClaimError> {
        let mut claim = self.producer.claim(message.len(), tag)?;
        claim.copy_from_slice(message);
        claim.commit();
        Ok(())
    }

    /// As [`Source::publish`](super::Source::publish); nobody is woken.
    pub fn publish(&mut self) -> bool {
        let is_news = self.producer.publish();
        let _ = self.producer.take_wakes();
        is_news
    }

    /// As [`Source::look_after_readers`](super::Source::look_after_readers). Those of the slots in `dead`, one
    /// bit each, have died.
    pub fn look_after_readers(&mut self, now: Nanos, dead: u64) -> ReaderChanges {
        self.watch.look_after(&self.producer, now, |index, slot, generation| {
            dead >> index & 1 == 1 && slots::reclaim(slot, generation)
        })
    }

    /// Writes into the memory, as another process that has it: `at` counts from the start of its file.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let to_identity = self.identity.iter_mut().skip(at).zip(bytes);
        to_identity.for_each(|(to, from)| *to = *from);
        for (at, byte) in (at..).zip(bytes).skip_while(|(at, _)| *at < Identity::BYTES) {
            self.producer.region().set_byte(at, *byte);
        }
    }

    /// A receiver in the slot `index`, which it only has where the source waits.
    ///
    /// # Errors
    /// What the memory says of itself was spoilt.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn receiver(&self, index: usize) -> Result<BareReceiver, LayoutError> {
        let region = self.producer.region();
        let file_bytes = CONTROL_BYTES as u64 + region.geometry().ring_bytes();
        let found = Identity::parse(&self.identity, file_bytes)?;
        let Identity { session_id, transport_id, .. } = found;
        if (session_id, transport_id) != (0, 0) {
            return Err(LayoutError::OtherSession { session_id, transport_id });
        }
        let (place, slot, start) = if found.is_receiver_paced {
            let (word, start) = slots::join(region.control(), index, 0);
            (Place::Slot { index, word }, Some((index, word)), start)
        } else {
            (Place::copies(region.geometry()), None, region.control().published.0.load(Acquire))
        };
        Ok(BareReceiver { reader: Reader::new(Arc::clone(region), place, start), slot })
    }
}

impl BareReceiver {
    /// As [`Receiver::poll`](super::Receiver::poll).
    ///
    /// # Errors
    /// As there.
    pub fn poll(&mut self, max: usize, handle: impl FnMut(Frame<'_>)) -> Result<usize, ReadError> {
        self.reader.poll(max, handle)
    }

    /// Whether the source has ended the stream and everything was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.reader.has_closed() && !self.reader.has_more()
    }
}

impl Drop for BareReceiver {
    fn drop(&mut self) {
        if let Some((index, word)) = self.slot {
            slots::leave(self.reader.region().control(), index, word);
        }
    }
}
