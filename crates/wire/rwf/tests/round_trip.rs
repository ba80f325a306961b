//! Whatever can be encoded decodes to the same: values in every form, lists with and without set definitions,
//! nested containers, messages with any combination of parts.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use tickcast_rwf::{
    AckMsg, Array, AsciiString, Attributes, Buffer, CloseMsg, Conflation, DataState, DataType, Date,
    DateTime, Decode, Domain, ElementList, ElementListHead, ElementSetDef, ElementSetEntry, EncodeError,
    Enum, FieldList, FieldListHead, FieldListInfo, FieldSetDef, FieldSetEntry, FilterAction, FilterList,
    FixedForm, GenericMsg, Hint, Key, Map, MapAction, MapHead, Msg, NakCode, PostMsg, PostUserInfo,
    Primitive, Priority, Qos, Rate, Real, RefreshMsg, RequestMsg, RmtesString, Series, SeriesHead,
    SetDefinitions, SetHead, State, StateCode, StatusMsg, StreamState, Time, Timeliness, UpdateMsg,
    UpdateType, Utf8String, Value, Vector, VectorAction, VectorHead, Writer, encode_to_vec, peek,
};

/// A value that owns its bytes, so that proptest can make and shrink it.
#[derive(Clone, Debug)]
enum Owned {
    Plain(Value<'static>),
    State(StreamState, DataState, u8, Vec<u8>),
    Bytes(DataType, Vec<u8>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Owned::Plain(value) => *value,
            Owned::State(stream, data, code, text) => {
                Value::State(State { stream: *stream, data: *data, code: StateCode(*code), text })
            }
            Owned::Bytes(data_type, bytes) if bytes.is_empty() => Value::Blank(*data_type),
            Owned::Bytes(DataType::BUFFER, bytes) => Value::Buffer(Buffer(bytes)),
            Owned::Bytes(DataType::ASCII_STRING, bytes) => Value::Ascii(AsciiString(bytes)),
            Owned::Bytes(DataType::UTF8_STRING, bytes) => Value::Utf8(Utf8String(bytes)),
            Owned::Bytes(_, bytes) => Value::Rmtes(RmtesString(bytes)),
        }
    }
}

fn real() -> impl Strategy<Value = Real> {
    let hint = (0u8..=30).prop_map(|hint| Hint::new(hint).expect("in range"));
    prop_oneof![
        20 => (any::<i64>(), hint).prop_map(|(mantissa, hint)| Real::new(mantissa, hint)),
        1 => Just(Real::Infinity),
        1 => Just(Real::NegativeInfinity),
        1 => Just(Real::NotANumber),
    ]
}

fn date() -> impl Strategy<Value = Date> {
    (any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(day, month, year)| Date { day, month, year })
}

fn time() -> impl Strategy<Value = Time> {
    let parts = (0u8..24, 0u8..60, 0u8..=60, 0u16..1000, 0u16..1000, 0u16..1000);
    let shorter = prop_oneof![Just(0usize), Just(1), Just(2), Just(3), Just(4)];
    (parts, shorter).prop_map(|((hour, minute, second, millisecond, microsecond, nanosecond), kept)| {
        let keep = |at, value| if kept > at { value } else { 0 };
        Time {
            hour,
            minute,
            second: if kept > 0 { second } else { 0 },
            millisecond: keep(1, millisecond),
            microsecond: keep(2, microsecond),
            nanosecond: keep(3, nanosecond),
        }
    })
}

fn qos() -> impl Strategy<Value = Qos> {
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
    (timeliness, rate, any::<bool>()).prop_map(|(timeliness, rate, dynamic)| Qos {
        timeliness,
        rate,
        dynamic,
    })
}

fn stream_state() -> impl Strategy<Value = StreamState> {
    prop_oneof![
        Just(StreamState::Open),
        Just(StreamState::NonStreaming),
        Just(StreamState::ClosedRecover),
        Just(StreamState::Closed),
        Just(StreamState::Redirected)
    ]
}

fn data_state() -> impl Strategy<Value = DataState> {
    prop_oneof![Just(DataState::NoChange), Just(DataState::Ok), Just(DataState::Suspect)]
}

