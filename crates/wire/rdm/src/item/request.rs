use rwf::{DataType, Domain, EncodeError, Key, Priority, Qos, RequestMsg, encode_to_vec};

use super::batch::{check_names, check_stream_ids};
use super::view::{names, stream_ids};
use super::{ItemKey, Target, View, key, require_items};
use crate::directory::QosRange;
use crate::element::{KnownElement, PutElement, known_elements};
use crate::message::ToVec;
use crate::number::open_numbers;
use crate::{Element, Part, RdmError};

/// Opens an item stream, or changes an open one (a reissue: the same stream id and key).
///
/// Shape: request; key; for views, batches and symbol lists a payload element list. Source: RWF 14.1, items,
/// batch and view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRequest<'a> {
    /// The domain.
    pub domain: Domain,
    /// The stream, chosen by the consumer; positive.
    pub stream_id: i32,
    /// What is wanted: an item, a batch of items, a batch of open streams.
    pub target: Target<'a>,
    /// Updates are wanted; else one image, after which the stream is over.
    pub streaming: bool,
    /// The stream is for this consumer alone; the answer must say so too.
    pub private_stream: bool,
    /// How important the item is; 1 of class 1 if it is not said.
    pub priority: Option<Priority>,
    /// The quality wanted, or the best of a range.
    pub qos: Option<Qos>,
    /// The worst of a range.
    pub worst_qos: Option<Qos>,
    /// The key is wanted in each update.
    pub key_in_updates: bool,
    /// Conflation information is wanted in updates.
    pub conflation_info_in_updates: bool,
    /// No image is wanted: the request only changes an open stream.
    pub no_refresh: bool,
    /// Updates may stop until the request is repeated without this.
    pub pause: bool,
    /// The part of the item that is wanted; without one all of it is, also where a view was open before.
    pub view: Option<View<'a>>,
    /// What is wanted of the items in a symbol list.
    pub data_streams: Option<DataStreams>,
}

open_numbers! {
    /// What a consumer wants of the items that a symbol list names. Stock consumers open them by themselves.
    DataStreams(u64);
    0 NAMES_ONLY "names only"; 1 STREAMS "streams"; 2 SNAPSHOTS "snapshots";
}

