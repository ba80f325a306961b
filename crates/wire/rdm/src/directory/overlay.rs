//! How the elements of an aspect change the whole of it, and what elements lead from one whole to another.

use super::delta::{Change, InfoElements, LinkElements, LoadElements, StateElements};
use super::service::{Info, Link, Load, ServiceState};
use crate::OwnedState;

/// The elements of an aspect that were there, to be laid over the whole of it.
pub(super) trait Overlay: Sized {
    /// What holds for elements that are absent is its default.
    type Whole: Clone + Default + PartialEq;
    /// Every element.
    fn of(whole: &Self::Whole) -> Self;
    /// Changes what the elements say.
    fn overlay(&self, whole: &mut Self::Whole);
}

/// Takes a change over.
pub(super) fn apply<T: Overlay>(change: &Change<T>, whole: &mut T::Whole) {
    match change {
        Change::Set(elements) => {
            *whole = T::Whole::default();
            elements.overlay(whole);
        }
        Change::Update(elements) => elements.overlay(whole),
        Change::Clear => *whole = T::Whole::default(),
    }
}

/// The change from one whole to another, if there is one; a set only where an element must vanish.
pub(super) fn change<T: Overlay>(old: &T::Whole, new: &T::Whole) -> Option<Change<T>> {
    if old == new {
        return None;
    }
    let elements = T::of(new);
    let mut updated = old.clone();
    elements.overlay(&mut updated);
    Some(if updated == *new { Change::Update(elements) } else { Change::Set(elements) })
}

/// A list that is not written when it is empty.
fn some(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}

/// Takes over an element that is there.
fn put<T: Clone>(value: &Option<T>, into: &mut T) {
    if let Some(value) = value {
        into.clone_from(value);
    }
}

impl Overlay for InfoElements {
    type Whole = Info;

    fn of(info: &Info) -> Self {
        InfoElements {
            name: Some(info.name.clone()),
            vendor: info.vendor.clone(),
            is_source: Some(info.is_source),
            capabilities: Some(info.capabilities.clone()),
            dictionaries_provided: some(&info.dictionaries_provided),
            dictionaries_used: some(&info.dictionaries_used),
            qos: Some(info.qos.clone()),
            supports_qos_range: Some(info.supports_qos_range),
            item_list: info.item_list.clone(),
            supports_out_of_band_snapshots: Some(info.supports_out_of_band_snapshots),
            accepting_consumer_status: Some(info.accepting_consumer_status),
            path: (!info.path.is_empty()).then(|| info.path.clone()),
        }
    }

    fn overlay(&self, info: &mut Info) {
        put(&self.name, &mut info.name);
        info.vendor = self.vendor.clone().or(info.vendor.take());
        put(&self.is_source, &mut info.is_source);
        put(&self.capabilities, &mut info.capabilities);
        put(&self.dictionaries_provided, &mut info.dictionaries_provided);
        put(&self.dictionaries_used, &mut info.dictionaries_used);
        put(&self.qos, &mut info.qos);
        put(&self.supports_qos_range, &mut info.supports_qos_range);
        info.item_list = self.item_list.clone().or(info.item_list.take());
        put(&self.supports_out_of_band_snapshots, &mut info.supports_out_of_band_snapshots);
        put(&self.accepting_consumer_status, &mut info.accepting_consumer_status);
        put(&self.path, &mut info.path);
    }
}

impl Overlay for StateElements {
    type Whole = ServiceState;

    fn of(state: &ServiceState) -> Self {
        StateElements {
            up: Some(state.up),
            accepting_requests: state.accepting_requests,
            status: state.status.clone(),
        }
    }

    fn overlay(&self, state: &mut ServiceState) {
        put(&self.up, &mut state.up);
        state.accepting_requests = self.accepting_requests.or(state.accepting_requests);
        state.status = self.status.clone().filter(OwnedState::lasts);
    }
}

impl Overlay for LoadElements {
    type Whole = Load;

    fn of(load: &Load) -> Self {
        *load
    }

    fn overlay(&self, load: &mut Load) {
        load.open_limit = self.open_limit.or(load.open_limit);
        load.open_window = self.open_window.or(load.open_window);
        load.load_factor = self.load_factor.or(load.load_factor);
    }
}

impl Overlay for LinkElements {
    type Whole = Link;

    fn of(link: &Link) -> Self {
        LinkElements {
            kind: Some(link.kind),
            up: Some(link.up),
            code: Some(link.code),
            text: Some(link.text.clone()).filter(|text| !text.is_empty()),
        }
    }

    fn overlay(&self, link: &mut Link) {
        put(&self.kind, &mut link.kind);
        put(&self.up, &mut link.up);
        put(&self.code, &mut link.code);
        put(&self.text, &mut link.text);
    }
}