/// Bytes around the lengths at which the forms of lengths change.
fn bytes() -> BoxedStrategy<Vec<u8>> {
    let (short, around_128, around_254) = (0..40, 120..135, 250..260);
    let of_length = |range| vec(any::<u8>(), range);
    prop_oneof![6 => of_length(short), 1 => of_length(around_128), 1 => of_length(around_254)].boxed()
}

fn value() -> impl Strategy<Value = Owned> {
    let plain = prop_oneof![
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        any::<f32>().prop_map(Value::Float),
        any::<f64>().prop_map(Value::Double),
        real().prop_map(Value::Real),
        date().prop_map(Value::Date),
        time().prop_map(Value::Time),
        (date(), time()).prop_map(|(date, time)| Value::DateTime(DateTime { date, time })),
        qos().prop_map(Value::Qos),
        any::<u16>().prop_map(|value| Value::Enum(Enum(value))),
        (3u8..=19)
            .prop_filter("a primitive", |n| DataType(*n).is_primitive())
            .prop_map(|n| Value::Blank(DataType(n))),
    ];
    let state = (stream_state(), data_state(), any::<u8>(), bytes());
    prop_oneof![
        4 => plain.prop_map(Owned::Plain),
        1 => state.prop_map(|(stream, data, code, text)| Owned::State(stream, data, code, text)),
        2 => (16u8..=19, bytes()).prop_map(|(data_type, bytes)| Owned::Bytes(DataType(data_type), bytes)),
    ]
}

/// What a value reads as: an all-zero date is a blank.
fn read_back(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Date(Date::BLANK) => Value::Blank(DataType::DATE),
        value => value,
    }
}

/// All forms in which a set definition can hold values of the type.
fn set_types(data_type: DataType) -> impl Iterator<Item = DataType> {
    (0..=u8::MAX).map(DataType).filter(move |set_type| {
        let possible = set_type.is_primitive() || set_type.is_set_fixed();
        possible && set_type.base() == data_type
    })
}

