//! Keys, and the lists of items, streams and fields that stand in the payload of requests in RWF.

use rwf::{AsciiString, Attributes, DataType, Domain, ElementListWriter, Key, Writer};

use super::fault::Fault;
use super::member::{Member, Members, Payload};
use super::{Encoded, Encoder, scalar};
use crate::json::{Kind, Node};
use crate::write::key::{ITEM_LIST, NAME_TYPE_DEFAULT, STREAM_ID_LIST, VIEW_DATA, VIEW_TYPE};
use crate::{Services, names};

/// The name of a key whose name is a token, or nobody's.
const NO_NAME: &[u8] = &[0];

/// A key as received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyMembers<'t> {
    service_id: Option<u16>,
    name: Option<&'t [u8]>,
    name_type: Option<u8>,
    filter: Option<u32>,
    identifier: Option<i32>,
    attributes: Option<Payload<'t>>,
    /// The names of a batch, in place of one.
    pub(super) items: Option<Node<'t>>,
}

impl<S: Services> Encoder<'_, S> {
    /// Reads a key; a batch of names is legal only in a request.
    pub(super) fn key_members<'t>(
        &self,
        node: Node<'t>,
        domain: Domain,
    ) -> Result<KeyMembers<'t>, Fault<'t>> {
        let object = scalar::object(node, b"Key")?;
        let mut key = KeyMembers::default();
        let mut name_type = None;
        for (member, node) in object.members() {
            match member {
                b"Service" => {
                    key.service_id = Some(scalar::service(node, |name| self.converter.services.id(name))?)
                }
                b"Name" => match node.kind() {
                    Kind::Array => key.items = Some(node),
                    Kind::Null => key.name = Some(NO_NAME),
                    _ => key.name = Some(scalar::string(node, b"Name")?),
                },
                b"NameType" => {
                    let login = domain == Domain::LOGIN;
                    let table = if login { names::login_name_type::number } else { name_type_number };
                    name_type = Some(scalar::named(node, b"NameType", table)?);
                }
                b"Filter" => key.filter = Some(scalar::number(node, b"Filter")?),
                b"Identifier" => key.identifier = Some(scalar::number(node, b"Identifier")?),
                _ => Payload::keep(
                    &mut key.attributes,
                    member,
                    node,
                    self.converter.options.catch_unknown_keys,
                )?,
            }
        }
        key.name = key.name.or(name_type.map(|_| NO_NAME)).filter(|_| key.items.is_none());
        key.name_type = key.name.map(|_| name_type.unwrap_or(NAME_TYPE_DEFAULT));
        if !matches!(domain, Domain::LOGIN | Domain::SOURCE) {
            key.service_id = key.service_id.or(self.converter.options.default_service_id);
        }
        Ok(key)
    }

    /// The member `Key` of a message other than a request.
    pub(super) fn optional_key<'t>(
        &self,
        m: &Members<'t>,
        domain: Domain,
    ) -> Result<Option<KeyMembers<'t>>, Fault<'t>> {
        let Some(node) = m.get(Member::Key) else { return Ok(None) };
        let key = self.key_members(node, domain)?;
        match key.items {
            Some(items) => Err(Fault::wrong_type(items, b"Name", Kind::String)),
            None => Ok(Some(key)),
        }
    }

    /// Encodes the attributes of a key into `bytes`.
    pub(super) fn attributes<'t>(
        &mut self,
        key: Option<&KeyMembers<'t>>,
        bytes: &mut Vec<u8>,
        depth: u32,
    ) -> Encoded<'t> {
        bytes.clear();
        let Some(Payload { data_type, node, name }) = key.and_then(|key| key.attributes) else {
            return Ok(());
        };
        super::encode(bytes, node, |w| self.container(data_type, node, name, w, depth + 1))
    }

    pub(super) fn batch_items<'t>(
        &self,
        items: Node<'t>,
        e: &mut ElementListWriter<'_, '_, '_>,
    ) -> Encoded<'t> {
        let mut result = Ok(());
        e.array(ITEM_LIST, DataType::ASCII_STRING, 0, |list| {
            for item in items.items() {
                match scalar::string(item, b"Name") {
                    Ok(name) => list.put(AsciiString(name)),
                    Err(fault) => result = result.and(Err(fault)),
                }
            }
        });
        result
    }

    /// The fields of a view. Names that the dictionary lacks are left out, and each field is there once.
    pub(super) fn view<'t>(
        &self,
        view: Node<'t>,
        view_type: u8,
        e: &mut ElementListWriter<'_, '_, '_>,
    ) -> Encoded<'t> {
        e.put(VIEW_TYPE, u64::from(view_type));
        let mut result = Ok(());
        if view_type == NAME_LIST {
            e.array(VIEW_DATA, DataType::ASCII_STRING, 0, |list| {
                for item in view.items() {
                    match scalar::string(item, b"View") {
                        Ok(name) => list.put(AsciiString(name)),
                        Err(fault) => result = result.and(Err(fault)),
                    }
                }
            });
            return result;
        }
        e.array(VIEW_DATA, DataType::INT, FIELD_ID_BYTES, |list| {
            for item in view.items() {
                match self.view_field(item) {
                    Ok(Some(id)) => list.put(i64::from(id)),
                    Ok(None) => {}
                    Err(fault) => result = result.and(Err(fault)),
                }
            }
        });
        result
    }

    fn view_field<'t>(&self, item: Node<'t>) -> Result<Option<i16>, Fault<'t>> {
        match item.string() {
            Some(name) => Ok(self.field_id(name)),
            None => scalar::number(item, b"View").map(Some),
        }
    }
}

/// A view of elements, by name.
pub(super) const NAME_LIST: u8 = 2;
/// A view of fields, by id.
pub(super) const FID_LIST: u8 = 1;
/// Field ids have a fixed width in the list, as the vendor's libraries write them.
const FIELD_ID_BYTES: u16 = 2;

/// Besides those of items, some clients send the word of logins for what is 1 on both.
fn name_type_number(name: &[u8]) -> Option<u8> {
    names::name_type::number(name).or_else(|| names::login_name_type::number(name))
}

impl<'t> KeyMembers<'t> {
    /// The key, with its attributes encoded already.
    pub(super) fn key<'k>(&self, attributes: &'k [u8]) -> Key<'k>
    where
        't: 'k,
    {
        Key {
            service_id: self.service_id,
            name: self.name,
            name_type: self.name_type,
            filter: self.filter,
            identifier: self.identifier,
            attributes: self
                .attributes
                .map(|payload| Attributes { container_type: payload.data_type, data: attributes }),
        }
    }
}

/// The streams of a close of several.
pub(super) fn stream_ids<'t>(ids: Node<'t>, w: &mut Writer<'_>) -> Encoded<'t> {
    let mut result = Ok(());
    w.element_list(|e| {
        e.array(STREAM_ID_LIST, DataType::INT, 0, |list| {
            for id in ids.items() {
                match scalar::number::<i32>(id, b"ID") {
                    Ok(id) => list.put(i64::from(id)),
                    Err(fault) => result = result.and(Err(fault)),
                }
            }
        });
    });
    result
}
