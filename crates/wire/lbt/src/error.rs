use std::fmt;

/// What is wrong with bytes from a peer: the place, what was found there and what was allowed.
///
/// Offsets count from the first byte of the datagram or, for parts that are parsed alone, of the part.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The part needs more bytes than there are.
    Truncated {
        /// What was being read.
        part: Part,
        /// Where it begins.
        at: usize,
        /// Bytes it needs from there.
        need: usize,
        /// Bytes there are from there.
        have: usize,
    },
    /// A version, type or format this library does not speak.
    Unsupported {
        /// What was being read.
        part: Part,
        /// The value found.
        found: u32,
        /// The highest value that is understood.
        limit: u32,
    },
    /// A length or count outside what the part allows.
    BadLength {
        /// What was being read.
        part: Part,
        /// Where the part begins.
        at: usize,
        /// The value found.
        found: usize,
        /// The nearest allowed value.
        limit: usize,
    },
    /// Bytes are left where the part must have ended.
    Trailing {
        /// What was being read.
        part: Part,
        /// Where the surplus begins.
        at: usize,
        /// Bytes left over.
        extra: usize,
    },
    /// A string without its terminating zero byte.
    Unterminated {
        /// What was being read.
        part: Part,
        /// Where the string begins.
        at: usize,
    },
    /// The code at the end of the packet is missing or wrong, or its key is not known.
    Unauthentic {
        /// The key that the packet names; none if it has no code.
        key: Option<u16>,
    },
    /// The code is right, but was made too long ago, or in the future: a replay, or clocks that do not agree.
    Stale {
        /// The key that the packet names.
        key: u16,
    },
    /// The datagram is not encrypted, and the receiver has keys.
    NotEncrypted,
    /// The datagram is encrypted, and the receiver has no keys: it delivers nothing of it.
    NoPayloadKeys,
    /// The datagram cannot be decrypted: its key is not known or not the one by this number, it was changed, or it is a
    /// replay.
    Undeciphered {
        /// The key that it names; none if its frame is not whole, or of another version.
        key: Option<u16>,
    },
    /// Numbers that contradict each other, such as a trailing edge beyond the leading one.
    Inconsistent {
        /// What was being read.
        part: Part,
        /// The value found.
        found: u32,
        /// The value it contradicts.
        limit: u32,
    },
}

/// The part of a packet an error speaks of.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The keyed code at the end of a packet.
    Authentication,
    /// The common LBT-RM header of eight bytes.
    LbtrmHeader,
    /// The version of an LBT-RM datagram.
    LbtrmVersion,
    /// The type of an LBT-RM datagram.
    LbtrmType,
    /// The option headers that an LBT-RM datagram announces.
    LbtrmOptions,
    /// The LBT-RM DATA header.
    LbtrmData,
    /// The header of an LBT-RU datagram, four bytes.
    LbtruHeader,
    /// The version of an LBT-RU datagram.
    LbtruVersion,
    /// The type of an LBT-RU datagram.
    LbtruType,
    /// An option of an LBT-RU datagram.
    LbtruOption,
    /// The session id of an LBT-RU datagram.
    LbtruSession,
    /// The numbers of LBT-RU DATA.
    LbtruData,
    /// A receiver's sign of life.
    Ack,
    /// A session message.
    SessionMessage,
    /// A NAK and its list.
    Nak,
    /// A NAK confirmation and its list.
    Ncf,
    /// An LBMC message header.
    LbmcMessage,
    /// An LBMC extension header.
    LbmcHeader,
    /// The FRAG header of a message that travels in pieces.
    Fragment,
    /// The LBMR header.
    LbmrHeader,
    /// A topic or wildcard query.
    TopicQuery,
    /// A topic information record.
    TopicInformation,
    /// The transport record inside a topic information record.
    TransportRecord,
    /// The options of a topic information record.
    TopicOption,
    /// The options of an LBMR packet.
    PacketOption,
}

impl Part {
    /// The part's name in running text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Authentication => "keyed code",
            Part::LbtrmHeader => "LBT-RM header",
            Part::LbtrmVersion => "LBT-RM version",
            Part::LbtrmType => "LBT-RM type",
            Part::LbtrmOptions => "LBT-RM next header",
            Part::LbtrmData => "LBT-RM DATA header",
            Part::LbtruHeader => "LBT-RU header",
            Part::LbtruVersion => "LBT-RU version",
            Part::LbtruType => "LBT-RU type",
            Part::LbtruOption => "LBT-RU option",
            Part::LbtruSession => "LBT-RU session id",
            Part::LbtruData => "LBT-RU DATA header",
            Part::Ack => "ACK",
            Part::SessionMessage => "session message",
            Part::Nak => "NAK",
            Part::Ncf => "NCF",
            Part::LbmcMessage => "LBMC message",
            Part::LbmcHeader => "LBMC extension header",
            Part::Fragment => "FRAG header",
            Part::LbmrHeader => "LBMR header",
            Part::TopicQuery => "topic query",
            Part::TopicInformation => "topic information record",
            Part::TransportRecord => "transport record",
            Part::TopicOption => "topic option",
            Part::PacketOption => "packet option",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WireError::Truncated { part, at, need, have } => {
                write!(f, "{} at byte {at} needs {need} bytes, {have} are left", part.name())
            }
            WireError::Unsupported { part, found, limit } => {
                write!(f, "{} has value {found}, understood up to {limit}", part.name())
            }
            WireError::BadLength { part, at, found, limit } => {
                write!(f, "{} at byte {at} states length {found}, the limit is {limit}", part.name())
            }
            WireError::Trailing { part, at, extra } => {
                write!(f, "{extra} bytes are left at byte {at}, after the {}", part.name())
            }
            WireError::Unterminated { part, at } => {
                write!(f, "{} at byte {at} has no terminating zero", part.name())
            }
            WireError::Stale { key } => write!(f, "the packet was signed with key {key} at another time"),
            WireError::Unauthentic { key: None } => f.write_str("the packet has no keyed code"),
            WireError::Unauthentic { key: Some(key) } => {
                write!(f, "the keyed code under key {key} is wrong, or the key is not known")
            }
            WireError::NotEncrypted => f.write_str("the datagram is not encrypted"),
            WireError::NoPayloadKeys => f.write_str("the datagram is encrypted, and there is no key"),
            WireError::Undeciphered { key: None } => {
                f.write_str("the datagram is encrypted in a way that is not known")
            }
            WireError::Undeciphered { key: Some(key) } => {
                write!(f, "key {key} is not known or does not decrypt the datagram, or it is a replay")
            }
            WireError::Inconsistent { part, found, limit } => {
                write!(f, "{} states {found}, which contradicts {limit}", part.name())
            }
        }
    }
}

impl std::error::Error for WireError {}
