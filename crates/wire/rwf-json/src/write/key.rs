//! The key of a message, and the lists of items, streams and fields that stand in the payload of requests.

use rwf::{Array, CloseMsg, DataType, Decode, Domain, ElementEntry, ElementList, Key, Msg, RequestMsg};

use super::text::{Text, member};
use super::{Writer, Written};
use crate::{Services, names};

/// The element that lists the items of a batch request.
pub(crate) const ITEM_LIST: &[u8] = b":ItemList";
/// The element that lists the streams of a batch close.
pub(crate) const STREAM_ID_LIST: &[u8] = b":StreamIdList";
/// The element that lists the fields of a view.
pub(crate) const VIEW_DATA: &[u8] = b":ViewData";
/// The element that says what a view is made of.
pub(crate) const VIEW_TYPE: &[u8] = b":ViewType";

/// The name of a login by token that names nobody.
const NO_NAME: &[u8] = &[0];
/// The name type of a RIC, and of a user name: not written.
pub(crate) const NAME_TYPE_DEFAULT: u8 = 1;
const LOGIN_COOKIE: u8 = 4;
const LOGIN_TOKEN: u8 = 5;

/// The list of streams that a close of several has.
pub(super) struct StreamIds<'a>(Array<'a>);

impl<'a> StreamIds<'a> {
    pub(super) fn of(msg: &Msg<'a>) -> Option<StreamIds<'a>> {
        match msg {
            Msg::Close(close) => Self::of_close(close),
            _ => None,
        }
    }

    fn of_close(close: &CloseMsg<'a>) -> Option<StreamIds<'a>> {
        list(close.container_type, close.payload, STREAM_ID_LIST).map(StreamIds)
    }

    pub(super) fn write(&self, text: &mut Text<'_>) -> Written {
        text.open_array();
        for item in self.0.values() {
            text.primitive(&item?)?;
            text.comma();
        }
        text.close_array();
        Ok(())
    }
}

/// What a request has in its payload for the members `Name` and `View`.
#[derive(Default)]
pub(super) struct RequestLists<'a> {
    pub(super) items: Option<Array<'a>>,
    pub(super) view: Option<Array<'a>>,
    pub(super) view_type: Option<u64>,
}

impl<'a> RequestLists<'a> {
    pub(super) fn of(request: &RequestMsg<'a>) -> RequestLists<'a> {
        let found = |wanted: bool, name| {
            if wanted { list(request.container_type, request.payload, name) } else { None }
        };
        let items = found(request.batch, ITEM_LIST);
        let view = found(request.view, VIEW_DATA);
        let view_type = view.and_then(|_| element(request.container_type, request.payload, VIEW_TYPE));
        let view_type = view_type.and_then(|entry| u64::decode(entry.content).ok().flatten());
        RequestLists { items, view, view_type }
    }

    /// Whether an element of the payload has its place elsewhere.
    pub(super) fn takes(&self, name: &[u8]) -> bool {
        match name {
            ITEM_LIST => self.items.is_some(),
            VIEW_DATA => self.view.is_some(),
            VIEW_TYPE => self.view_type.is_some(),
            _ => false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_none() && self.view.is_none()
    }
}

/// The first element of a name, if the payload is an element list that can be read so far.
fn element<'a>(container_type: DataType, payload: &'a [u8], name: &[u8]) -> Option<ElementEntry<'a>> {
    if container_type != DataType::ELEMENT_LIST {
        return None;
    }
    let entries = ElementList::parse(payload).ok()?.entries();
    entries.map_while(Result::ok).find(|entry| entry.name == name)
}

fn list<'a>(container_type: DataType, payload: &'a [u8], name: &[u8]) -> Option<Array<'a>> {
    let entry = element(container_type, payload, name)?;
    if entry.data_type != DataType::ARRAY {
        return None;
    }
    Array::decode(entry.content).ok()?
}

impl<S: Services> Writer<'_, '_, S> {
    /// The member `Key`. `items` stand in it in place of a name.
    pub(super) fn key(
        &mut self,
        key: &Key<'_>,
        domain: Domain,
        items: Option<&Array<'_>>,
        depth: u32,
    ) -> Written {
        self.text.raw(member!("Key"));
        self.text.open_object();
        if let Some(service_id) = key.service_id {
            self.text.raw(member!("Service"));
            match self.converter.services.name(service_id) {
                Some(name) => self.text.string(name.as_bytes()),
                None => self.text.uint(service_id.into()),
            }
            self.text.comma();
        }
        match items {
            Some(items) => self.names(items)?,
            None => self.name(key, domain),
        }
        self.text.optional(member!("Filter"), key.filter.map(u64::from));
        if let Some(identifier) = key.identifier {
            self.text.raw(member!("Identifier"));
            self.text.int(identifier.into());
            self.text.comma();
        }
        if let Some(attributes) = key.attributes {
            self.payload(attributes.container_type, attributes.data, depth)?;
        }
        self.text.close_object();
        self.text.comma();
        Ok(())
    }

    fn name(&mut self, key: &Key<'_>, domain: Domain) {
        let Some(name) = key.name else { return };
        let name_type = key.name_type.unwrap_or(NAME_TYPE_DEFAULT);
        let login = domain == Domain::LOGIN;
        if name_type != NAME_TYPE_DEFAULT {
            let names = if login { names::login_name_type::name } else { names::name_type::name };
            self.text.raw(member!("NameType"));
            self.text.name_or_number(names(name_type), name_type);
            self.text.comma();
        }
        if login && matches!(name_type, LOGIN_COOKIE | LOGIN_TOKEN) {
            return;
        }
        self.text.raw(member!("Name"));
        match name {
            [] | NO_NAME => self.text.null(),
            name => self.text.string(name),
        }
        self.text.comma();
    }

    fn names(&mut self, items: &Array<'_>) -> Written {
        self.text.raw(member!("Name"));
        self.text.open_array();
        for name in items.items() {
            self.check_length()?;
            self.text.string(name?);
            self.text.comma();
        }
        self.text.close_array();
        self.text.comma();
        Ok(())
    }
}
