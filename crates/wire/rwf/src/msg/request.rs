use super::head::{Domain, MsgClass, MsgHead};
use super::{EXTENDED_HEADER, Key, extended_header, flag_bits, msg_class, optional, put_extended_header};
use crate::primitive::Primitive;
use crate::reader::Reader;
use crate::{DataType, DecodeError, Place, Qos, Writer};

const PRIORITY: u16 = 0x0002;
const STREAMING: u16 = 0x0004;
const KEY_IN_UPDATES: u16 = 0x0008;
const CONFLATION_INFO_IN_UPDATES: u16 = 0x0010;
const NO_REFRESH: u16 = 0x0020;
const QOS: u16 = 0x0040;
const WORST_QOS: u16 = 0x0080;
const PRIVATE_STREAM: u16 = 0x0100;
const PAUSE: u16 = 0x0200;
const VIEW: u16 = 0x0400;
const BATCH: u16 = 0x0800;
const QUALIFIED_STREAM: u16 = 0x1000;

/// Opens a stream, or, on an open one, changes what is wanted of it.
///
/// Shape behind the fixed part: \[priority class `u8`, count `u16ob`\]; \[qos\]; \[worst qos\]; key, always;
/// \[extended header\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RequestMsg<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream, chosen by who asks.
    pub stream_id: i32,
    /// The type of the payload.
    pub container_type: DataType,
    /// Updates are wanted; else one image.
    pub streaming: bool,
    /// The key is wanted in updates.
    pub key_in_updates: bool,
    /// Conflation information is wanted in updates.
    pub conflation_info_in_updates: bool,
    /// No image is wanted.
    pub no_refresh: bool,
    /// The stream is for this consumer alone.
    pub private_stream: bool,
    /// Updates may stop until asked for again.
    pub pause: bool,
    /// The payload names the fields wanted.
    pub view: bool,
    /// The payload names several items.
    pub batch: bool,
    /// The stream is a qualified one.
    pub qualified_stream: bool,
    /// How important the item is.
    pub priority: Option<Priority>,
    /// The quality wanted, or the best of a range.
    pub qos: Option<Qos>,
    /// The worst of a range of qualities.
    pub worst_qos: Option<Qos>,
    /// What is wanted.
    pub key: Key<'a>,
    /// Bytes that the two ends agree on, at most 255.
    pub extended_header: Option<&'a [u8]>,
    /// The payload.
    pub payload: &'a [u8],
}

/// How important an item is to who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Higher is more important.
    pub class: u8,
    /// How many in this class ask.
    pub count: u16,
}

msg_class!(RequestMsg, Request);

impl<'a> RequestMsg<'a> {
    #[inline]
    pub(super) fn read(head: &MsgHead, mut r: Reader<'a>, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let flags = head.flags;
        let has = |flag| flags & flag != 0;
        let priority = optional(flags, PRIORITY, || {
            Ok(Priority { class: r.u8(Place::Priority)?, count: r.u16ob(Place::Priority)? })
        })?;
        Ok(RequestMsg {
            domain: head.domain,
            stream_id: head.stream_id,
            container_type: head.container_type,
            streaming: has(STREAMING),
            key_in_updates: has(KEY_IN_UPDATES),
            conflation_info_in_updates: has(CONFLATION_INFO_IN_UPDATES),
            no_refresh: has(NO_REFRESH),
            private_stream: has(PRIVATE_STREAM),
            pause: has(PAUSE),
            view: has(VIEW),
            batch: has(BATCH),
            qualified_stream: has(QUALIFIED_STREAM),
            priority,
            qos: optional(flags, QOS, || Qos::read(&mut r))?,
            worst_qos: optional(flags, WORST_QOS, || Qos::read(&mut r))?,
            key: Key::parse(r.buf15(Place::Key)?)?,
            extended_header: extended_header(&mut r, flags)?,
            payload,
        })
    }

    fn flags(&self) -> u16 {
        flag_bits! {
            self.extended_header.is_some() => EXTENDED_HEADER,
            self.priority.is_some() => PRIORITY,
            self.streaming => STREAMING,
            self.key_in_updates => KEY_IN_UPDATES,
            self.conflation_info_in_updates => CONFLATION_INFO_IN_UPDATES,
            self.no_refresh => NO_REFRESH,
            self.qos.is_some() => QOS,
            self.worst_qos.is_some() => WORST_QOS,
            self.private_stream => PRIVATE_STREAM,
            self.pause => PAUSE,
            self.view => VIEW,
            self.batch => BATCH,
            self.qualified_stream => QUALIFIED_STREAM,
        }
    }

    fn put_parts(&self, w: &mut Writer<'_>) {
        if let Some(priority) = self.priority {
            w.u8(priority.class);
            w.u16ob(priority.count);
        }
        for qos in [self.qos, self.worst_qos].into_iter().flatten() {
            qos.put_content(w);
        }
        Key::put_optional(Some(&self.key), w, Place::Key);
        put_extended_header(w, self.extended_header);
    }
}
