//! Messages by their class.

use rwf::{
    AckMsg, CloseMsg, Conflation, DataType, Domain, GenericMsg, Msg, MsgClass, NakCode, PostMsg,
    PostUserInfo, Qos, RefreshMsg, RequestMsg, StatusMsg, UpdateMsg, UpdateType, Writer,
};

use super::fault::Fault;
use super::key::{FID_LIST, KeyMembers, NAME_LIST, stream_ids};
use super::member::{Member, Members};
use super::value::base64;
use super::{Encoded, Encoder, scalar};
use crate::json::{Kind, Node};
use crate::{Services, names};

/// The parts of a header that are not in the text as they are. The memory is lent by the encoder.
#[derive(Default)]
struct Decoded {
    attributes: Vec<u8>,
    permission_data: Vec<u8>,
    extended_header: Vec<u8>,
}

/// The parts of a header that every class may have.
struct Head<'t> {
    domain: Domain,
    stream_id: i32,
    container_type: DataType,
    key: Option<KeyMembers<'t>>,
}

impl<S: Services> Encoder<'_, S> {
    /// A message inside another one. Its stream id may be left out.
    pub(super) fn message<'t>(&mut self, node: Node<'t>, w: &mut Writer<'_>, depth: u32) -> Encoded<'t> {
        let members = Members::of(node, self.converter.options.catch_unknown_keys)?;
        let class = class(&members)?;
        let stream_id = members.read(Member::Id, scalar::number)?.unwrap_or(0);
        self.message_of(class, &members, stream_id, w, depth)
    }

    /// A message of a class, with a stream id that was read already.
    pub(super) fn message_of<'t>(
        &mut self,
        class: MsgClass,
        m: &Members<'t>,
        stream_id: i32,
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        let head = self.head(class, m, stream_id)?;
        let mut decoded = Decoded {
            attributes: self.take_bytes(),
            permission_data: self.take_bytes(),
            extended_header: self.take_bytes(),
        };
        self.attributes(head.key.as_ref(), &mut decoded.attributes, depth)?;
        m.read(Member::PermData, |node, key| base64(node, key, &mut decoded.permission_data))?;
        m.read(Member::ExtHdr, |node, key| base64(node, key, &mut decoded.extended_header))?;
        header(class, m, &head, &decoded)?.encode_header(w);
        for bytes in [decoded.attributes, decoded.permission_data, decoded.extended_header] {
            self.give_bytes(bytes);
        }
        self.payload_of(class, m, head.key.as_ref(), w, depth)
    }

    fn head<'t>(&self, class: MsgClass, m: &Members<'t>, stream_id: i32) -> Result<Head<'t>, Fault<'t>> {
        let domain = domain(m)?;
        let key = match class {
            MsgClass::Close => None,
            MsgClass::Request => Some(m.require(Member::Key, |node, _| self.key_members(node, domain))?),
            _ => self.optional_key(m, domain)?,
        };
        let listed = key.is_some_and(|key| key.items.is_some()) || m.get(Member::View).is_some();
        let container_type = match class {
            MsgClass::Request if listed => DataType::ELEMENT_LIST,
            MsgClass::Close if is_batch_close(m) => DataType::ELEMENT_LIST,
            MsgClass::Close => DataType::NO_DATA,
            _ => m.payload.map_or(DataType::NO_DATA, |payload| payload.data_type),
        };
        Ok(Head { domain, stream_id, container_type, key })
    }

    fn payload_of<'t>(
        &mut self,
        class: MsgClass,
        m: &Members<'t>,
        key: Option<&KeyMembers<'t>>,
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        match (class, m.get(Member::Id)) {
            (MsgClass::Close, Some(ids)) if is_batch_close(m) => return stream_ids(ids, w),
            (MsgClass::Close, _) => return Ok(()),
            _ => {}
        }
        let items = key.and_then(|key| key.items);
        let view = m.read(Member::View, scalar::array)?;
        if class == MsgClass::Request && (items.is_some() || view.is_some()) {
            return self.request_lists(m, items, view, w, depth);
        }
        match m.payload {
            Some(payload) => self.container(payload.data_type, payload.node, payload.name, w, depth + 1),
            None => Ok(()),
        }
    }

    /// The payload of a request with a batch or a view, which stand in front of elements of its own.
    fn request_lists<'t>(
        &mut self,
        m: &Members<'t>,
        items: Option<Node<'t>>,
        view: Option<Node<'t>>,
        w: &mut Writer<'_>,
        depth: u32,
    ) -> Encoded<'t> {
        let view_type = view_type(m)?;
        if let Some(other) = m.payload.filter(|payload| payload.data_type != DataType::ELEMENT_LIST) {
            return Err(Fault::unexpected_key(other.name, other.node));
        }
        let mut result = Ok(());
        w.element_list(|e| {
            if let Some(items) = items {
                result = self.batch_items(items, e);
            }
            if let Some(view) = view {
                result = result.and_then(|()| self.view(view, view_type, e));
            }
            if let Some(own) = m.payload {
                result = result.and_then(|()| self.element_entries(own.node, own.name, e, depth + 1));
            }
        });
        result
    }
}

