//! Any message that JSON can say: for tests that go there and back.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use rwf::{
    AsciiString, Attributes, Buffer, Conflation, DataState, DataType, Date, DateTime, Dictionary, Domain,
    Enum, FilterAction, GenericMsg, Hint, Key, MapAction, MapHead, PostMsg, PostUserInfo, Primitive, Qos,
    Rate, Real, RefreshMsg, RmtesString, SeriesHead, State, StateCode, StatusMsg, StreamState, Time,
    Timeliness, UpdateMsg, UpdateType, Utf8String, Value, VectorAction, VectorHead, Writer, encode_to_vec,
};

/// A value that owns its bytes.
#[derive(Clone, Debug)]
enum Leaf {
    Plain(Value<'static>),
    State(StreamState, DataState, u8, String),
    Bytes(DataType, Vec<u8>),
    Array(DataType, Vec<Leaf>),
    Container(Tree),
}

/// A container that owns its parts.
#[derive(Clone, Debug)]
enum Tree {
    Fields(Vec<Leaf>),
    Elements(Vec<(String, Leaf)>),
    Map { keys: Vec<Leaf>, entries: Box<Tree>, summary: bool, hint: Option<u32>, permission: Option<Vec<u8>> },
    Vector { entries: Vec<u32>, each: Box<Tree>, sorting: bool },
    Series { count: usize, each: Box<Tree>, hint: Option<u32> },
    Filter(Vec<(u8, Tree)>),
    Opaque(Vec<u8>),
    Xml(String),
}

/// The dictionary that the fields are from: each leaf becomes the field of its type.
pub(crate) fn dictionary() -> Dictionary {
    super::shared_dictionary()
}

impl Leaf {
    fn data_type(&self) -> DataType {
        match self {
            Leaf::Container(tree) => tree.data_type(),
            Leaf::Array(..) => DataType::ARRAY,
            _ => self.value().data_type(),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Leaf::Plain(value) => *value,
            Leaf::State(stream, data, code, text) => Value::State(State {
                stream: *stream,
                data: *data,
                code: StateCode(*code),
                text: text.as_bytes(),
            }),
            Leaf::Bytes(data_type, bytes) if bytes.is_empty() => Value::Blank(*data_type),
            Leaf::Bytes(DataType::BUFFER, bytes) => Value::Buffer(Buffer(bytes)),
            Leaf::Bytes(DataType::ASCII_STRING, bytes) => Value::Ascii(AsciiString(bytes)),
            Leaf::Bytes(DataType::UTF8_STRING, bytes) => Value::Utf8(Utf8String(bytes)),
            Leaf::Bytes(_, bytes) => Value::Rmtes(RmtesString(bytes)),
            Leaf::Array(..) | Leaf::Container(_) => Value::Blank(DataType::UNKNOWN),
        }
    }
}

impl Tree {
    fn data_type(&self) -> DataType {
        match self {
            Tree::Fields(_) => DataType::FIELD_LIST,
            Tree::Elements(_) => DataType::ELEMENT_LIST,
            Tree::Map { .. } => DataType::MAP,
            Tree::Vector { .. } => DataType::VECTOR,
            Tree::Series { .. } => DataType::SERIES,
            Tree::Filter(_) => DataType::FILTER_LIST,
            Tree::Opaque(_) => DataType::OPAQUE,
            Tree::Xml(_) => DataType::XML,
        }
    }

    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Tree::Fields(leaves) => fields(leaves, w),
            Tree::Elements(leaves) => elements(leaves, w),
            Tree::Map { keys, entries, summary, hint, permission } => {
                let key_type = keys.first().map_or(DataType::UINT, Leaf::data_type);
                // Without anything in it, a container's type has no place in JSON.
                let holds = if keys.is_empty() && !summary { DataType::NO_DATA } else { entries.data_type() };
                w.map(&MapHead { total_count_hint: *hint, ..MapHead::new(key_type, holds) }, |m| {
                    if *summary {
                        m.summary(|w| entries.encode(w));
                    }
                    for key in keys {
                        m.entry(MapAction::Add, key.value(), permission.as_deref(), |w| entries.encode(w));
                    }
                    if let (Some(key), true) = (keys.first(), *summary) {
                        m.delete(key.value());
                    }
                });
            }
            Tree::Vector { entries, each, sorting } => {
                let holds = if entries.is_empty() { DataType::NO_DATA } else { each.data_type() };
                w.vector(&VectorHead { supports_sorting: *sorting, ..VectorHead::new(holds) }, |v| {
                    for index in entries {
                        v.entry(VectorAction::Insert, *index, None, |w| each.encode(w));
                        v.entry(VectorAction::Clear, *index, None, |_| ());
                    }
                });
            }
            Tree::Series { count, each, hint } => {
                let holds = if *count == 0 { DataType::NO_DATA } else { each.data_type() };
                w.series(&SeriesHead { total_count_hint: *hint, ..SeriesHead::new(holds) }, |s| {
                    (0..*count).for_each(|_| s.entry(|w| each.encode(w)));
                });
            }
            Tree::Filter(entries) => {
                let holds = entries.first().map_or(DataType::NO_DATA, |(_, tree)| tree.data_type());
                w.filter_list(holds, None, |f| {
                    for (id, tree) in entries {
                        let own = Some(tree.data_type()).filter(|own| *own != holds);
                        f.entry_with(FilterAction::Set, *id, own, None, |w| tree.encode(w));
                    }
                });
            }
            Tree::Opaque(bytes) => w.bytes(bytes),
            Tree::Xml(text) => w.bytes(text.as_bytes()),
        }
    }
}

