//! What clients of shards say to providers, and what is said to them alone.
//!
//! A shard numbers the streams of its clients on which something goes up. Towards instances that number has the shard's
//! in its upper bits, so that an answer names who is to get it and nothing has to be kept, but of private streams the
//! instance that has them.

use std::collections::{BTreeMap, BTreeSet};

use rwf::{CloseMsg, DataType, DecodeError, Domain, Msg, MsgClass, peek};

use crate::backbone::LinkUp;
use crate::distributor::PeerId;
use crate::encoding::Encoding;
use crate::p2ps::conversations::Private;
use crate::p2ps::sink::UpstreamSink;

/// Bits of a shard's own number: it would have to open a stream each microsecond for 12 days.
const NUMBER_BITS: u32 = 40;

/// The number of a conversation towards instances.
pub(super) fn number_of(shard: PeerId, conversation: u64) -> u64 {
    u64::from(shard.0) << NUMBER_BITS | conversation & ((1 << NUMBER_BITS) - 1)
}

/// The shard that an answer is for, and the number there.
pub(super) fn parts_of(number: u64) -> (PeerId, u64) {
    (PeerId((number >> NUMBER_BITS) as u32), number & ((1 << NUMBER_BITS) - 1))
}

/// Private streams of shards' clients, by their numbers towards instances.
#[derive(Default)]
pub(super) struct Conversations {
    private: BTreeMap<u64, Private>,
    /// The same by instance.
    at: BTreeMap<u64, BTreeSet<u64>>,
}

/// Ends a private stream at its instance.
pub(super) fn close(instance: u64, conversation: u64, domain: Domain, sink: &mut impl UpstreamSink) {
    let close = CloseMsg::new(domain, 0, DataType::NO_DATA);
    let mut encoding = Encoding::default();
    let message = encoding.encode(|w| close.encode(w));
    sink.to_instance(instance, &LinkUp::PrivateMessage { conversation, message });
}

impl Conversations {
    /// Opens a private stream. Returns its number towards the instance.
    pub(super) fn open(&mut self, (shard, conversation): (PeerId, u64), private: Private) -> u64 {
        let number = number_of(shard, conversation);
        self.forget(number);
        self.private.insert(number, private);
        self.at.entry(private.instance).or_default().insert(number);
        number
    }

    fn forget(&mut self, number: u64) -> Option<Private> {
        let gone = self.private.remove(&number)?;
        if let Some(numbers) = self.at.get_mut(&gone.instance) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.at.remove(&gone.instance);
            }
        }
        Some(gone)
    }

    /// A shard's client says something on a private stream. Returns instance and number, while the stream is open.
    pub(super) fn on_private_said(&mut self, from: (PeerId, u64), message: &[u8]) -> Option<(u64, u64)> {
        let number = number_of(from.0, from.1);
        let instance = self.private.get(&number)?.instance;
        if peek(message).is_ok_and(|head| head.class == MsgClass::Close) {
            self.forget(number);
        }
        Some((instance, number))
    }

    /// An instance says something on a private stream. Returns for whom, while the stream is open.
    pub(super) fn on_private_message(
        &mut self,
        instance: u64,
        number: u64,
        message: &[u8],
    ) -> Result<Option<(PeerId, u64)>, DecodeError> {
        let known = self.private.get(&number).filter(|private| private.instance == instance);
        let Some(private) = known else { return Ok(None) };
        if private.ends_with(&Msg::parse(message)?) {
            self.forget(number);
        }
        Ok(Some(parts_of(number)))
    }

    /// Forgets the private streams of an instance: shard, number there, and domain.
    pub(super) fn take_lost(&mut self, instance: u64) -> Vec<(PeerId, u64, Domain)> {
        let numbers = self.at.remove(&instance).into_iter().flatten();
        let gone = numbers.filter_map(|number| Some((number, self.private.remove(&number)?)));
        gone.map(|(number, private)| (parts_of(number), private))
            .map(|((shard, conversation), private)| (shard, conversation, private.domain))
            .collect()
    }

    /// Forgets the private streams of a shard: instance, number there, and domain.
    pub(super) fn take_those_of(&mut self, shard: PeerId) -> Vec<(u64, u64, Domain)> {
        let numbers: Vec<u64> =
            self.private.range(number_of(shard, 0)..=number_of(shard, u64::MAX)).map(|(n, _)| *n).collect();
        let gone = numbers.into_iter().filter_map(|number| Some((number, self.forget(number)?)));
        gone.map(|(number, private)| (private.instance, number, private.domain)).collect()
    }
}
