//! What peers get of an item that has no image for them.

use rdm::ToVec;
use rwf::{CloseMsg, DataState, DataType, Domain, State, StateCode, StatusMsg, StreamState};

use super::base::{PeerId, ProviderId};
use super::sink::DistributorSink;
use crate::backbone::LinkDown;
use crate::key::ItemKey;

/// Why the items of a provider that is gone are suspect.
pub(super) const PROVIDER_GONE: State<'static> =
    SUSPECT.because(StateCode::NONE, "the connection to the provider is lost");

pub(super) const SERVICE_DOWN: State<'static> =
    SUSPECT.because(StateCode::NONE, "the provider's service is down");

/// Why the items of a provider are suspect that has its data from here.
pub(super) const SERVICE_LOOPS: State<'static> =
    SUSPECT.because(StateCode::NONE, "the provider has the service from here");

pub(super) const SERVICE_WITHDRAWN: State<'static> =
    SUSPECT.because(StateCode::NONE, "the provider has withdrawn the service");

/// The stream is open, its data is not to be trusted.
pub(super) const SUSPECT: State<'static> = State::new(StreamState::Open, DataState::Suspect);

/// Tells a provider that a stream is over.
pub(super) fn close_at(
    (provider, stream_id): (ProviderId, i32),
    domain: Domain,
    sink: &mut impl DistributorSink,
) {
    let close = CloseMsg::new(domain, stream_id, DataType::NO_DATA).to_vec();
    sink.to_provider(provider, &close.expect("no part of a close can be too long"));
}

/// A status message about an item, with stream id 0.
pub(super) fn status_bytes(key: ItemKey<'_>, state: State<'_>) -> Vec<u8> {
    status_of(key, Some(state))
}

fn status_without_state(key: ItemKey<'_>) -> Vec<u8> {
    status_of(key, None)
}

fn status_of(key: ItemKey<'_>, state: Option<State<'_>>) -> Vec<u8> {
    let msg =
        StatusMsg { state, key: Some(key.to_key()), ..StatusMsg::new(key.domain, 0, DataType::NO_DATA) };
    rwf::encode_to_vec(|w| msg.encode(w)).expect("a key of limited length and a short text can be encoded")
}

pub(super) const CLOSED: State<'static> = State::new(StreamState::Closed, DataState::Suspect);

pub(super) const CLOSED_RECOVER: State<'static> = State::new(StreamState::ClosedRecover, DataState::Suspect);

/// The provider has had time to publish the item and has not.
pub(super) const NOT_FOUND: State<'static> =
    CLOSED.because(StateCode::NOT_FOUND, "the provider does not publish this item");

pub(super) const TABLE_FULL: State<'static> =
    CLOSED_RECOVER.because(StateCode::NO_RESOURCES, "the source distributor keeps no more items");

/// The image comes when the provider has published it.
pub(super) const WAITING: State<'static> =
    SUSPECT.because(StateCode::NONE, "waiting for the provider to publish the item");

/// Reports to one peer the state of an item.
pub(super) fn report(peer: PeerId, key: ItemKey<'_>, state: State<'_>, sink: &mut impl DistributorSink) {
    report_bytes(peer, key, &status_bytes(key, state), sink);
}

/// Reports to one peer that the image of an item is on its way, and takes its time: a status without a state.
pub(super) fn report_asked(peer: PeerId, key: ItemKey<'_>, sink: &mut impl DistributorSink) {
    report_bytes(peer, key, &status_without_state(key), sink);
}

/// Reports to one peer what a status message says about an item.
pub(super) fn report_bytes(peer: PeerId, key: ItemKey<'_>, status: &[u8], sink: &mut impl DistributorSink) {
    sink.to_peer(peer, &LinkDown::ItemStatus { key, status });
}