fn fields(leaves: &[Leaf], w: &mut Writer<'_>) {
    let dictionary = dictionary();
    w.field_list(|f| {
        f.begin_standard();
        for leaf in leaves {
            let Some(field) = dictionary.fields().find(|field| field.data_type == leaf.data_type()) else {
                continue;
            };
            match leaf {
                Leaf::Array(item_type, items) => f.array(field.id, *item_type, 0, |a| {
                    items.iter().for_each(|item| a.put(item.value()));
                }),
                Leaf::Container(tree) => f.container(field.id, |w| tree.encode(w)),
                leaf => f.put(field.id, leaf.value()),
            }
        }
    });
}

fn elements(leaves: &[(String, Leaf)], w: &mut Writer<'_>) {
    w.element_list(|e| {
        e.begin_standard();
        for (name, leaf) in leaves {
            match leaf {
                Leaf::Array(item_type, items) => e.array(name, *item_type, 0, |a| {
                    items.iter().for_each(|item| a.put(item.value()));
                }),
                Leaf::Container(tree) => e.container(name, tree.data_type(), |w| tree.encode(w)),
                leaf => e.put(name, leaf.value()),
            }
        }
        e.no_data("nothing");
    });
}

fn real() -> BoxedStrategy<Real> {
    let mantissa = prop_oneof![-1000..1000i64, any::<i64>()];
    let finite = (mantissa, 0u8..=30).prop_filter_map("one that fits a hint of ten", |(mantissa, hint)| {
        let real = Real::new(mantissa, Hint::new(hint)?);
        Real::from_decimal_text(&real.to_string()).is_ok().then_some(real)
    });
    let special = prop_oneof![Just(Real::Infinity), Just(Real::NegativeInfinity), Just(Real::NotANumber)];
    prop_oneof![9 => finite, 1 => special].boxed()
}

fn time() -> BoxedStrategy<Time> {
    let whole =
        (0..24u8, 0..60u8, 0..=60u8).prop_map(|(hour, minute, second)| Time::new(hour, minute, second));
    let exact = (0..86_400_000_000_000u64).prop_map(Time::from_nanos_of_day);
    let hours = (0..24u8).prop_map(|hour| Time { hour, ..Time::BLANK });
    prop_oneof![whole, exact, hours].boxed()
}

fn date() -> BoxedStrategy<Date> {
    (1..=31u8, 0..=12u8, 1..=u16::MAX).prop_map(|(day, month, year)| Date { day, month, year }).boxed()
}

fn qos() -> BoxedStrategy<Qos> {
    let timeliness = prop_oneof![
        Just(Timeliness::RealTime),
        Just(Timeliness::DelayedUnknown),
        any::<u16>().prop_map(Timeliness::Delayed)
    ];
    let rate = prop_oneof![
        Just(Rate::TickByTick),
        Just(Rate::JustInTimeConflated),
        any::<u16>().prop_map(Rate::TimeConflated)
    ];
    (timeliness, rate, any::<bool>())
        .prop_map(|(timeliness, rate, dynamic)| Qos { timeliness, rate, dynamic })
        .boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof!["[ -~]{0,12}", "\\PC{0,8}", "[\"\\\\\t\n\u{e9}\u{20ac}\u{7f}]{1,6}"].boxed()
}

fn bytes() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..12).boxed()
}

/// RMTES says that it is UTF-8 where it is more than ASCII.
fn rmtes(text: String) -> Vec<u8> {
    if text.is_ascii() { text.into_bytes() } else { [b"\x1b%0", text.as_bytes()].concat() }
}