testkit::properties! {
    #[test]
    fn a_value_reads_as_it_was_written(owned in value()) {
        let value = owned.value();
        let content = encode_to_vec(|w| value.put_content(w)).expect("short");
        prop_assert_eq!(content.len(), value.content_len());
        prop_assert_eq!(Value::decode(value.data_type(), &content), Ok(read_back(value)));
    }

    #[test]
    fn a_value_in_set_data_reads_as_it_was_written_in_every_form_that_holds_it(owned in value()) {
        let value = owned.value();
        for set_type in set_types(value.data_type()) {
            let entries = [FieldSetEntry { id: 7, data_type: set_type }];
            let set = SetHead { explicit_id: None, entries: &entries };
            let head = FieldListHead { info: None, set: Some(set) };
            let definitions = [FieldSetDef { id: 0, entries: &entries }];
            let map = MapHead {
                set_definitions: Some(SetDefinitions::Fields(&definitions)),
                ..MapHead::new(DataType::UINT, DataType::FIELD_LIST)
            };
            let encoded = encode_to_vec(|w| w.map(&map, |m| {
                m.entry(MapAction::Add, 1u64, None, |w| w.field_list_with(&head, |f| f.put_set(value)));
            }));
            // A fixed form need not hold the value; a variable one always does.
            let Ok(bytes) = encoded else {
                prop_assert!(FixedForm::of(set_type).is_some(), "{set_type}: {encoded:?}");
                continue;
            };
            let map = Map::parse(&bytes).expect("written");
            let definitions = map.field_set_defs().expect("written").expect("written");
            let entry = map.entries().next().expect("one").expect("whole");
            let list = FieldList::parse(entry.data.expect("an add has data")).expect("written");
            let fields: Result<Vec<_>, _> = list.all_entries(Some(&definitions)).collect();
            let fields = fields.expect("whole");
            prop_assert_eq!(fields.len(), 1);
            prop_assert_eq!((fields[0].id, fields[0].set_type), (7, set_type));
            prop_assert_eq!(Value::decode(set_type, fields[0].content), Ok(read_back(value)), "{}", set_type);
        }
    }

    #[test]
    fn a_real_prints_as_text_that_reads_as_the_same_real(mantissa in any::<i64>(), hint in 0u8..=14) {
        let real = Real::new(mantissa, Hint::new(hint).expect("in range"));
        prop_assert_eq!(Real::from_decimal_text(&real.to_string()), Ok(real));
    }

    #[test]
    fn a_real_is_the_double_nearest_to_its_text(mantissa in -(1i64 << 53)..(1i64 << 53), hint in 0u8..=30) {
        let real = Real::new(mantissa, Hint::new(hint).expect("in range"));
        prop_assert_eq!(Ok(real.to_f64()), real.to_string().parse());
    }

    #[test]
    fn an_array_has_its_items_back(items in vec(real(), 0..20), texts in vec(bytes(), 0..10)) {
        let reals = encode_to_vec(|w| w.array(DataType::REAL, 0, |a| {
            items.iter().for_each(|item| a.put(*item));
        }));
        let reals = reals.expect("short");
        let array = Array::decode(&reals).expect("written").expect("not blank");
        let read: Vec<_> = array.values().collect::<Result<_, _>>().expect("whole");
        prop_assert_eq!(read, items.into_iter().map(Value::Real).collect::<Vec<_>>());
        let strings = encode_to_vec(|w| w.array(DataType::BUFFER, 0, |a| {
            texts.iter().for_each(|text| a.put(Buffer(text)));
        }));
        let strings = strings.expect("short");
        let array = Array::decode(&strings).expect("written").expect("not blank");
        let read: Vec<_> = array.items().map(|item| item.expect("whole").to_vec()).collect();
        prop_assert_eq!(read, texts);
    }

    #[test]
    fn a_field_list_has_its_fields_back(
        fields in vec((any::<i16>(), value()), 0..30),
        info in of((0u16..0x8000, any::<u16>())),
    ) {
        let info = info.map(|(dictionary_id, list_number)| FieldListInfo { dictionary_id, list_number });
        let bytes = encode_to_vec(|w| w.field_list_with(&FieldListHead { info, set: None }, |f| {
            fields.iter().for_each(|(id, value)| f.put(*id, value.value()));
        }));
        let bytes = bytes.expect("short");
        let list = FieldList::parse(&bytes).expect("written");
        prop_assert_eq!(list.info, info);
        prop_assert_eq!(usize::from(list.standard_count()), fields.len());
        let entries: Vec<_> = list.entries().collect::<Result<_, _>>().expect("whole");
        prop_assert_eq!(entries.len(), fields.len());
        for (entry, (id, value)) in entries.iter().zip(&fields) {
            let value = value.value();
            prop_assert_eq!(entry.id, *id);
            prop_assert_eq!(Value::decode(value.data_type(), entry.content), Ok(read_back(value)));
        }
    }

    #[test]
    fn element_lists_with_set_data_and_standard_data_have_their_elements_back(
        in_set in vec((bytes(), value()), 0..10),
        standard in vec((bytes(), value()), 0..10),
        id in 0u16..=15,
    ) {
        let entries: Vec<_> = in_set
            .iter()
            .map(|(name, value)| ElementSetEntry { name, data_type: value.value().data_type() })
            .collect();
        let definitions = [ElementSetDef { id, entries: &entries }];
        let head = SeriesHead {
            set_definitions: Some(SetDefinitions::Elements(&definitions)),
            ..SeriesHead::new(DataType::ELEMENT_LIST)
        };
        let set = Some(SetHead { explicit_id: Some(id), entries: &entries });
        let list_head = ElementListHead { list_number: Some(9), set };
        let bytes = encode_to_vec(|w| w.series(&head, |s| s.entry(|w| w.element_list_with(&list_head, |e| {
            in_set.iter().for_each(|(_, value)| e.put_set(value.value()));
            standard.iter().for_each(|(name, value)| e.put(name, value.value()));
        }))));
        let bytes = bytes.expect("short");
        let series = Series::parse(&bytes).expect("written");
        let definitions = series.element_set_defs().expect("written");
        let entry = series.entries().next().expect("one").expect("whole");
        let list = ElementList::parse(entry).expect("written");
        let read: Vec<_> = list.all_entries(definitions.as_ref()).collect::<Result<_, _>>().expect("whole");
        prop_assert_eq!(read.len(), in_set.len() + standard.len());
        for (element, (name, value)) in read.iter().zip(in_set.iter().chain(&standard)) {
            prop_assert_eq!(element.name, &name[..]);
            prop_assert_eq!(element.value(), Ok(read_back(value.value())));
        }
    }

    #[test]
    fn nested_containers_of_any_length_have_their_parts_back(
        rows in vec((bytes(), bytes(), of(bytes())), 1..12),
        summary in of(bytes()),
        hint in of(0u32..1 << 30),
    ) {
        let total_count_hint = hint;
        let head = VectorHead { total_count_hint, supports_sorting: true, ..VectorHead::new(DataType::MAP) };
        let map_head = MapHead { total_count_hint, ..MapHead::new(DataType::BUFFER, DataType::FILTER_LIST) };
        let bytes = encode_to_vec(|w| w.vector(&head, |v| {
            if let Some(summary) = &summary {
                v.summary(|w| w.bytes(summary));
            }
            for (index, (key, data, permission)) in (0u32..).zip(&rows) {
                v.entry(VectorAction::Set, index << 20, permission.as_deref(), |w| w.map(&map_head, |m| {
                    let key = [&[1], &key[..]].concat();
                    m.entry(MapAction::Add, Buffer(&key), permission.as_deref(), |w| {
                        w.filter_list(DataType::OPAQUE, None, |f| {
                            f.entry(FilterAction::Set, 1, |w| w.bytes(data));
                        });
                    });
                    m.delete(Buffer(&key));
                }));
            }
        }));
        let bytes = bytes.expect("short");
        let vector = Vector::parse(&bytes).expect("written");
        prop_assert_eq!((vector.summary, vector.total_count_hint), (summary.as_deref(), hint));
        let permitted = rows.iter().any(|(_, _, permission)| permission.is_some());
        prop_assert_eq!(vector.entry_permission_data, permitted);
        let entries: Vec<_> = vector.entries().collect::<Result<_, _>>().expect("whole");
        prop_assert_eq!(entries.len(), rows.len());
        for (entry, (key, data, permission)) in entries.iter().zip(&rows) {
            prop_assert_eq!(entry.permission_data, permission.as_deref());
            let map = Map::parse(entry.data.expect("a set has data")).expect("written");
            let entries: Vec<_> = map.entries().collect::<Result<_, _>>().expect("whole");
            prop_assert_eq!(entries.len(), 2);
            prop_assert_eq!((entries[1].action, entries[1].data), (MapAction::Delete, None));
            prop_assert_eq!(&entries[0].key[1..], &key[..]);
            let list = FilterList::parse(entries[0].data.expect("an add has data")).expect("written");
            let filter = list.entries().next().expect("one").expect("whole");
            prop_assert_eq!(filter.data, Some(&data[..]));
        }
    }
}

