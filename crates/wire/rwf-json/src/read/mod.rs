//! JSON to RWF.

mod clock;
mod container;
mod fault;
mod field;
mod key;
mod member;
mod message;
mod refusal;
mod scalar;
mod value;

use rwf::{DataType, EncodeError, MsgClass, Value, Writer};

use crate::json::{Kind, Node, Tape};
use crate::{Converter, Services};
use fault::{Fault, What};
use member::{Member, Members};
pub use refusal::{Refusal, RefusalKind};

/// A message of a frame.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a> {
    /// Is to be answered by a pong at once.
    Ping,
    /// The answer to a ping.
    Pong,
    /// The peer could not use a message of ours.
    Error(PeerError<'a>),
    /// A message, as RWF and as it was received. The RWF can be parsed.
    Message {
        /// The message as RWF.
        rwf: &'a [u8],
        /// Its JSON text.
        text: &'a [u8],
    },
}

/// What a peer said about a message that it could not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerError<'a> {
    /// The stream id of that message, 0 if it could not be told.
    pub stream_id: i32,
    /// Why, in UTF-8.
    pub text: &'a [u8],
}

/// Reads frames. It keeps its memory from one frame to the next: at most some times the longest frame.
#[derive(Debug, Default)]
pub struct Reader {
    tape: Tape,
    rwf: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Reader {
    /// A reader that has not read anything.
    #[must_use]
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Reads a frame, which is one object or an array of them, and gives each message to `each` in order.
    /// Returns how many there were. An array may be empty.
    ///
    /// # Errors
    /// A [`Refusal`] for the first message that cannot be used. The ones before it were given to `each`;
    /// those behind it are not looked at. A frame that is not JSON is refused before any of its messages.
    pub fn read_frame<'r, S: Services>(
        &'r mut self,
        converter: &Converter<'_, S>,
        text: &'r [u8],
        mut each: impl FnMut(Incoming<'_>),
    ) -> Result<usize, Refusal<'r>> {
        let Reader { tape, rwf, spare } = self;
        if let Err(error) = tape.read(text) {
            return Err(Refusal::of_frame(What::NotJson(error), error.offset, text));
        }
        let root = tape.root(text).expect("a text that was read has a value");
        let mut encoder = Encoder { converter, spare };
        let mut read = |node, count| {
            one(&mut encoder, rwf, node, &mut each).map_err(|fault| Refusal::of_message(fault, node, count))
        };
        match root.kind() {
            Kind::Array => {
                let mut count = 0;
                for node in root.items() {
                    read(node, count)?;
                    count += 1;
                }
                Ok(count)
            }
            _ => read(root, 0).map(|()| 1),
        }
    }
}

/// Reads one message and gives it to `each`.
fn one<'t, S: Services>(
    encoder: &mut Encoder<'_, S>,
    rwf: &mut Vec<u8>,
    node: Node<'t>,
    each: &mut impl FnMut(Incoming<'_>),
) -> Encoded<'t> {
    let object = scalar::object(node, b"message")?;
    let members = Members::of(object, encoder.converter.options.catch_unknown_keys)?;
    match members.get(Member::Type).and_then(|node| node.string()) {
        Some(b"Ping") => each(Incoming::Ping),
        Some(b"Pong") => each(Incoming::Pong),
        Some(b"Error") => each(Incoming::Error(peer_error(&members))),
        _ => {
            let class = message::class(&members)?;
            let stream_id = members.require(Member::Id, |node, key| stream_id(class, node, key))?;
            encode(rwf, node, |w| encoder.message_of(class, &members, stream_id, w, 0))?;
            each(Incoming::Message { rwf, text: node.raw() });
        }
    }
    Ok(())
}

/// The id of a stream; of a close of several that of the first.
fn stream_id<'t>(class: MsgClass, node: Node<'t>, key: &'t [u8]) -> Result<i32, Fault<'t>> {
    if class == MsgClass::Close && node.kind() == Kind::Array {
        let first = node.items().next().ok_or_else(|| Fault::unexpected_value(node, key))?;
        return scalar::number(first, key);
    }
    scalar::number(node, key)
}

/// An error is read as far as it can be: to answer one with another would go on for ever.
fn peer_error<'t>(members: &Members<'t>) -> PeerError<'t> {
    let stream_id = members.read(Member::Id, scalar::number).ok().flatten();
    let text = members.get(Member::Text).and_then(|text| text.string());
    PeerError { stream_id: stream_id.unwrap_or(0), text: text.unwrap_or_default() }
}

type Encoded<'t> = Result<(), Fault<'t>>;

/// The room that encoding begins with.
const RWF_BYTES_FIRST: usize = 1024;

/// Replaces `out` by what `write` writes. It is run again, with the room it needs, if there was too little.
fn encode<'t>(
    out: &mut Vec<u8>,
    node: Node<'t>,
    mut write: impl FnMut(&mut Writer<'_>) -> Encoded<'t>,
) -> Encoded<'t> {
    out.resize(out.capacity().max(RWF_BYTES_FIRST), 0);
    loop {
        let mut w = Writer::new(out);
        write(&mut w)?;
        match w.status() {
            Ok(length) => {
                out.truncate(length);
                return Ok(());
            }
            Err(EncodeError::BufferTooSmall { need_bytes, have_bytes }) if need_bytes > have_bytes => {
                out.resize(need_bytes as usize, 0);
            }
            Err(error) => return Err(Fault::at(What::NotEncodable(error), node)),
        }
    }
}

/// One message on its way to RWF.
struct Encoder<'e, S> {
    converter: &'e Converter<'e, S>,
    /// Memory for parts that are not in the text as they are.
    spare: &'e mut Vec<Vec<u8>>,
}

impl<S: Services> Encoder<'_, S> {
    fn take_bytes(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give_bytes(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// Reads a value and gives it to `put`.
    fn put_value<'t>(
        &mut self,
        data_type: DataType,
        node: Node<'t>,
        key: &'t [u8],
        put: impl FnOnce(Value<'_>),
    ) -> Encoded<'t> {
        let mut bytes = self.take_bytes();
        let result = value::value(data_type, node, key, &mut bytes).map(put);
        self.give_bytes(bytes);
        result
    }
}
