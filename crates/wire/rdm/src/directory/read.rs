//! From the wire to [`ServiceDelta`]s.

use rwf::{
    DataType, Decode, Domain, ElementSetDefs, FilterAction, FilterEntry, FilterList, Map, MapAction, MapEntry,
};

use super::Aspect;
use super::delta::{
    Change, Edit, GroupElements, InfoElements, LinkEdit, LinkElements, LoadElements, ServiceDelta,
    StateElements,
};
use super::service::{LinkCode, LinkType, ServiceData, ServiceDataType};
use crate::element::{KnownElement, known_elements};
use crate::{Element, Part, RdmError};

/// Reads the payload of a refresh or update.
///
/// Shape: map, key `UInt` (service id), of filter lists; their entries are element lists, for links a map of
/// element lists by name. No payload is a map without entries. Filter entries of unknown ids are passed over.
pub(super) fn services(container_type: DataType, payload: &[u8]) -> Result<Vec<ServiceDelta>, RdmError> {
    if container_type == DataType::NO_DATA {
        return Ok(Vec::new());
    }
    require_type(Part::Payload, container_type, DataType::MAP)?;
    let map = Map::parse(payload)?;
    require_type(Part::Services, map.key_type, DataType::UINT)?;
    map.entries().map(|entry| service(&map, &entry?)).collect()
}

fn service(map: &Map<'_>, entry: &MapEntry<'_>) -> Result<ServiceDelta, RdmError> {
    let service_id = service_id(entry.key)?;
    let edits = match entry.data {
        None if entry.action == MapAction::Delete => Vec::new(),
        data => {
            require_type(Part::Services, map.container_type, DataType::FILTER_LIST)?;
            edits(data.unwrap_or_default())?
        }
    };
    Ok(ServiceDelta { service_id, action: entry.action, edits })
}

pub(super) fn service_id(key: &[u8]) -> Result<u16, RdmError> {
    let value = u64::decode(key)?.ok_or(RdmError::Missing { part: Part::ServiceId })?;
    let max = u16::MAX.into();
    u16::try_from(value).map_err(|_| RdmError::OutOfRange { part: Part::ServiceId, value, max })
}

fn edits(filter_list: &[u8]) -> Result<Vec<Edit>, RdmError> {
    let mut edits = Vec::new();
    for entry in FilterList::parse(filter_list)?.entries() {
        let entry = entry?;
        if let Some(aspect) = Aspect::from_id(entry.id) {
            edits.push(edit(aspect, &entry)?);
        }
    }
    Ok(edits)
}

fn edit(aspect: Aspect, entry: &FilterEntry<'_>) -> Result<Edit, RdmError> {
    Ok(match aspect {
        Aspect::Info => Edit::Info(change(entry, DataType::ELEMENT_LIST, info)?),
        Aspect::State => Edit::State(change(entry, DataType::ELEMENT_LIST, state)?),
        Aspect::Group => Edit::Group(change(entry, DataType::ELEMENT_LIST, group)?),
        Aspect::Load => Edit::Load(change(entry, DataType::ELEMENT_LIST, load)?),
        Aspect::Data => Edit::Data(change(entry, DataType::ELEMENT_LIST, data)?),
        Aspect::Link => Edit::Links(change(entry, DataType::MAP, links)?),
    })
}

/// The action of a filter entry with what `read` makes of its data; `read` is told whether the data is all
/// there is.
fn change<T>(
    entry: &FilterEntry<'_>,
    wanted: DataType,
    read: impl FnOnce(&[u8], bool) -> Result<T, RdmError>,
) -> Result<Change<T>, RdmError> {
    if entry.action == FilterAction::Clear {
        return Ok(Change::Clear);
    }
    require_type(Part::ServiceEntry, entry.container_type, wanted)?;
    let data = entry.data.unwrap_or_default();
    Ok(match entry.action {
        FilterAction::Set => Change::Set(read(data, true)?),
        FilterAction::Update | FilterAction::Clear => Change::Update(read(data, false)?),
    })
}

fn info(list: &[u8], whole: bool) -> Result<InfoElements, RdmError> {
    let mut info = InfoElements::default();
    for element in known_elements(list, None)? {
        let e = element?;
        match e.element {
            // A blank name is one: whoever follows the directory says what becomes of the service.
            Element::Name => info.name = Some(e.name()?.unwrap_or_default()),
            Element::Vendor => info.vendor = e.text()?,
            Element::IsSource => info.is_source = e.flag()?,
            Element::Capabilities => info.capabilities = capabilities(&e)?,
            Element::DictionariesProvided => info.dictionaries_provided = e.names()?,
            Element::DictionariesUsed => info.dictionaries_used = e.names()?,
            Element::Qos => info.qos = e.qualities()?.filter(|qualities| !qualities.is_empty()),
            Element::SupportsQosRange => info.supports_qos_range = e.flag()?,
            Element::ItemList => info.item_list = e.name()?,
            Element::SupportsOutOfBandSnapshots => info.supports_out_of_band_snapshots = e.flag()?,
            Element::AcceptingConsumerStatus => info.accepting_consumer_status = e.flag()?,
            Element::Path => info.path = e.uints()?,
            _ => {}
        }
    }
    if whole {
        require(info.name.is_some(), Element::Name)?;
        require(info.capabilities.is_some(), Element::Capabilities)?;
    }
    Ok(info)
}