/// Parts that several classes have, owned so that messages can borrow them.
#[derive(Clone, Debug)]
struct Parts {
    domain: u8,
    stream_id: i32,
    flags: [bool; 9],
    number: Option<u32>,
    second: Option<u32>,
    part_num: Option<u16>,
    code: u8,
    state: (StreamState, DataState, u8),
    qos: (Option<Qos>, Option<Qos>),
    user: Option<(u32, u32)>,
    key: Option<OwnedKey>,
    request_key: Option<OwnedKey>,
    /// Group id, state text, payload.
    bytes: [Vec<u8>; 3],
    /// Extended header, permission data, ack text.
    optional: [Option<Vec<u8>>; 3],
}

#[derive(Clone, Debug)]
struct OwnedKey {
    service_id: Option<u16>,
    name: Option<Vec<u8>>,
    name_type: Option<u8>,
    filter: Option<u32>,
    identifier: Option<i32>,
    attributes: Option<Vec<u8>>,
}

fn short() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..=255).boxed()
}

fn key() -> impl Strategy<Value = OwnedKey> {
    let numbers = (of(any::<u16>()), of(any::<u8>()), of(any::<u32>()), of(any::<i32>()));
    (numbers, of(short()), of(bytes())).prop_map(
        |((service_id, name_type, filter, identifier), name, attributes)| {
            let name_type = name_type.filter(|_| name.is_some());
            OwnedKey { service_id, name, name_type, filter, identifier, attributes }
        },
    )
}