/// A value of a type that may stand in an array and be a key.
fn item() -> BoxedStrategy<Leaf> {
    let plain = prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        any::<f32>().prop_filter("equal to itself", |f| !f.is_nan()).prop_map(Value::Float),
        any::<f64>().prop_filter("equal to itself", |f| !f.is_nan()).prop_map(Value::Double),
        real().prop_map(Value::Real),
        date().prop_map(Value::Date),
        time().prop_map(Value::Time),
        (date(), time()).prop_map(|(date, time)| Value::DateTime(DateTime { date, time })),
        qos().prop_map(Value::Qos),
        any::<u16>().prop_map(|value| Value::Enum(Enum(value))),
    ];
    let state = (
        prop_oneof![Just(StreamState::Open), Just(StreamState::Closed), Just(StreamState::Redirected)],
        prop_oneof![Just(DataState::NoChange), Just(DataState::Ok), Just(DataState::Suspect)],
        any::<u8>(),
        text(),
    );
    prop_oneof![
        8 => plain.prop_map(Leaf::Plain),
        1 => state.prop_map(|(stream, data, code, text)| Leaf::State(stream, data, code, text)),
        1 => bytes().prop_map(|bytes| Leaf::Bytes(DataType::BUFFER, bytes)),
        1 => text().prop_map(|text| Leaf::Bytes(DataType::ASCII_STRING, text.into_bytes())),
        1 => text().prop_map(|text| Leaf::Bytes(DataType::UTF8_STRING, text.into_bytes())),
        1 => text().prop_map(|text| Leaf::Bytes(DataType::RMTES_STRING, rmtes(text))),
    ]
    .boxed()
}

fn leaf() -> BoxedStrategy<Leaf> {
    let blank = (3u8..=19).prop_filter("a primitive", |n| DataType(*n).is_primitive());
    let array =
        (item(), 0..4usize).prop_map(|(item, count)| Leaf::Array(item.data_type(), vec![item; count]));
    prop_oneof![
        6 => item(),
        1 => blank.prop_map(|number| Leaf::Plain(Value::Blank(DataType(number)))),
        1 => array,
    ]
    .boxed()
}

fn tree() -> BoxedStrategy<Tree> {
    let flat = prop_oneof![
        4 => vec(leaf(), 0..8).prop_map(Tree::Fields),
        2 => vec(("[ -~]{0,6}", leaf()), 0..6).prop_map(Tree::Elements),
        1 => vec(any::<u8>(), 1..12).prop_map(Tree::Opaque),
        1 => "\\PC{1,12}".prop_map(Tree::Xml),
    ];
    flat.prop_recursive(4, 24, 4, |inner| {
        let each = inner.clone().prop_map(Box::new).boxed();
        let key = item().prop_filter("no blank", |key| key.value().content_len() > 0);
        let map = (key, 0..4usize, each.clone(), any::<bool>(), of(0..1u32 << 30), of(bytes()));
        let map = map.prop_map(|(key, count, entries, summary, hint, permission)| Tree::Map {
            keys: vec![key; count],
            entries,
            summary,
            hint,
            permission,
        });
        let vector = (vec(0..1u32 << 30, 0..4), each.clone(), any::<bool>());
        let vector = vector.prop_map(|(entries, each, sorting)| Tree::Vector { entries, each, sorting });
        let series = (0..4usize, each, of(0..1u32 << 30));
        let series = series.prop_map(|(count, each, hint)| Tree::Series { count, each, hint });
        let holding =
            vec(("[a-z]{1,6}", inner.clone().prop_map(Leaf::Container)), 1..3).prop_map(Tree::Elements);
        let fields = vec(inner.clone().prop_map(Leaf::Container), 1..3).prop_map(Tree::Fields);
        prop_oneof![
            map,
            vector,
            series,
            vec((any::<u8>(), inner), 0..4).prop_map(Tree::Filter),
            holding,
            fields
        ]
    })
    .boxed()
}

/// Sequence number, part number, update type, who posted, conflation, quality.
type Numbers = (Option<u32>, Option<u16>, u8, Option<PostUserInfo>, Option<Conflation>, Option<Qos>);

/// A message: its class, the parts of its header, its payload.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    class: u8,
    domain: u8,
    stream_id: i32,
    name: Option<(String, u8)>,
    service_id: Option<u16>,
    attributes: Option<Tree>,
    state: (StreamState, DataState, u8, String),
    flags: [bool; 6],
    numbers: Numbers,
    permission_data: Option<Vec<u8>>,
    extended_header: Option<Vec<u8>>,
    payload: Option<Tree>,
}