impl<'a> ItemRequest<'a> {
    /// A request for one item with its updates, as stock consumers send it: real time, tick by tick, priority
    /// 1/1.
    #[must_use]
    pub fn streaming(domain: Domain, stream_id: i32, key: ItemKey<'a>) -> ItemRequest<'a> {
        ItemRequest {
            domain,
            stream_id,
            target: Target::Item(key),
            streaming: true,
            private_stream: false,
            priority: Some(Priority { class: 1, count: 1 }),
            qos: Some(Qos::REAL_TIME),
            worst_qos: None,
            key_in_updates: false,
            conflation_info_in_updates: false,
            no_refresh: false,
            pause: false,
            view: None,
            data_streams: None,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`RdmError::NotAnItemDomain`]; [`RdmError::Missing`] without service id, name, or what the batch or
    /// view flag announces; what is wrong with an element. [`RdmError::state_code`] is the code for the
    /// answer.
    pub fn parse(msg: &RequestMsg<'a>) -> Result<ItemRequest<'a>, RdmError> {
        require_items(msg.domain)?;
        let payload = Payload::read(msg)?;
        let view = msg.view.then(|| View::of(payload.view_type, payload.view_data.as_ref())).transpose()?;
        Ok(ItemRequest {
            domain: msg.domain,
            stream_id: msg.stream_id,
            target: payload.target(msg)?,
            streaming: msg.streaming,
            private_stream: msg.private_stream,
            priority: msg.priority,
            qos: msg.qos,
            worst_qos: msg.worst_qos,
            key_in_updates: msg.key_in_updates,
            conflation_info_in_updates: msg.conflation_info_in_updates,
            no_refresh: msg.no_refresh,
            pause: msg.pause,
            view,
            data_streams: payload.data_streams,
        })
    }

    /// The quality wanted, `None` for any.
    #[must_use]
    pub fn qos_range(&self) -> Option<QosRange> {
        QosRange::of(self.qos, self.worst_qos)
    }

    /// The requests for single items that this one stands for: itself, or those of its batch, each on its own
    /// stream. A batch of open streams stands for none: their keys are known to who opened them.
    pub fn singles(&self) -> impl Iterator<Item = ItemRequest<'a>> + '_ {
        self.target.keys(self.stream_id).map(|(stream_id, key)| ItemRequest {
            stream_id,
            target: Target::Item(key),
            view: self.view.clone(),
            ..*self
        })
    }

    fn key(&self) -> Key<'a> {
        match &self.target {
            Target::Item(key) => Key::from(*key),
            Target::Items { common, .. } => Key { name: None, name_type: None, ..Key::from(*common) },
            Target::Streams(_) => Key::default(),
        }
    }

    fn has_payload(&self) -> bool {
        self.target.is_batch() || self.view.is_some() || self.data_streams.is_some()
    }

    fn put_payload(&self, e: &mut rwf::ElementListWriter<'_, '_, '_>) {
        if let Some(view) = &self.view {
            view.put(e);
        }
        self.target.put(e);
        if let Some(wanted) = self.data_streams {
            e.container(Element::SymbolListBehaviors.name(), DataType::ELEMENT_LIST, |w| {
                w.element_list(|e| e.element(Element::DataStreams, wanted.0));
            });
        }
    }
}

impl ToVec for ItemRequest<'_> {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let has_payload = self.has_payload();
        let container_type = if has_payload { DataType::ELEMENT_LIST } else { DataType::NO_DATA };
        let msg = RequestMsg {
            streaming: self.streaming,
            key_in_updates: self.key_in_updates,
            conflation_info_in_updates: self.conflation_info_in_updates,
            no_refresh: self.no_refresh,
            private_stream: self.private_stream,
            pause: self.pause,
            view: self.view.is_some(),
            batch: self.target.is_batch(),
            priority: self.priority,
            qos: self.qos,
            worst_qos: self.worst_qos,
            key: self.key(),
            ..RequestMsg::new(self.domain, self.stream_id, container_type)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            if has_payload {
                w.element_list(|e| self.put_payload(e));
            }
        })
    }
}

/// The elements of the payload to which the flags and the domain may give a meaning.
#[derive(Default)]
struct Payload<'a> {
    item_list: Option<KnownElement<'a>>,
    stream_id_list: Option<KnownElement<'a>>,
    view_type: Option<u64>,
    view_data: Option<KnownElement<'a>>,
    data_streams: Option<DataStreams>,
}