/// The class that a message names; a request if it names none.
pub(super) fn class<'t>(m: &Members<'t>) -> Result<MsgClass, Fault<'t>> {
    let Some(number) = m.read(Member::Type, |node, key| scalar::named(node, key, names::class::number))?
    else {
        return Ok(MsgClass::Request);
    };
    let unexpected = || m.get(Member::Type).map(|node| Fault::unexpected_value(node, Member::Type.name()));
    MsgClass::from_number(number).map_err(|_| unexpected().unwrap_or(Fault::missing(m.object, b"Type")))
}

/// The domain that a message names; market price if it names none.
pub(super) fn domain<'t>(m: &Members<'t>) -> Result<Domain, Fault<'t>> {
    let number = m.read(Member::Domain, |node, key| scalar::named(node, key, names::domain::number))?;
    Ok(number.map_or(Domain::MARKET_PRICE, Domain))
}

fn is_batch_close(m: &Members<'_>) -> bool {
    m.get(Member::Id).is_some_and(|id| id.kind() == Kind::Array)
}

fn view_type<'t>(m: &Members<'t>) -> Result<u8, Fault<'t>> {
    let found = m.read(Member::ViewType, |node, key| {
        let number = scalar::named(node, key, names::view_type::number)?;
        let known = matches!(number, FID_LIST | NAME_LIST);
        if known { Ok(number) } else { Err(Fault::unexpected_value(node, key)) }
    })?;
    Ok(found.unwrap_or(FID_LIST))
}

/// The header of a message. Its payload is written behind it.
fn header<'k, 't: 'k>(
    class: MsgClass,
    m: &Members<'t>,
    head: &Head<'t>,
    decoded: &'k Decoded,
) -> Result<Msg<'k>, Fault<'t>> {
    let parts = Parts {
        m,
        head,
        key: head.key.map(|key| key.key(&decoded.attributes)),
        permission_data: m.get(Member::PermData).map(|_| &decoded.permission_data[..]),
        extended_header: m.get(Member::ExtHdr).map(|_| &decoded.extended_header[..]),
    };
    Ok(match class {
        MsgClass::Request => Msg::Request(parts.request()?),
        MsgClass::Refresh => Msg::Refresh(parts.refresh()?),
        MsgClass::Status => Msg::Status(parts.status()?),
        MsgClass::Update => Msg::Update(parts.update()?),
        MsgClass::Close => Msg::Close(parts.close()?),
        MsgClass::Ack => Msg::Ack(parts.ack()?),
        MsgClass::Generic => Msg::Generic(parts.generic()?),
        MsgClass::Post => Msg::Post(parts.post()?),
    })
}

/// What a header is made of.
struct Parts<'m, 'k, 't> {
    m: &'m Members<'t>,
    head: &'m Head<'t>,
    key: Option<rwf::Key<'k>>,
    permission_data: Option<&'k [u8]>,
    extended_header: Option<&'k [u8]>,
}