fn capabilities(e: &KnownElement<'_>) -> Result<Option<Vec<Domain>>, RdmError> {
    let max = u8::MAX.into();
    let domain = |value: u64| match u8::try_from(value) {
        Ok(domain) => Ok(Domain(domain)),
        Err(_) => Err(RdmError::OutOfRange { part: e.part(), value, max }),
    };
    e.uints()?.map(|domains| domains.into_iter().map(domain).collect()).transpose()
}

fn state(list: &[u8], whole: bool) -> Result<StateElements, RdmError> {
    let mut state = StateElements::default();
    for element in known_elements(list, None)? {
        let e = element?;
        match e.element {
            Element::ServiceState => state.up = e.flag()?,
            Element::AcceptingRequests => state.accepting_requests = e.flag()?,
            Element::Status => state.status = e.state()?.map(Into::into),
            _ => {}
        }
    }
    require(!whole || state.up.is_some(), Element::ServiceState)?;
    Ok(state)
}

fn group(list: &[u8], _: bool) -> Result<GroupElements, RdmError> {
    let (mut group_id, mut merged_to, mut status) = (None, None, None);
    for element in known_elements(list, None)? {
        let e = element?;
        match e.element {
            Element::Group => group_id = e.buffer()?.map(<[u8]>::to_vec),
            Element::MergedToGroup => merged_to = e.buffer()?.map(<[u8]>::to_vec),
            Element::Status => status = e.state()?.map(Into::into),
            _ => {}
        }
    }
    let group_id = group_id.ok_or(RdmError::Missing { part: Element::Group.into() })?;
    Ok(GroupElements { group_id, merged_to, status })
}

fn load(list: &[u8], _: bool) -> Result<LoadElements, RdmError> {
    let mut load = LoadElements::default();
    for element in known_elements(list, None)? {
        let e = element?;
        match e.element {
            Element::OpenLimit => load.open_limit = e.uint()?,
            Element::OpenWindow => load.open_window = e.uint()?,
            Element::LoadFactor => load.load_factor = e.uint()?,
            _ => {}
        }
    }
    Ok(load)
}

fn data(list: &[u8], _: bool) -> Result<ServiceData, RdmError> {
    let (mut kind, mut value) = (None, (DataType::NO_DATA, &[][..]));
    for element in known_elements(list, None)? {
        let e = element?;
        match e.element {
            Element::Type => kind = e.uint()?.map(ServiceDataType),
            Element::Data => value = e.any(),
            _ => {}
        }
    }
    let kind = kind.ok_or(RdmError::Missing { part: Element::Type.into() })?;
    Ok(ServiceData { kind, data_type: value.0, content: value.1.to_vec() })
}

fn links(map: &[u8], _: bool) -> Result<Vec<LinkEdit>, RdmError> {
    let map = Map::parse(map)?;
    require_type(Part::Links, map.key_type, DataType::ASCII_STRING)?;
    let definitions = match map.container_type {
        DataType::ELEMENT_LIST => map.element_set_defs()?,
        _ => None,
    };
    map.entries().map(|entry| link(&map, &entry?, definitions.as_ref())).collect()
}

fn link<'a>(
    map: &Map<'a>,
    entry: &MapEntry<'a>,
    definitions: Option<&ElementSetDefs<'a>>,
) -> Result<LinkEdit, RdmError> {
    let name = std::str::from_utf8(entry.key).map_err(|_| RdmError::NotText { part: Part::Links })?;
    let mut elements = LinkElements::default();
    if entry.action != MapAction::Delete {
        require_type(Part::Links, map.container_type, DataType::ELEMENT_LIST)?;
        elements = link_elements(entry.data.unwrap_or_default(), definitions)?;
    }
    require(entry.action != MapAction::Add || elements.up.is_some(), Element::LinkState)?;
    Ok(LinkEdit { name: name.to_owned(), action: entry.action, elements })
}

fn link_elements<'a>(
    list: &'a [u8],
    definitions: Option<&ElementSetDefs<'a>>,
) -> Result<LinkElements, RdmError> {
    let mut link = LinkElements::default();
    for element in known_elements(list, definitions)? {
        let e = element?;
        match e.element {
            Element::Type => link.kind = e.uint()?.map(LinkType),
            Element::LinkState => link.up = e.flag()?,
            Element::LinkCode => link.code = e.uint()?.map(LinkCode),
            Element::Text => link.text = e.text()?,
            _ => {}
        }
    }
    Ok(link)
}

fn require(is_there: bool, element: Element) -> Result<(), RdmError> {
    if is_there { Ok(()) } else { Err(RdmError::Missing { part: element.into() }) }
}

pub(super) fn require_type(part: Part, found: DataType, wanted: DataType) -> Result<(), RdmError> {
    if found == wanted { Ok(()) } else { Err(RdmError::WrongType { part, found, wanted }) }
}