pub(crate) fn message() -> BoxedStrategy<Message> {
    let address = (any::<u32>(), any::<u32>());
    let numbers = (
        of(any::<u32>()),
        of(0..0x8000u16),
        any::<u8>(),
        of(address.prop_map(|(address, user_id)| PostUserInfo { address, user_id })),
        of((0..0x8000u16, any::<u16>()).prop_map(|(count, time)| Conflation { count, time })),
        of(qos()),
    );
    let states = prop_oneof![
        Just(StreamState::Open),
        Just(StreamState::NonStreaming),
        Just(StreamState::ClosedRecover)
    ];
    let state = (states, prop_oneof![Just(DataState::Ok), Just(DataState::Suspect)], any::<u8>(), text());
    let key = (of(("\\PC{1,12}", any::<u8>())), of(any::<u16>()), of(tree()));
    // Of a login by cookie or token the name is not told.
    let ids = (0..5u8, 2..=u8::MAX, any::<i32>(), key);
    (ids, state, any::<[bool; 6]>(), numbers, of(bytes()), of(bytes()), of(tree()))
        .prop_map(
            |(
                (class, domain, stream_id, key),
                state,
                flags,
                numbers,
                permission_data,
                extended_header,
                payload,
            )| Message {
                class,
                domain,
                stream_id,
                name: key.0,
                service_id: key.1,
                attributes: key.2,
                state,
                flags,
                numbers,
                permission_data,
                extended_header,
                payload,
            },
        )
        .boxed()
}

fn encoded(tree: &Option<Tree>) -> (DataType, Vec<u8>) {
    match tree {
        Some(tree) => (tree.data_type(), encode_to_vec(|w| tree.encode(w)).expect("legal")),
        None => (DataType::NO_DATA, Vec::new()),
    }
}

impl Message {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        let (container_type, payload) = encoded(&self.payload);
        let (attributes_type, data) = encoded(&self.attributes);
        let key = Key {
            service_id: self.service_id,
            name: self.name.as_ref().map(|(name, _)| name.as_bytes()),
            name_type: self.name.as_ref().map(|(_, name_type)| *name_type),
            filter: self.numbers.0,
            identifier: self.numbers.1.map(i32::from),
            attributes: self
                .attributes
                .as_ref()
                .map(|_| Attributes { container_type: attributes_type, data: &data }),
        };
        let key = Some(key).filter(|_| self.flags[0]);
        let (domain, stream_id) = (Domain(self.domain), self.stream_id);
        let (stream, data, code, text) = &self.state;
        let state = State { stream: *stream, data: *data, code: StateCode(*code), text: text.as_bytes() };
        let (seq_num, part_num, number, post_user_info, conflation, qos) = self.numbers;
        let [_, a, b, c, d, e] = self.flags;
        let permission_data = self.permission_data.as_deref();
        let extended_header = self.extended_header.as_deref();
        let payload = &payload[..];
        match self.class {
            0 => UpdateMsg {
                update_type: UpdateType(number),
                do_not_cache: a,
                do_not_conflate: b,
                do_not_ripple: c,
                discardable: d,
                seq_num,
                conflation,
                permission_data,
                key,
                extended_header,
                post_user_info,
                payload,
                ..UpdateMsg::new(domain, stream_id, container_type)
            }
            .encode(w),
            1 => RefreshMsg {
                solicited: a,
                complete: b,
                clear_cache: c,
                do_not_cache: d,
                private_stream: e,
                qualified_stream: a,
                seq_num,
                state,
                permission_data,
                qos,
                key,
                extended_header,
                post_user_info,
                part_num,
                payload,
                ..RefreshMsg::new(domain, stream_id, container_type)
            }
            .encode(w),
            2 => StatusMsg {
                clear_cache: a,
                private_stream: b,
                qualified_stream: c,
                state: Some(state).filter(|_| d),
                permission_data,
                key,
                extended_header,
                post_user_info,
                payload,
                ..StatusMsg::new(domain, stream_id, container_type)
            }
            .encode(w),
            3 => GenericMsg {
                complete: a,
                provider_driven: b,
                seq_num,
                secondary_seq_num: seq_num,
                permission_data,
                key,
                extended_header,
                part_num,
                payload,
                ..GenericMsg::new(domain, stream_id, container_type)
            }
            .encode(w),
            _ => PostMsg {
                complete: a,
                ack: b,
                post_user_info: post_user_info.unwrap_or(PostUserInfo { address: 0, user_id: 0 }),
                seq_num,
                post_id: seq_num,
                permission_data,
                key,
                extended_header,
                part_num,
                user_rights: part_num,
                payload,
                ..PostMsg::new(domain, stream_id, container_type)
            }
            .encode(w),
        }
    }
}