impl OwnedKey {
    fn key(&self) -> Key<'_> {
        Key {
            service_id: self.service_id,
            name: self.name.as_deref(),
            name_type: self.name_type,
            filter: self.filter,
            identifier: self.identifier,
            attributes: self
                .attributes
                .as_ref()
                .map(|data| Attributes { container_type: DataType::OPAQUE, data }),
        }
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let head = (any::<u8>(), any::<i32>(), any::<[bool; 9]>(), any::<u8>());
    let numbers = (of(any::<u32>()), of(any::<u32>()), of(0u16..0x8000), of(any::<(u32, u32)>()));
    let quality = ((stream_state(), data_state(), any::<u8>()), (of(qos()), of(qos())));
    let keys = (of(key()), of(key()));
    let texts = ([short(), bytes(), bytes()], [of(short()), of(bytes()), of(bytes())]);
    (head, numbers, quality, keys, texts).prop_map(
        |(head, numbers, (state, qos), keys, (bytes, optional))| {
            let (domain, stream_id, flags, code) = head;
            let (number, second, part_num, user) = numbers;
            let (key, request_key) = keys;
            Parts {
                domain,
                stream_id,
                flags,
                number,
                second,
                part_num,
                code,
                state,
                qos,
                user,
                key,
                request_key,
                bytes,
                optional,
            }
        },
    )
}

const PAYLOAD_TYPE: DataType = DataType::OPAQUE;

impl Parts {
    /// One message of each class.
    fn messages(&self) -> [Msg<'_>; 8] {
        [
            Msg::Request(self.request()),
            Msg::Refresh(self.refresh()),
            Msg::Status(self.status()),
            Msg::Update(self.update()),
            Msg::Close(self.close()),
            Msg::Ack(self.ack()),
            Msg::Generic(self.generic()),
            Msg::Post(self.post()),
        ]
    }

