use rwf::Domain;

use super::{BackboneError, Cursor, POSITION_BYTES, VERSION, is_spoken, put_key_in_full};
use crate::key::ItemKey;

/// A message from a point-to-point server to an instance. Shape: section 3 of `docs/protocol/backbone.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkUp<'a> {
    /// The first message of a link.
    Hello { peer: u64, name: &'a [u8] },
    /// Publish the item and send its image.
    Interest { key: ItemKey<'a> },
    /// The item is no longer wanted.
    NoInterest { key: ItemKey<'a> },
    /// Send the image again.
    ImageRequest { key: ItemKey<'a> },
    /// As Interest, for an item that the server has had an image of from another run, or over another link:
    /// one that is not published now is waited for, however long it takes.
    Resume { key: ItemKey<'a> },
    /// Which items were in these sequences, both ends included?
    GapQuery { service: u16, first: u64, last: u64 },
    /// A post or generic message of a client of the server; without a name it is off stream, and the key is
    /// in the message. `conversation` names the client's stream in the answers.
    ClientMessage { conversation: u64, key: ItemKey<'a>, message: &'a [u8] },
    /// A request for a private stream of a client's own.
    PrivateRequest { service: u16, conversation: u64, request: &'a [u8] },
    /// A post, generic message, close or reissue on a private stream.
    PrivateMessage { conversation: u64, message: &'a [u8] },
    /// How far the server has taken the streams that it follows; see [`LinkUp::put_position`].
    Progress { positions: &'a [u8] },
}

impl<'a> LinkUp<'a> {
    /// The item that it is about.
    pub(crate) fn key(&self) -> Option<ItemKey<'a>> {
        match *self {
            LinkUp::Interest { key }
            | LinkUp::NoInterest { key }
            | LinkUp::ImageRequest { key }
            | LinkUp::Resume { key }
            | LinkUp::ClientMessage { key, .. } => Some(key),
            LinkUp::Hello { .. }
            | LinkUp::GapQuery { .. }
            | LinkUp::PrivateRequest { .. }
            | LinkUp::PrivateMessage { .. }
            | LinkUp::Progress { .. } => None,
        }
    }
}

/// A message from an instance to one point-to-point server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkDown<'a> {
    /// The answer to Hello, with what this instance knows to do.
    HelloAck { instance: u64, features: Features },
    /// An image as it was after sequence `after`.
    Image { item: u32, after: u64, key: ItemKey<'a>, refresh: &'a [u8] },
    /// The state of an item for this peer alone.
    ItemStatus { key: ItemKey<'a>, status: &'a [u8] },
    /// The items of a range; `ids` holds them as u32 each, or nothing when the range is too old (`known`
    /// false).
    GapAnswer { service: u16, first: u64, last: u64, known: bool, ids: &'a [u8] },
    /// An acknowledgement or generic message for one client's stream.
    ClientAnswer { conversation: u64, message: &'a [u8] },
    /// A message of a private stream.
    PrivateMessage { conversation: u64, message: &'a [u8] },
}

/// What an instance knows to do besides what the first version of the protocol has, as bits. Those of later
/// versions are kept as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    /// What this build knows.
    pub const OURS: Features = Features(Self::KEYS_IN_FULL | Self::RESUMES | Self::PROGRESS);
    const KEYS_IN_FULL: u32 = 1;
    const RESUMES: u32 = 2;
    const PROGRESS: u32 = 4;

    /// Whether items are told apart by more than their names.
    #[must_use]
    pub fn has_keys_in_full(self) -> bool {
        self.0 & Self::KEYS_IN_FULL != 0
    }

    /// Whether Resume is understood.
    #[must_use]
    pub fn has_resume(self) -> bool {
        self.0 & Self::RESUMES != 0
    }

    /// Whether Progress is understood.
    #[must_use]
    pub fn has_progress(self) -> bool {
        self.0 & Self::PROGRESS != 0
    }
}

/// A message whose kind has this bit names its item by a key in full, where the kind without it has the name
/// alone.
const IN_FULL: u8 = 0x40;

impl<'a> LinkUp<'a> {
    /// The same message with another id of the service that it is about; `None` if `id_of` knows none.
    #[must_use]
    pub fn renumbered(mut self, id_of: impl Fn(u16) -> Option<u16>) -> Option<LinkUp<'a>> {
        match &mut self {
            LinkUp::Hello { .. } | LinkUp::PrivateMessage { .. } | LinkUp::Progress { .. } => {}
            LinkUp::Interest { key }
            | LinkUp::Resume { key }
            | LinkUp::NoInterest { key }
            | LinkUp::ImageRequest { key }
            | LinkUp::ClientMessage { key, .. } => key.service = id_of(key.service)?,
            LinkUp::GapQuery { service, .. } | LinkUp::PrivateRequest { service, .. } => {
                *service = id_of(*service)?;
            }
        }
        Some(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BackboneError`] for another version, an unknown kind or missing bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkUp<'a>, BackboneError> {
        let (kind, service, mut at) = head(bytes)?;
        Ok(match kind {
            1 => LinkUp::Hello { peer: at.u64()?, name: at.rest() },
            2 | 66 => LinkUp::Interest { key: last_key(kind, service, at)? },
            3 | 67 => LinkUp::NoInterest { key: last_key(kind, service, at)? },
            4 | 68 => LinkUp::ImageRequest { key: last_key(kind, service, at)? },
            5 => LinkUp::GapQuery { service, first: at.u64()?, last: at.u64()? },
            6 | 70 => LinkUp::ClientMessage {
                conversation: at.u64()?,
                key: key(kind, service, &mut at)?,
                message: at.rest(),
            },
            7 => LinkUp::PrivateRequest { service, conversation: at.u64()?, request: at.rest() },
            8 => LinkUp::PrivateMessage { conversation: at.u64()?, message: at.rest() },
            9 | 73 => LinkUp::Resume { key: last_key(kind, service, at)? },
            10 => LinkUp::Progress { positions: at.positions()? },
            other => return Err(BackboneError::Kind(other)),
        })
    }

    /// Appends the message's bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match *self {
            LinkUp::Resume { key } => put_last_key(into, 9, &key),
            LinkUp::Interest { key } => put_last_key(into, 2, &key),
            LinkUp::NoInterest { key } => put_last_key(into, 3, &key),
            LinkUp::ImageRequest { key } => put_last_key(into, 4, &key),
            LinkUp::Hello { peer, name } => {
                put_head(into, 1, 0);
                into.extend_from_slice(&peer.to_be_bytes());
                into.extend_from_slice(name);
            }
            LinkUp::GapQuery { service, first, last } => {
                put_head(into, 5, service);
                into.extend_from_slice(&first.to_be_bytes());
                into.extend_from_slice(&last.to_be_bytes());
            }
            LinkUp::ClientMessage { conversation, key, message } => {
                put_keyed_head(into, 6, &key);
                into.extend_from_slice(&conversation.to_be_bytes());
                put_key(into, &key);
                into.extend_from_slice(message);
            }
            LinkUp::PrivateRequest { service, conversation, request } => {
                put_conversation(into, (7, service), conversation, request);
            }
            LinkUp::PrivateMessage { conversation, message } => {
                put_conversation(into, (8, 0), conversation, message);
            }
            LinkUp::Progress { positions } => {
                put_head(into, 10, 0);
                into.extend_from_slice(positions);
            }
        }
    }

    /// Appends one entry to the positions of a Progress: everything of the service's stream up to `sequence` is
    /// taken; [`LinkUp::NOT_FOLLOWED`] if the server takes no part in the stream any more. The service's id is the
    /// instance's.
    pub fn put_position(positions: &mut Vec<u8>, service: u16, sequence: u64) {
        positions.extend_from_slice(&service.to_be_bytes());
        positions.extend_from_slice(&sequence.to_be_bytes());
    }

    /// The services and sequences in the positions of a Progress. A last entry that is cut off is left out.
    pub fn positions(positions: &[u8]) -> impl Iterator<Item = (u16, u64)> + use<'_> {
        positions.as_chunks::<POSITION_BYTES>().0.iter().map(|entry| {
            let [a, b, sequence @ ..] = *entry;
            (u16::from_be_bytes([a, b]), u64::from_be_bytes(sequence))
        })
    }

    /// The sequence of a stream that a server no longer follows.
    pub const NOT_FOLLOWED: u64 = u64::MAX;
}

impl<'a> LinkDown<'a> {
    /// The same message with another id of the service that it is about; `None` if `id_of` knows none.
    #[must_use]
    pub fn renumbered(mut self, id_of: impl Fn(u16) -> Option<u16>) -> Option<LinkDown<'a>> {
        match &mut self {
            LinkDown::HelloAck { .. } | LinkDown::ClientAnswer { .. } | LinkDown::PrivateMessage { .. } => {}
            LinkDown::Image { key, .. } | LinkDown::ItemStatus { key, .. } => {
                key.service = id_of(key.service)?
            }
            LinkDown::GapAnswer { service, .. } => *service = id_of(*service)?,
        }
        Some(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`BackboneError`] for another version, an unknown kind or missing bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkDown<'a>, BackboneError> {
        let (kind, service, mut at) = head(bytes)?;
        Ok(match kind {
            16 => LinkDown::HelloAck { instance: at.u64()?, features: features(at) },
            17 | 81 => LinkDown::Image {
                item: at.u32()?,
                after: at.u64()?,
                key: key(kind, service, &mut at)?,
                refresh: at.rest(),
            },
            18 | 82 => LinkDown::ItemStatus { key: key(kind, service, &mut at)?, status: at.rest() },
            19 => LinkDown::GapAnswer {
                service,
                first: at.u64()?,
                last: at.u64()?,
                known: at.u8()? != 0,
                ids: at.rest(),
            },
            20 => LinkDown::ClientAnswer { conversation: at.u64()?, message: at.rest() },
            21 => LinkDown::PrivateMessage { conversation: at.u64()?, message: at.rest() },
            other => return Err(BackboneError::Kind(other)),
        })
    }

    /// Appends the message's bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match *self {
            LinkDown::HelloAck { instance, features } => {
                put_head(into, 16, 0);
                into.extend_from_slice(&instance.to_be_bytes());
                into.extend_from_slice(&features.0.to_be_bytes());
            }
            LinkDown::Image { item, after, key, refresh } => {
                put_keyed_head(into, 17, &key);
                into.extend_from_slice(&item.to_be_bytes());
                into.extend_from_slice(&after.to_be_bytes());
                put_key(into, &key);
                into.extend_from_slice(refresh);
            }
            LinkDown::ItemStatus { key, status } => {
                put_keyed_head(into, 18, &key);
                put_key(into, &key);
                into.extend_from_slice(status);
            }
            LinkDown::GapAnswer { service, first, last, known, ids } => {
                put_head(into, 19, service);
                into.extend_from_slice(&first.to_be_bytes());
                into.extend_from_slice(&last.to_be_bytes());
                into.push(known.into());
                into.extend_from_slice(ids);
            }
            LinkDown::ClientAnswer { conversation, message } => {
                put_conversation(into, (20, 0), conversation, message);
            }
            LinkDown::PrivateMessage { conversation, message } => {
                put_conversation(into, (21, 0), conversation, message);
            }
        }
    }

    /// The item ids in the bytes of a GapAnswer.
    pub fn gap_items(ids: &[u8]) -> impl Iterator<Item = u32> + use<'_> {
        ids.as_chunks::<4>().0.iter().map(|id| u32::from_be_bytes(*id))
    }
}

fn head(bytes: &[u8]) -> Result<(u8, u16, Cursor<'_>), BackboneError> {
    let mut at = Cursor::new(bytes);
    match at.u8()? {
        version if is_spoken(version) => Ok((at.u8()?, at.u16()?, at)),
        other => Err(BackboneError::Version(other)),
    }
}

fn put_head(into: &mut Vec<u8>, kind: u8, service: u16) {
    into.extend_from_slice(&[VERSION, kind]);
    into.extend_from_slice(&service.to_be_bytes());
}

/// A HelloAck of the first version ends before them.
fn features(mut at: Cursor<'_>) -> Features {
    Features(at.u32().unwrap_or_default())
}

/// A key that more follows.
fn key<'a>(kind: u8, service: u16, at: &mut Cursor<'a>) -> Result<ItemKey<'a>, BackboneError> {
    if kind & IN_FULL != 0 {
        return at.key_in_full(service);
    }
    let domain = Domain(at.u8()?);
    Ok(ItemKey::named(service, domain, at.name()?))
}

/// A key that is the last part of its message: then the name needs no length. No name is longer than a key's.
fn last_key(kind: u8, service: u16, mut at: Cursor<'_>) -> Result<ItemKey<'_>, BackboneError> {
    if kind & IN_FULL != 0 {
        return at.key_in_full(service);
    }
    let domain = Domain(at.u8()?);
    Ok(ItemKey::named(service, domain, at.rest()))
}

fn put_keyed_head(into: &mut Vec<u8>, kind: u8, key: &ItemKey<'_>) {
    put_head(into, if key.is_plain() { kind } else { kind | IN_FULL }, key.service);
}

fn put_key(into: &mut Vec<u8>, key: &ItemKey<'_>) {
    if key.is_plain() {
        into.extend_from_slice(&[key.domain.0, key.name.len() as u8]);
        into.extend_from_slice(key.name);
    } else {
        put_key_in_full(into, key);
    }
}

fn put_last_key(into: &mut Vec<u8>, kind: u8, key: &ItemKey<'_>) {
    put_keyed_head(into, kind, key);
    if key.is_plain() {
        into.push(key.domain.0);
        into.extend_from_slice(key.name);
    } else {
        put_key_in_full(into, key);
    }
}

fn put_conversation(into: &mut Vec<u8>, (kind, service): (u8, u16), conversation: u64, message: &[u8]) {
    put_head(into, kind, service);
    into.extend_from_slice(&conversation.to_be_bytes());
    into.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use rwf::{Attributes, DataType, DecodeError, Key, Place};

    use super::*;

    fn named(service: u16, domain: u8, name: &[u8]) -> ItemKey<'_> {
        ItemKey::named(service, Domain(domain), name)
    }

    /// A key with every part.
    fn in_full() -> ItemKey<'static> {
        let attributes = Some(Attributes { container_type: DataType::OPAQUE, data: b"attributes" });
        let more = Key { name_type: Some(2), filter: Some(3), identifier: Some(-4), ..Key::item(9, b"IBM") };
        ItemKey::of(5, Domain::MARKET_PRICE, &Key { attributes, ..more }).expect("short attributes")
    }

    fn up() -> Vec<LinkUp<'static>> {
        let message = |key, message| LinkUp::ClientMessage { conversation: 6, key, message };
        vec![
            LinkUp::Hello { peer: 7, name: b"p2ps-1" },
            LinkUp::Interest { key: named(1, 6, b"BTCUSDT") },
            LinkUp::Interest { key: in_full() },
            LinkUp::NoInterest { key: named(2, 8, b"") },
            LinkUp::NoInterest { key: in_full() },
            LinkUp::ImageRequest { key: named(3, 6, b"X") },
            LinkUp::ImageRequest { key: in_full() },
            LinkUp::Resume { key: named(3, 6, b"X") },
            LinkUp::Resume { key: in_full() },
            LinkUp::GapQuery { service: 4, first: 5, last: u64::MAX },
            message(named(5, 6, b"IBM"), b"post"),
            message(named(5, 6, b""), b"off stream"),
            message(in_full(), b"post"),
            LinkUp::PrivateRequest { service: 5, conversation: u64::MAX, request: b"request" },
            LinkUp::PrivateMessage { conversation: 8, message: b"close" },
            LinkUp::Progress { positions: b"\0\x01\0\0\0\0\0\0\0\x07" },
        ]
    }

    fn down() -> Vec<LinkDown<'static>> {
        vec![
            LinkDown::HelloAck { instance: 8, features: Features::OURS },
            LinkDown::Image { item: 2, after: 3, key: named(1, 6, b"A"), refresh: b"bytes" },
            LinkDown::Image { item: 2, after: 3, key: in_full(), refresh: b"bytes" },
            LinkDown::ItemStatus { key: named(1, 6, b"A"), status: b"bytes" },
            LinkDown::ItemStatus { key: in_full(), status: b"bytes" },
            LinkDown::GapAnswer { service: 1, first: 2, last: 3, known: true, ids: b"\0\0\0\x01\0\0\0\x02" },
            LinkDown::ClientAnswer { conversation: 9, message: b"ack" },
            LinkDown::PrivateMessage { conversation: 10, message: b"refresh" },
        ]
    }

    fn up_bytes(msg: &LinkUp<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        bytes
    }

    fn down_bytes(msg: &LinkDown<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        bytes
    }

    #[test]
    fn every_message_comes_back() {
        for msg in up() {
            assert_eq!(LinkUp::parse(&up_bytes(&msg)), Ok(msg));
        }
        for msg in down() {
            assert_eq!(LinkDown::parse(&down_bytes(&msg)), Ok(msg));
        }
    }

    #[test]
    fn a_cut_message_is_refused_or_shorter_at_its_open_end() {
        for msg in up() {
            let bytes = up_bytes(&msg);
            for cut in 0..bytes.len() {
                assert_ne!(LinkUp::parse(&bytes[..cut]), Ok(msg));
            }
        }
        for msg in down() {
            let bytes = down_bytes(&msg);
            for cut in 0..bytes.len() {
                assert_ne!(LinkDown::parse(&bytes[..cut]), Ok(msg));
            }
        }
    }

    #[test]
    fn a_plain_key_costs_what_its_name_does() {
        let key = named(5, 6, b"IBM");
        assert_eq!(up_bytes(&LinkUp::Interest { key }), *b"\x01\x02\0\x05\x06IBM");
        let message = up_bytes(&LinkUp::ClientMessage { conversation: 6, key, message: b"post" });
        assert_eq!(message, *b"\x01\x06\0\x05\0\0\0\0\0\0\0\x06\x06\x03IBMpost");
        assert_eq!(
            LinkUp::parse(&message[..15]),
            Err(BackboneError::Truncated { need: 17, have: 15 }),
            "the name is not all there"
        );
    }

    #[test]
    fn a_key_in_full_has_the_kind_that_says_so_and_no_service_of_its_own() {
        let bytes = up_bytes(&LinkUp::Interest { key: in_full() });
        let key = b"\x3e\x03IBM\x02\0\0\0\x03\xff\xff\xff\xfc\x02\x0aattributes";
        assert_eq!(bytes, [&b"\x01\x42\0\x05\x06\0\x1a"[..], key].concat());
        let key = [&[0x20, 2, 0x90, 0x01][..], &[0; 4097]].concat();
        let long = [&b"\x01\x42\0\x05\x06"[..], &(key.len() as u16).to_be_bytes(), &key].concat();
        let too_long = DecodeError::BadLength { place: Place::KeyAttributes, length: 4097, max: 4096 };
        assert_eq!(LinkUp::parse(&long), Err(BackboneError::Key(too_long)));
    }

    #[test]
    fn positions_are_those_of_as_many_services_as_there_can_be() {
        let positions = vec![7; 655_361];
        assert!(LinkUp::parse(&up_bytes(&LinkUp::Progress { positions: &positions[1..] })).is_ok());
        let too_many = up_bytes(&LinkUp::Progress { positions: &positions });
        assert_eq!(LinkUp::parse(&too_many), Err(BackboneError::Positions(655_361)));
    }

    #[test]
    fn an_instance_of_the_first_version_has_no_features() {
        let bytes = down_bytes(&LinkDown::HelloAck { instance: 8, features: Features::OURS });
        let first = LinkDown::parse(&bytes[..12]).expect("the instance is there");
        assert_eq!(first, LinkDown::HelloAck { instance: 8, features: Features::default() });
        assert!(!Features::default().has_keys_in_full() && Features::OURS.has_keys_in_full());
    }

    #[test]
    fn each_direction_refuses_the_other_one_s_messages() {
        let mut bytes = up_bytes(&up()[0]);
        assert_eq!(LinkDown::parse(&bytes), Err(BackboneError::Kind(1)));
        bytes[0] = 9;
        assert_eq!(LinkUp::parse(&bytes), Err(BackboneError::Version(9)));
        assert_eq!(LinkUp::parse(b"\x01\x41\0\x05\x06"), Err(BackboneError::Kind(0x41)), "Hello has no key");
    }

    #[test]
    fn positions_are_read_in_order_and_a_cut_one_is_left_out() {
        let mut positions = Vec::new();
        LinkUp::put_position(&mut positions, 1, 7);
        LinkUp::put_position(&mut positions, 0xFFFE, LinkUp::NOT_FOLLOWED);
        assert_eq!(positions[..10], *b"\0\x01\0\0\0\0\0\0\0\x07");
        let both = [(1, 7), (0xFFFE, u64::MAX)];
        assert_eq!(LinkUp::positions(&positions).collect::<Vec<_>>(), both);
        assert_eq!(LinkUp::positions(&positions[..19]).collect::<Vec<_>>(), both[..1]);
        assert!(Features::OURS.has_progress() && !Features(3).has_progress());
    }

    #[test]
    fn gap_items_are_read_in_order() {
        assert_eq!(LinkDown::gap_items(b"\0\0\0\x01\0\0\x01\0").collect::<Vec<_>>(), [1, 256]);
    }
}
