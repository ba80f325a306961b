//! From [`ServiceDelta`]s to the wire.

use rwf::{
    AsciiString, Buffer, DataType, ElementListWriter, Encoded, FilterAction, FilterListWriter, MapHead,
    Writer,
};

use super::delta::{
    Change, Edit, GroupElements, InfoElements, LinkEdit, LinkElements, LoadElements, ServiceDelta,
    StateElements,
};
use super::service::ServiceData;
use crate::Element;
use crate::element::PutElement;

/// Writes the payload of a refresh or update; the elements in the order in which stock providers write them.
pub(super) fn services(w: &mut Writer<'_>, deltas: &[ServiceDelta]) {
    w.map(&MapHead::new(DataType::UINT, DataType::FILTER_LIST), |map| {
        for delta in deltas {
            map.entry(delta.action, u64::from(delta.service_id), None, |w| {
                w.filter_list(DataType::ELEMENT_LIST, None, |entries| {
                    delta.edits.iter().for_each(|edit| put_edit(entries, edit));
                });
            });
        }
    });
}

fn put_edit(f: &mut FilterListWriter<'_, '_>, edit: &Edit) {
    let id = edit.aspect() as u8;
    match edit {
        Edit::Info(change) => put_list(f, id, change, put_info),
        Edit::State(change) => put_list(f, id, change, put_state),
        Edit::Group(change) => put_list(f, id, change, put_group),
        Edit::Load(change) => put_list(f, id, change, put_load),
        Edit::Data(change) => put_list(f, id, change, put_data),
        Edit::Links(change) => {
            let (action, links) = action_of(change);
            let write = |w: &mut Writer<'_>| put_links(w, links.map_or(&[], Vec::as_slice));
            f.entry_with(action, id, Some(DataType::MAP), None, write);
        }
    }
}

fn action_of<T>(change: &Change<T>) -> (FilterAction, Option<&T>) {
    match change {
        Change::Set(elements) => (FilterAction::Set, Some(elements)),
        Change::Update(elements) => (FilterAction::Update, Some(elements)),
        Change::Clear => (FilterAction::Clear, None),
    }
}

/// A filter entry that is an element list.
fn put_list<T>(
    f: &mut FilterListWriter<'_, '_>,
    id: u8,
    change: &Change<T>,
    put: impl FnOnce(&mut ElementListWriter<'_, '_, '_>, &T),
) {
    let (action, elements) = action_of(change);
    f.entry(action, id, |w| {
        w.element_list(|e| {
            if let Some(elements) = elements {
                put(e, elements);
            }
        });
    });
}

fn put_info(e: &mut ElementListWriter<'_, '_, '_>, info: &InfoElements) {
    e.ascii(Element::Name, info.name.as_deref());
    e.ascii(Element::Vendor, info.vendor.as_deref());
    e.flag(Element::IsSource, info.is_source);
    if let Some(domains) = &info.capabilities {
        e.list(Element::Capabilities, domains.iter().map(|domain| u64::from(domain.0)));
    }
    put_names(e, Element::DictionariesProvided, info.dictionaries_provided.as_deref());
    put_names(e, Element::DictionariesUsed, info.dictionaries_used.as_deref());
    if let Some(qualities) = &info.qos {
        e.list(Element::Qos, qualities.iter().copied());
    }
    e.flag(Element::SupportsQosRange, info.supports_qos_range);
    e.ascii(Element::ItemList, info.item_list.as_deref());
    e.flag(Element::SupportsOutOfBandSnapshots, info.supports_out_of_band_snapshots);
    e.flag(Element::AcceptingConsumerStatus, info.accepting_consumer_status);
    if let Some(path) = &info.path {
        e.list(Element::Path, path.iter().copied());
    }
}

fn put_state(e: &mut ElementListWriter<'_, '_, '_>, state: &StateElements) {
    e.flag(Element::ServiceState, state.up);
    e.flag(Element::AcceptingRequests, state.accepting_requests);
    e.some(Element::Status, state.status.as_ref().map(|status| status.in_entry()));
}

fn put_group(e: &mut ElementListWriter<'_, '_, '_>, group: &GroupElements) {
    e.element(Element::Group, Buffer(&group.group_id));
    e.some(Element::MergedToGroup, group.merged_to.as_deref().map(Buffer));
    e.some(Element::Status, group.status.as_ref().map(|status| status.in_entry()));
}

fn put_load(e: &mut ElementListWriter<'_, '_, '_>, load: &LoadElements) {
    e.some(Element::OpenLimit, load.open_limit);
    e.some(Element::OpenWindow, load.open_window);
    e.some(Element::LoadFactor, load.load_factor);
}

fn put_data(e: &mut ElementListWriter<'_, '_, '_>, data: &ServiceData) {
    e.element(Element::Type, data.kind.0);
    if data.data_type == DataType::NO_DATA {
        e.no_data(Element::Data.name());
    } else {
        e.element(Element::Data, Encoded { data_type: data.data_type, content: &data.content });
    }
}

fn put_links(w: &mut Writer<'_>, links: &[LinkEdit]) {
    w.map(&MapHead::new(DataType::ASCII_STRING, DataType::ELEMENT_LIST), |map| {
        for link in links {
            map.entry(link.action, AsciiString::from(link.name.as_str()), None, |w| {
                w.element_list(|e| put_link(e, &link.elements));
            });
        }
    });
}

fn put_link(e: &mut ElementListWriter<'_, '_, '_>, link: &LinkElements) {
    e.some(Element::Type, link.kind.map(|kind| kind.0));
    e.flag(Element::LinkState, link.up);
    e.some(Element::LinkCode, link.code.map(|code| code.0));
    e.ascii(Element::Text, link.text.as_deref());
}

fn put_names(e: &mut ElementListWriter<'_, '_, '_>, element: Element, names: Option<&[String]>) {
    if let Some(names) = names {
        e.list(element, names.iter().map(|name| AsciiString::from(name.as_str())));
    }
}