    fn state(&self) -> State<'_> {
        let (stream, data, code) = self.state;
        State { stream, data, code: StateCode(code), text: &self.bytes[1] }
    }

    fn payload(&self) -> &[u8] {
        &self.bytes[2]
    }

    fn extended_header(&self) -> Option<&[u8]> {
        self.optional[0].as_deref()
    }

    fn permission_data(&self) -> Option<&[u8]> {
        self.optional[1].as_deref()
    }

    fn key(&self) -> Option<Key<'_>> {
        self.key.as_ref().map(OwnedKey::key)
    }

    fn request_key(&self) -> Option<Key<'_>> {
        self.request_key.as_ref().map(OwnedKey::key)
    }

    fn post_user_info(&self) -> Option<PostUserInfo> {
        self.user.map(|(address, user_id)| PostUserInfo { address, user_id })
    }

    fn request(&self) -> RequestMsg<'_> {
        let [streaming, key_in_updates, conflation_info_in_updates, no_refresh, ..] = self.flags;
        let [.., private_stream, pause, view, batch, qualified_stream] = self.flags;
        RequestMsg {
            streaming,
            key_in_updates,
            conflation_info_in_updates,
            no_refresh,
            private_stream,
            pause,
            view,
            batch,
            qualified_stream,
            priority: self.second.map(|count| Priority { class: self.code, count: count as u16 }),
            qos: self.qos.0,
            worst_qos: self.qos.1,
            key: self.key().unwrap_or_default(),
            extended_header: self.extended_header(),
            payload: self.payload(),
            ..RequestMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn refresh(&self) -> RefreshMsg<'_> {
        let [solicited, complete, clear_cache, do_not_cache, private_stream, qualified_stream, ..] =
            self.flags;
        RefreshMsg {
            solicited,
            complete,
            clear_cache,
            do_not_cache,
            private_stream,
            qualified_stream,
            seq_num: self.number,
            state: self.state(),
            group_id: &self.bytes[0],
            permission_data: self.permission_data(),
            qos: self.qos.0,
            key: self.key(),
            extended_header: self.extended_header(),
            post_user_info: self.post_user_info(),
            part_num: self.part_num,
            request_key: self.request_key(),
            payload: self.payload(),
            ..RefreshMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn status(&self) -> StatusMsg<'_> {
        let [clear_cache, private_stream, qualified_stream, has_state, has_group_id, ..] = self.flags;
        StatusMsg {
            clear_cache,
            private_stream,
            qualified_stream,
            state: has_state.then(|| self.state()),
            group_id: has_group_id.then_some(&self.bytes[0]),
            permission_data: self.permission_data(),
            key: self.key(),
            extended_header: self.extended_header(),
            post_user_info: self.post_user_info(),
            request_key: self.request_key(),
            payload: self.payload(),
            ..StatusMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn update(&self) -> UpdateMsg<'_> {
        let [do_not_cache, do_not_conflate, do_not_ripple, discardable, ..] = self.flags;
        UpdateMsg {
            update_type: UpdateType(self.code),
            do_not_cache,
            do_not_conflate,
            do_not_ripple,
            discardable,
            seq_num: self.number,
            conflation: self.part_num.map(|count| Conflation { count, time: self.stream_id as u16 }),
            permission_data: self.permission_data(),
            key: self.key(),
            extended_header: self.extended_header(),
            post_user_info: self.post_user_info(),
            payload: self.payload(),
            ..UpdateMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn close(&self) -> CloseMsg<'_> {
        let [ack, batch, ..] = self.flags;
        let (extended_header, payload) = (self.extended_header(), self.payload());
        let close = CloseMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE);
        CloseMsg { ack, batch, extended_header, payload, ..close }
    }

    fn ack(&self) -> AckMsg<'_> {
        let [private_stream, qualified_stream, refused, ..] = self.flags;
        AckMsg {
            private_stream,
            qualified_stream,
            ack_id: self.second.unwrap_or(0),
            nak_code: refused.then_some(NakCode(self.code)),
            text: self.optional[2].as_deref(),
            seq_num: self.number,
            key: self.key(),
            extended_header: self.extended_header(),
            payload: self.payload(),
            ..AckMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn generic(&self) -> GenericMsg<'_> {
        let [complete, provider_driven, ..] = self.flags;
        GenericMsg {
            complete,
            provider_driven,
            seq_num: self.number,
            secondary_seq_num: self.second,
            permission_data: self.permission_data(),
            key: self.key(),
            extended_header: self.extended_header(),
            part_num: self.part_num,
            request_key: self.request_key(),
            payload: self.payload(),
            ..GenericMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }

    fn post(&self) -> PostMsg<'_> {
        let [complete, ack, ..] = self.flags;
        PostMsg {
            complete,
            ack,
            post_user_info: self.post_user_info().unwrap_or(PostUserInfo { address: 0, user_id: 1 }),
            seq_num: self.number,
            post_id: self.second,
            permission_data: self.permission_data(),
            key: self.key(),
            extended_header: self.extended_header(),
            part_num: self.part_num,
            user_rights: self.part_num,
            payload: self.payload(),
            ..PostMsg::new(Domain(self.domain), self.stream_id, PAYLOAD_TYPE)
        }
    }
}

testkit::properties! {
    #[test]
    fn a_message_of_any_class_with_any_parts_reads_as_it_was_written(parts in parts()) {
        for msg in parts.messages() {
            let bytes = encode_to_vec(|w| msg.encode(w)).expect("short");
            prop_assert_eq!(Msg::parse(&bytes), Ok(msg));
            let head = peek(&bytes).expect("written");
            prop_assert_eq!((head.class, head.stream_id), (msg.class(), msg.stream_id()));
            prop_assert_eq!(&bytes[head.payload_offset()..], msg.payload());
            let header = encode_to_vec(|w| msg.encode_header(w)).expect("short");
            prop_assert_eq!(&bytes[..head.payload_offset()], &header[..]);
        }
    }

    #[test]
    fn a_buffer_of_any_size_takes_a_message_whole_or_says_what_it_needs(
        parts in parts(),
        have in 0usize..600,
    ) {
        for msg in parts.messages() {
            let whole = encode_to_vec(|w| msg.encode(w)).expect("short");
            let mut buffer = vec![0; have];
            let mut writer = Writer::new(&mut buffer);
            msg.encode(&mut writer);
            match writer.finish() {
                Ok(bytes) => prop_assert_eq!(&*bytes, &whole[..]),
                Err(error) => {
                    let (need_bytes, have_bytes) = (whole.len() as u32, have as u32);
                    prop_assert_eq!(error, EncodeError::BufferTooSmall { need_bytes, have_bytes });
                    prop_assert!(have < whole.len());
                }
            }
        }
    }
}