impl<'k, 't: 'k> Parts<'_, 'k, 't> {
    fn request(&self) -> Result<RequestMsg<'k>, Fault<'t>> {
        let m = self.m;
        Ok(RequestMsg {
            streaming: m.flag(Member::Streaming, true)?,
            key_in_updates: m.flag(Member::KeyInUpdates, true)?,
            conflation_info_in_updates: m.flag(Member::ConfInfoInUpdates, false)?,
            no_refresh: !m.flag(Member::Refresh, true)?,
            private_stream: m.flag(Member::Private, false)?,
            pause: m.flag(Member::Pause, false)?,
            view: m.get(Member::View).is_some(),
            batch: self.head.key.is_some_and(|key| key.items.is_some()),
            qualified_stream: m.flag(Member::Qualified, false)?,
            priority: m.read(Member::Priority, scalar::priority)?,
            qos: m.read(Member::Qos, scalar::qos)?.flatten(),
            // Whether the quality may change is said with the best of the range alone.
            worst_qos: m
                .read(Member::WorstQos, scalar::qos)?
                .flatten()
                .map(|qos| Qos { dynamic: false, ..qos }),
            key: self.key.unwrap_or_default(),
            extended_header: self.extended_header,
            ..RequestMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn refresh(&self) -> Result<RefreshMsg<'k>, Fault<'t>> {
        let m = self.m;
        Ok(RefreshMsg {
            solicited: m.flag(Member::Solicited, true)?,
            complete: m.flag(Member::Complete, true)?,
            clear_cache: m.flag(Member::ClearCache, true)?,
            do_not_cache: m.flag(Member::DoNotCache, false)?,
            private_stream: m.flag(Member::Private, false)?,
            qualified_stream: m.flag(Member::Qualified, false)?,
            seq_num: m.read(Member::SeqNumber, scalar::number)?,
            state: m.require(Member::State, scalar::state)?,
            permission_data: self.permission_data,
            qos: m.read(Member::Qos, scalar::qos)?.flatten(),
            key: self.key,
            extended_header: self.extended_header,
            post_user_info: self.post_user_info()?,
            part_num: m.read(Member::PartNumber, scalar::number)?,
            ..RefreshMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn status(&self) -> Result<StatusMsg<'k>, Fault<'t>> {
        let m = self.m;
        Ok(StatusMsg {
            clear_cache: m.flag(Member::ClearCache, false)?,
            private_stream: m.flag(Member::Private, false)?,
            qualified_stream: m.flag(Member::Qualified, false)?,
            state: m.read(Member::State, scalar::state)?,
            permission_data: self.permission_data,
            key: self.key,
            extended_header: self.extended_header,
            post_user_info: self.post_user_info()?,
            ..StatusMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn update(&self) -> Result<UpdateMsg<'k>, Fault<'t>> {
        let m = self.m;
        let update_type =
            m.read(Member::UpdateType, |node, key| scalar::named(node, key, names::update_type::number))?;
        Ok(UpdateMsg {
            update_type: UpdateType(update_type.unwrap_or(0)),
            do_not_cache: m.flag(Member::DoNotCache, false)?,
            do_not_conflate: m.flag(Member::DoNotConflate, false)?,
            do_not_ripple: m.flag(Member::DoNotRipple, false)?,
            discardable: m.flag(Member::Discardable, false)?,
            seq_num: m.read(Member::SeqNumber, scalar::number)?,
            conflation: m.read(Member::ConflationInfo, conflation)?,
            permission_data: self.permission_data,
            key: self.key,
            extended_header: self.extended_header,
            post_user_info: self.post_user_info()?,
            ..UpdateMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    /// A close of several streams is told by the list in its payload alone, as the vendor's converter has it.
    fn close(&self) -> Result<CloseMsg<'k>, Fault<'t>> {
        Ok(CloseMsg {
            ack: self.m.flag(Member::Ack, false)?,
            extended_header: self.extended_header,
            ..CloseMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn ack(&self) -> Result<AckMsg<'k>, Fault<'t>> {
        let m = self.m;
        let code = m.read(Member::NakCode, |node, key| scalar::named(node, key, names::nak_code::number))?;
        let text = m.get(Member::Text).filter(|text| text.kind() != Kind::Null);
        Ok(AckMsg {
            private_stream: m.flag(Member::Private, false)?,
            qualified_stream: m.flag(Member::Qualified, false)?,
            ack_id: m.require(Member::AckId, scalar::number)?,
            nak_code: code.filter(|code| *code != 0).map(NakCode),
            text: text.map(|text| scalar::string(text, b"Text")).transpose()?,
            seq_num: m.read(Member::SeqNumber, scalar::number)?,
            key: self.key,
            extended_header: self.extended_header,
            ..AckMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn generic(&self) -> Result<GenericMsg<'k>, Fault<'t>> {
        let m = self.m;
        Ok(GenericMsg {
            complete: m.flag(Member::Complete, true)?,
            provider_driven: m.flag(Member::ProviderDriven, false)?,
            seq_num: m.read(Member::SeqNumber, scalar::number)?,
            secondary_seq_num: m.read(Member::SecSeqNumber, scalar::number)?,
            permission_data: self.permission_data,
            key: self.key,
            extended_header: self.extended_header,
            part_num: m.read(Member::PartNumber, scalar::number)?,
            ..GenericMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn post(&self) -> Result<PostMsg<'k>, Fault<'t>> {
        let m = self.m;
        let nobody = PostUserInfo { address: 0, user_id: 0 };
        Ok(PostMsg {
            complete: m.flag(Member::Complete, true)?,
            ack: m.flag(Member::Ack, false)?,
            post_user_info: self.post_user_info()?.unwrap_or(nobody),
            seq_num: m.read(Member::SeqNumber, scalar::number)?,
            post_id: m.read(Member::PostId, scalar::number)?,
            permission_data: self.permission_data,
            key: self.key,
            extended_header: self.extended_header,
            part_num: m.read(Member::PartNumber, scalar::number)?,
            user_rights: m.read(Member::PostUserRights, scalar::number)?,
            ..PostMsg::new(self.head.domain, self.head.stream_id, self.head.container_type)
        })
    }

    fn post_user_info(&self) -> Result<Option<PostUserInfo>, Fault<'t>> {
        self.m.read(Member::PostUserInfo, |node, key| {
            let info = scalar::object(node, key)?;
            Ok(PostUserInfo {
                address: scalar::address(scalar::required(info, b"Address")?, b"Address")?,
                user_id: scalar::number(scalar::required(info, b"UserID")?, b"UserID")?,
            })
        })
    }
}

fn conflation<'t>(node: Node<'t>, key: &'t [u8]) -> Result<Conflation, Fault<'t>> {
    let info = scalar::object(node, key)?;
    Ok(Conflation {
        count: scalar::number(scalar::required(info, b"Count")?, b"Count")?,
        time: scalar::number(scalar::required(info, b"Time")?, b"Time")?,
    })
}