impl<'a> Payload<'a> {
    fn read(msg: &RequestMsg<'a>) -> Result<Payload<'a>, RdmError> {
        let symbol_list = msg.domain == Domain::SYMBOL_LIST;
        match msg.container_type {
            DataType::ELEMENT_LIST if msg.batch || msg.view || symbol_list => {}
            DataType::NO_DATA | DataType::ELEMENT_LIST => return Ok(Payload::default()),
            _ if !msg.batch && !msg.view => return Ok(Payload::default()),
            found => {
                let wanted = DataType::ELEMENT_LIST;
                return Err(RdmError::WrongType { part: Part::Payload, found, wanted });
            }
        }
        let mut payload = Payload::default();
        for element in known_elements(msg.payload, None)? {
            let e = element?;
            match e.element {
                Element::BatchItemList => payload.item_list = Some(e),
                Element::StreamIdList => payload.stream_id_list = Some(e),
                Element::ViewType if msg.view => payload.view_type = e.uint()?,
                Element::ViewData => payload.view_data = Some(e),
                Element::SymbolListBehaviors if symbol_list => {
                    payload.data_streams = data_streams(e.container(DataType::ELEMENT_LIST)?)?;
                }
                _ => {}
            }
        }
        Ok(payload)
    }

    fn target(&self, msg: &RequestMsg<'a>) -> Result<Target<'a>, RdmError> {
        let missing = RdmError::Missing { part: Element::BatchItemList.into() };
        match (&self.item_list, &self.stream_id_list) {
            _ if !msg.batch => Ok(Target::Item(ItemKey::parse(&msg.key)?)),
            (None, None) => Err(missing),
            (Some(item_list), None) => {
                let names = names(item_list)?;
                check_names(&names)?;
                check_stream_ids(msg.stream_id, names.len())?;
                let common = ItemKey {
                    service_id: key::service_id(&msg.key)?,
                    name: &[],
                    name_type: msg.key.name_type,
                    filter: msg.key.filter,
                    identifier: msg.key.identifier,
                    attributes: msg.key.attributes,
                };
                Ok(Target::Items { common, names })
            }
            (None, Some(list)) => Ok(Target::Streams(stream_ids(list)?)),
            (Some(items), Some(streams)) => Err(RdmError::Both { part: items.part(), other: streams.part() }),
        }
    }
}

fn data_streams(list: &[u8]) -> Result<Option<DataStreams>, RdmError> {
    let mut wanted = None;
    for element in known_elements(list, None)? {
        let e = element?;
        if e.element == Element::DataStreams {
            wanted = e.uint()?.map(DataStreams);
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{AsciiString, StateCode};

    const KEY: ItemKey<'static> = ItemKey::new(1, b"TEST.1");

    fn round_trip(request: &ItemRequest<'_>) {
        let bytes = request.to_vec().expect("legal");
        let msg = RequestMsg::parse(&bytes).expect("whole");
        assert_eq!(ItemRequest::parse(&msg).as_ref(), Ok(request));
    }

    /// What becomes of a request with these flags and this payload.
    fn refused(view: bool, batch: bool, put: fn(&mut rwf::ElementListWriter<'_, '_, '_>)) -> RdmError {
        let payload = encode_to_vec(|w| w.element_list(put)).expect("legal");
        let key = Key::from(KEY);
        let msg = RequestMsg::new(Domain::MARKET_PRICE, i32::MAX - 1, DataType::ELEMENT_LIST);
        ItemRequest::parse(&RequestMsg { view, batch, key, payload: &payload, ..msg }).expect_err("faulty")
    }

    #[test]
    fn every_flag_and_part_comes_back() {
        let plain = ItemRequest::streaming(Domain::MARKET_PRICE, 5, KEY);
        round_trip(&plain);
        round_trip(&ItemRequest {
            streaming: false,
            private_stream: true,
            priority: Some(Priority { class: 2, count: 300 }),
            worst_qos: Some(Qos { dynamic: true, ..Qos::REAL_TIME }),
            key_in_updates: true,
            conflation_info_in_updates: true,
            no_refresh: true,
            pause: true,
            view: Some(View::Fields(vec![22, -1].into())),
            ..plain.clone()
        });
        round_trip(&ItemRequest {
            domain: Domain::SYMBOL_LIST,
            data_streams: Some(DataStreams::SNAPSHOTS),
            qos: None,
            priority: None,
            ..plain
        });
    }

    #[test]
    fn a_batch_stands_for_one_request_an_item_on_the_ids_that_follow() {
        let common = ItemKey::new(1, b"");
        let batch = ItemRequest {
            target: Target::Items { common, names: vec![b"A", b"", b"C"] },
            view: Some(View::Elements(vec![&b"Name"[..]].into())),
            ..ItemRequest::streaming(Domain::MARKET_PRICE, 10, common)
        };
        round_trip(&batch);
        let singles: Vec<_> = batch.singles().collect();
        let ids: Vec<_> = singles.iter().map(|single| single.stream_id).collect();
        assert_eq!(ids, [11, 12, 13]);
        assert_eq!(singles[2].target, Target::Item(ItemKey::new(1, b"C")));
        assert!(singles.iter().all(|single| single.view == batch.view && single.qos == batch.qos));
    }

    #[test]
    fn the_last_stream_id_may_be_used_by_a_batch() {
        let common = ItemKey::new(1, b"");
        let target = Target::Items { common, names: vec![b"A"] };
        let domain = Domain::MARKET_PRICE;
        let batch = ItemRequest { target, ..ItemRequest::streaming(domain, i32::MAX - 1, common) };
        round_trip(&batch);
        assert_eq!(batch.singles().map(|single| single.stream_id).collect::<Vec<_>>(), [i32::MAX]);
    }

    #[test]
    fn a_reissue_of_several_streams_comes_back_and_stands_for_no_single_request() {
        let streams = ItemRequest {
            target: Target::Streams(vec![11, 12]),
            ..ItemRequest::streaming(Domain::MARKET_PRICE, 13, KEY)
        };
        round_trip(&streams);
        assert_eq!(streams.singles().count(), 0);
        let single = ItemRequest::streaming(Domain::MARKET_PRICE, 13, KEY);
        assert!(single.singles().eq([single.clone()]));
    }

    #[test]
    fn each_fault_of_a_view_or_batch_has_the_code_for_its_answer() {
        let code = |error: RdmError| error.state_code();
        assert_eq!(code(refused(true, false, |_| ())), StateCode::INVALID_VIEW);
        let wide = |e: &mut rwf::ElementListWriter<'_, '_, '_>| {
            e.put(":ViewType", 1u64);
            e.array(":ViewData", DataType::INT, 0, |a| a.put(40_000i64));
        };
        assert_eq!(code(refused(true, false, wide)), StateCode::INVALID_VIEW);
        let unknown = refused(true, false, |e| {
            e.put(":ViewType", 9u64);
            e.array(":ViewData", DataType::INT, 0, |a| a.put(1i64));
        });
        assert_eq!(unknown, RdmError::UnsupportedViewType { view_type: 9 });
        assert_eq!(code(unknown), StateCode::UNSUPPORTED_VIEW_TYPE);
        assert_eq!(code(refused(false, true, |_| ())), StateCode::UNABLE_TO_REQUEST_AS_BATCH);
        let past_the_end = refused(false, true, |e| {
            e.array(":ItemList", DataType::ASCII_STRING, 0, |a| {
                a.put(AsciiString(b"A"));
                a.put(AsciiString(b"B"));
            });
        });
        let (value, max) = (i32::MAX as u64 + 1, i32::MAX as u64);
        assert_eq!(past_the_end, RdmError::OutOfRange { part: Part::StreamId, value, max });
        let both = refused(false, true, |e| {
            e.array(":ItemList", DataType::ASCII_STRING, 0, |_| ());
            e.array(":StreamIdList", DataType::INT, 0, |_| ());
        });
        assert_eq!(code(both), StateCode::UNABLE_TO_REQUEST_AS_BATCH);
        let long = refused(false, true, |e| {
            e.array(":ItemList", DataType::ASCII_STRING, 0, |a| a.put(AsciiString(&[b'A'; 256])));
        });
        let part = Part::Element(Element::BatchItemList);
        assert_eq!(long, RdmError::OutOfRange { part, value: 256, max: 255 });
    }

    #[test]
    fn a_payload_that_no_flag_announces_is_passed_over() {
        let msg = RequestMsg {
            key: KEY.into(),
            payload: &[0xFF; 3],
            ..RequestMsg::new(Domain::MARKET_PRICE, 5, DataType::ELEMENT_LIST)
        };
        assert!(ItemRequest::parse(&msg).is_ok_and(|request| request.view.is_none()));
        let opaque = RequestMsg { domain: Domain::SYMBOL_LIST, container_type: DataType::OPAQUE, ..msg };
        assert!(ItemRequest::parse(&opaque).is_ok_and(|request| request.data_streams.is_none()));
    }

    #[test]
    fn a_domain_without_items_is_refused() {
        for domain in [Domain::LOGIN, Domain::SOURCE, Domain::DICTIONARY] {
            let msg = RequestMsg { key: KEY.into(), ..RequestMsg::new(domain, 5, DataType::NO_DATA) };
            assert_eq!(ItemRequest::parse(&msg), Err(RdmError::NotAnItemDomain { domain }));
        }
    }
}
