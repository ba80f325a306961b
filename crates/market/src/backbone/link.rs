use super::{BackboneError, Cursor, VERSION};

/// A message from a point-to-point server to an instance. Shape: section 3 of `docs/protocol/backbone.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkUp<'a> {
    /// The first message of a link.
    Hello { peer: u64, name: &'a [u8] },
    /// Publish the item and send its image.
    Interest { service: u16, domain: u8, name: &'a [u8] },
    /// The item is no longer wanted.
    NoInterest { service: u16, domain: u8, name: &'a [u8] },
    /// Send the image again.
    ImageRequest { service: u16, domain: u8, name: &'a [u8] },
    /// Which items were in these sequences, both ends included?
    GapQuery { service: u16, first: u64, last: u64 },
    /// A post or generic message of a client of the server; without a name it is off stream, and the key is in
    /// the message. `conversation` names the client's stream in the answers.
    ClientMessage { service: u16, conversation: u64, domain: u8, name: &'a [u8], message: &'a [u8] },
    /// A request for a private stream of a client's own.
    PrivateRequest { service: u16, conversation: u64, request: &'a [u8] },
    /// A post, generic message, close or reissue on a private stream.
    PrivateMessage { conversation: u64, message: &'a [u8] },
}

/// A message from an instance to one point-to-point server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkDown<'a> {
    /// The answer to Hello.
    HelloAck { instance: u64 },
    /// An image as it was after sequence `after`.
    Image { service: u16, item: u32, after: u64, domain: u8, name: &'a [u8], refresh: &'a [u8] },
    /// The state of an item for this peer alone.
    ItemStatus { service: u16, domain: u8, name: &'a [u8], status: &'a [u8] },
    /// The items of a range; `ids` holds them as u32 each, or nothing when the range is too old (`known`
    /// false).
    GapAnswer { service: u16, first: u64, last: u64, known: bool, ids: &'a [u8] },
    /// An acknowledgement or generic message for one client's stream.
    ClientAnswer { conversation: u64, message: &'a [u8] },
    /// A message of a private stream.
    PrivateMessage { conversation: u64, message: &'a [u8] },
}

impl<'a> LinkUp<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`BackboneError`] for another version, an unknown kind or missing bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkUp<'a>, BackboneError> {
        let (kind, service, mut at) = head(bytes)?;
        Ok(match kind {
            1 => LinkUp::Hello { peer: at.u64()?, name: at.rest() },
            2 => LinkUp::Interest { service, domain: at.u8()?, name: at.rest() },
            3 => LinkUp::NoInterest { service, domain: at.u8()?, name: at.rest() },
            4 => LinkUp::ImageRequest { service, domain: at.u8()?, name: at.rest() },
            5 => LinkUp::GapQuery { service, first: at.u64()?, last: at.u64()? },
            6 => LinkUp::ClientMessage {
                service,
                conversation: at.u64()?,
                domain: at.u8()?,
                name: at.name()?,
                message: at.rest(),
            },
            7 => LinkUp::PrivateRequest { service, conversation: at.u64()?, request: at.rest() },
            8 => LinkUp::PrivateMessage { conversation: at.u64()?, message: at.rest() },
            other => return Err(BackboneError::Kind(other)),
        })
    }

    /// Appends the message's bytes. Names longer than 255 bytes do not exist in RWF.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut keyed = |kind, service, domain, name: &[u8]| {
            put_head(into, kind, service);
            into.push(domain);
            into.extend_from_slice(name);
        };
        match *self {
            LinkUp::Interest { service, domain, name } => keyed(2, service, domain, name),
            LinkUp::NoInterest { service, domain, name } => keyed(3, service, domain, name),
            LinkUp::ImageRequest { service, domain, name } => keyed(4, service, domain, name),
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
            LinkUp::ClientMessage { service, conversation, domain, name, message } => {
                put_head(into, 6, service);
                into.extend_from_slice(&conversation.to_be_bytes());
                put_key(into, domain, name);
                into.extend_from_slice(message);
            }
            LinkUp::PrivateRequest { service, conversation, request } => {
                put_conversation(into, (7, service), conversation, request);
            }
            LinkUp::PrivateMessage { conversation, message } => {
                put_conversation(into, (8, 0), conversation, message);
            }
        }
    }
}

impl<'a> LinkDown<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`BackboneError`] for another version, an unknown kind or missing bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<LinkDown<'a>, BackboneError> {
        let (kind, service, mut at) = head(bytes)?;
        Ok(match kind {
            16 => LinkDown::HelloAck { instance: at.u64()? },
            17 => LinkDown::Image {
                service,
                item: at.u32()?,
                after: at.u64()?,
                domain: at.u8()?,
                name: at.name()?,
                refresh: at.rest(),
            },
            18 => LinkDown::ItemStatus { service, domain: at.u8()?, name: at.name()?, status: at.rest() },
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

    /// Appends the message's bytes. Names longer than 255 bytes do not exist in RWF.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match *self {
            LinkDown::HelloAck { instance } => {
                put_head(into, 16, 0);
                into.extend_from_slice(&instance.to_be_bytes());
            }
            LinkDown::Image { service, item, after, domain, name, refresh } => {
                put_head(into, 17, service);
                into.extend_from_slice(&item.to_be_bytes());
                into.extend_from_slice(&after.to_be_bytes());
                put_key(into, domain, name);
                into.extend_from_slice(refresh);
            }
            LinkDown::ItemStatus { service, domain, name, status } => {
                put_head(into, 18, service);
                put_key(into, domain, name);
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
        VERSION => Ok((at.u8()?, at.u16()?, at)),
        other => Err(BackboneError::Version(other)),
    }
}

fn put_head(into: &mut Vec<u8>, kind: u8, service: u16) {
    into.extend_from_slice(&[VERSION, kind]);
    into.extend_from_slice(&service.to_be_bytes());
}

fn put_key(into: &mut Vec<u8>, domain: u8, name: &[u8]) {
    into.extend_from_slice(&[domain, name.len() as u8]);
    into.extend_from_slice(name);
}

fn put_conversation(into: &mut Vec<u8>, (kind, service): (u8, u16), conversation: u64, message: &[u8]) {
    put_head(into, kind, service);
    into.extend_from_slice(&conversation.to_be_bytes());
    into.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: [LinkUp<'_>; 9] = [
        LinkUp::Hello { peer: 7, name: b"p2ps-1" },
        LinkUp::Interest { service: 1, domain: 6, name: b"BTCUSDT" },
        LinkUp::NoInterest { service: 2, domain: 8, name: b"" },
        LinkUp::ImageRequest { service: 3, domain: 6, name: b"X" },
        LinkUp::GapQuery { service: 4, first: 5, last: u64::MAX },
        LinkUp::ClientMessage { service: 5, conversation: 6, domain: 6, name: b"IBM", message: b"post" },
        LinkUp::ClientMessage { service: 5, conversation: 7, domain: 6, name: b"", message: b"off stream" },
        LinkUp::PrivateRequest { service: 5, conversation: u64::MAX, request: b"request" },
        LinkUp::PrivateMessage { conversation: 8, message: b"close" },
    ];
    const DOWN: [LinkDown<'_>; 6] = [
        LinkDown::HelloAck { instance: 8 },
        LinkDown::Image { service: 1, item: 2, after: 3, domain: 6, name: b"A", refresh: b"bytes" },
        LinkDown::ItemStatus { service: 1, domain: 6, name: b"A", status: b"bytes" },
        LinkDown::GapAnswer { service: 1, first: 2, last: 3, known: true, ids: b"\0\0\0\x01\0\0\0\x02" },
        LinkDown::ClientAnswer { conversation: 9, message: b"ack" },
        LinkDown::PrivateMessage { conversation: 10, message: b"refresh" },
    ];

    #[test]
    fn every_message_comes_back() {
        for msg in UP {
            let mut bytes = Vec::new();
            msg.encode(&mut bytes);
            assert_eq!(LinkUp::parse(&bytes), Ok(msg));
        }
        for msg in DOWN {
            let mut bytes = Vec::new();
            msg.encode(&mut bytes);
            assert_eq!(LinkDown::parse(&bytes), Ok(msg));
        }
    }

    #[test]
    fn a_cut_message_is_refused_or_shorter_at_its_open_end() {
        for msg in UP {
            let mut bytes = Vec::new();
            msg.encode(&mut bytes);
            for cut in 0..bytes.len() {
                assert_ne!(LinkUp::parse(&bytes[..cut]), Ok(msg));
            }
        }
        for msg in DOWN {
            let mut bytes = Vec::new();
            msg.encode(&mut bytes);
            for cut in 0..bytes.len() {
                assert_ne!(LinkDown::parse(&bytes[..cut]), Ok(msg));
            }
        }
    }

    #[test]
    fn a_client_s_message_has_its_name_in_front() {
        let mut bytes = Vec::new();
        UP[5].encode(&mut bytes);
        assert_eq!(bytes, *b"\x01\x06\0\x05\0\0\0\0\0\0\0\x06\x06\x03IBMpost");
        assert_eq!(
            LinkUp::parse(&bytes[..15]),
            Err(BackboneError::Truncated { need: 17, have: 15 }),
            "the name is not all there"
        );
    }

    #[test]
    fn each_direction_refuses_the_other_one_s_messages() {
        let mut bytes = Vec::new();
        UP[0].encode(&mut bytes);
        assert_eq!(LinkDown::parse(&bytes), Err(BackboneError::Kind(1)));
        bytes[0] = 9;
        assert_eq!(LinkUp::parse(&bytes), Err(BackboneError::Version(9)));
    }

    #[test]
    fn gap_items_are_read_in_order() {
        assert_eq!(LinkDown::gap_items(b"\0\0\0\x01\0\0\x01\0").collect::<Vec<_>>(), [1, 256]);
    }
}
