//! Images of the two sides of a hot service, and what a side says to this server alone (`hot`).

use std::time::Duration;

use rwf::{DataState, DecodeError, RefreshMsg, State, StateCode, StatusMsg, StreamState};
use units::Nanos;

use super::fanout;
use super::hot::{ask_side, give_up_sides, prove_later, recount_sides, want_side, want_side_later};
use super::items::WatchedItems;
use super::life::{Input, Phase};
use super::merge::{SideNo, Standing, other};
use super::pair::Arriving;
use super::side::{drain_sides, report_difference};
use super::sink::ServerSink;
use super::stream::Incoming;
use crate::backbone::Kind;
use crate::cached::CachedItem;

/// An image that is older than what clients have had is asked for again so much later.
const YOUNGER_AFTER: Duration = Duration::from_millis(100);

/// An item that a side has closed is asked for there again so much later: it may only be there later.
pub(super) const REOPEN_AFTER: Duration = Duration::from_secs(5);

/// An image of more bytes than this, its parts together, is not taken.
const IMAGE_BYTES_MAX: usize = 64 << 20;

/// What clients get of an item that one side does not have, and the other one not yet.
const WAITING: State<'static> = State::new(StreamState::Open, DataState::Suspect)
    .because(StateCode::NONE, "waiting for a provider at one of the source distributors of the pair");

pub(super) fn bind_side(items: &mut WatchedItems, index: usize, side: SideNo, id: u32) -> bool {
    let service = items.table[index].key.service;
    let Some(own) = items.table[index].hot.as_ref().map(|merge| merge.sides[side].id) else {
        return false;
    };
    if own == Some(id) {
        return true;
    }
    items.unbind_side(index, side);
    let stream = items.sources.source_of_side(service, side).and_then(|s| items.sources.stream_mut(s));
    let is_bound = stream.is_some_and(|stream| stream.bind(id, index));
    if let Some(merge) = items.table[index].hot.as_mut() {
        merge.sides[side].id = is_bound.then_some(id);
    }
    is_bound
}

/// A part of an image that a side was asked for.
pub(super) fn on_side_image(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    (id, after): (u32, u64),
    refresh: &[u8],
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let msg = RefreshMsg::parse(refresh)?;
    let Some(merge) = items.table[index].hot.as_ref() else { return Ok(()) };
    if !matches!(merge.sides[side].standing, Standing::Asked | Standing::Refused { .. }) {
        return Ok(());
    }
    let is_first = msg.part_num.unwrap_or(0) == 0;
    if msg.state.stream != StreamState::Open {
        // All there is: no update follows, and nothing has to fit.
        let service = items.table[index].key.service;
        if let Some(pair) = items.sources.pair_mut(service) {
            pair.forget_arriving(index);
        }
        if !items.table[index].life.awaits_image() {
            return Ok(());
        }
        if msg.complete {
            // With its last part the item is gone; the other one is not to go on with it.
            give_up_sides(items, index, sink);
        }
        return items.on_image(now, index, id, after, refresh, sink);
    }
    if is_first {
        let was_bound = merge.sides[side].id == Some(id);
        let service = items.table[index].key.service;
        let joins = bind_side(items, index, side, id)
            && items
                .sources
                .source_of_side(service, side)
                .and_then(|source| items.sources.stream_mut(source))
                .is_some_and(|stream: &mut Incoming| stream.joins_image(after, was_bound));
        if !joins {
            if let Some(pair) = items.sources.pair_mut(service) {
                pair.images.remove(&(index, side));
            }
            ask_side(items, index, side, sink);
            return Ok(());
        }
    }
    items.counters.images_in.inc();
    on_side_part(items, now, (index, side), (after, refresh), sink);
    Ok(())
}

/// A part of an image of a side, taken after a number of its stream.
pub(super) fn on_side_part(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    (after, refresh): (u64, &[u8]),
    sink: &mut impl ServerSink,
) {
    let Ok(msg) = RefreshMsg::parse(refresh) else { return };
    let service = items.table[index].key.service;
    let ripples = items.ripples_of(service);
    let WatchedItems { sources, rules, .. } = items;
    let Some(pair) = sources.pair_mut(service) else { return };
    if msg.part_num.unwrap_or(0) == 0 {
        let arriving = Arriving { after, image: CachedItem::new(ripples), parts: Vec::new(), bytes: 0 };
        pair.images.insert((index, side), arriving);
    }
    let Some(arriving) = pair.images.get_mut(&(index, side)) else { return };
    // Parts of an unasked image have numbers of their own in the stream; asked ones have all the same.
    if msg.solicited && arriving.after != after {
        return;
    }
    arriving.after = arriving.after.max(after);
    arriving.bytes += refresh.len();
    arriving.parts.push(refresh.into());
    let has_room = arriving.bytes <= IMAGE_BYTES_MAX;
    match has_room.then(|| arriving.image.on_refresh(&msg, rules)) {
        Some(Ok(false)) => {}
        Some(Ok(true)) => {
            if let Some(arrived) = pair.images.remove(&(index, side)) {
                on_whole_image(items, now, (index, side), arrived, sink);
            }
        }
        None | Some(Err(_)) => {
            items.counters.messages_refused.inc();
            if let Some(pair) = items.sources.pair_mut(service) {
                pair.images.remove(&(index, side));
            }
            items.table[index].hot.iter_mut().for_each(|merge| merge.sides[side].leave());
            if items.table[index].life.awaits_image() {
                items.spoil(now, index, sink);
            }
        }
    }
}

pub(super) fn on_whole_image(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    arrived: Arriving,
    sink: &mut impl ServerSink,
) {
    let item = &mut items.table[index];
    let service = item.key.service;
    let (is_live, awaits) = (item.life.phase() == Phase::Live, item.life.awaits_image());
    let is_good = arrived.image.state().data != DataState::Suspect;
    let number = arrived.image.seq_num();
    let Some(merge) = item.hot.as_mut() else { return };
    if arrived.after < merge.sides[side].dropped {
        ask_side(items, index, side, sink);
        return;
    }
    let lead_is_bad = merge.lead != side && !merge.sides[merge.lead].is_good;
    merge.sides[side].after = arrived.after;
    merge.sides[side].is_good = is_good;
    if awaits || is_live && (lead_is_bad && is_good || merge.lead == side) {
        let is_behind = awaits && item.cached.is_newer_than(number);
        if is_behind && !is_good {
            return wait_for_good(items, now, (index, side), sink);
        }
        if is_behind && merge.wants_younger() {
            // Clients have had younger data: the side has not come so far yet.
            merge.sides[side].leave();
            want_side_later(items, index, side, now + YOUNGER_AFTER);
            return;
        }
        merge.adopt(side, number);
        let is_second_out = merge.sides[other(side)].standing == Standing::Out;
        show_side_image(items, now, (index, awaits), &arrived.parts, sink);
        if is_second_out {
            want_side(items, index, other(side));
        }
    } else if is_live {
        let is_equal = (number.is_some() && number == merge.number)
            .then(|| item.cached.is_same_image(&arrived.image))
            .flatten();
        let differs = merge.compare(side, number, is_equal);
        let is_unproven = merge.sides[side].standing == Standing::Unproven;
        if !is_good {
            // Its next image may have come over the stream before this one.
            merge.sides[side].leave();
            prove_later(items, now, index, side);
        } else if differs {
            items.counters.hot_images_differing.inc();
            report_difference(items, now, index, sink);
        } else if is_unproven {
            prove_later(items, now, index, side);
        }
    } else {
        merge.sides[side].leave();
    }
    if let Some(pair) = items.sources.pair_mut(service) {
        pair.forget_asked(index, side);
    }
    recount_sides(items, index);
    drain_sides(items, now, index, sink);
    items.send_requests(now, sink);
}

/// The image of a side is older than what clients have had, and not to be trusted: it says nothing new. The side is asked
/// when it has become good, or after a while.
fn wait_for_good(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    sink: &mut impl ServerSink,
) {
    let item = &mut items.table[index];
    let service = item.key.service;
    let Some(merge) = item.hot.as_mut() else { return };
    merge.sides[side].leave();
    let is_hoped = merge.sides[other(side)].standing == Standing::Asked;
    if let Some(pair) = items.sources.pair_mut(service) {
        pair.forget_asked(index, side);
    }
    prove_later(items, now, index, side);
    if !is_hoped {
        // Others take its turn.
        items.on_input(index, Input::Wait);
        items.send_requests(now, sink);
    }
}

/// Shows the image of a side to the watchers.
pub(super) fn show_side_image(
    items: &mut WatchedItems,
    now: Nanos,
    (index, awaits): (usize, bool),
    parts: &[Box<[u8]>],
    sink: &mut impl ServerSink,
) {
    let service = items.table[index].key.service;
    if awaits {
        let Some(pair) = items.sources.pair_mut(service) else { return };
        let sequence = pair.next_sequence();
        for part in parts {
            if fanout::receive_image(items, now, index, sequence, part, sink).is_err() {
                items.spoil(now, index, sink);
                return;
            }
        }
        return;
    }
    for part in parts {
        let Some(pair) = items.sources.pair_mut(service) else { return };
        let sequence = pair.next_sequence();
        items.on_item_message(now, index, sequence, Kind::Refresh, part, sink);
    }
}

/// What a side has sent of an item alone cannot be read.
pub(super) fn spoil_side(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    sink: &mut impl ServerSink,
) {
    let Some(item) = items.table.get_mut(index) else { return };
    if item.life.awaits_image() {
        return items.spoil(now, index, sink);
    }
    items.counters.messages_refused.inc();
    item.hot.iter_mut().for_each(|merge| merge.sides[side].leave());
    recount_sides(items, index);
}

/// What a side says of an item to this server alone: there is none, or its image has to wait.
pub(super) fn on_side_status(
    items: &mut WatchedItems,
    now: Nanos,
    (index, side): (usize, SideNo),
    status: &[u8],
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    let state = StatusMsg::parse(status)?.state;
    let is_closed = state.is_some_and(|state| state.stream != StreamState::Open);
    let Some(merge) = items.table[index].hot.as_mut() else { return Ok(()) };
    let own = &mut merge.sides[side];
    own.is_registered &= !is_closed;
    if matches!(own.standing, Standing::Asked | Standing::Refused { .. }) {
        own.standing = Standing::Refused { is_closed };
        let service = items.table[index].key.service;
        if let Some(pair) = items.sources.pair_mut(service) {
            pair.forget_asked(index, side);
        }
        if is_closed {
            want_side_later(items, index, side, now + REOPEN_AFTER);
        }
        check_refusals(items, now, index, Some(status), sink);
    }
    Ok(())
}

/// An item whose image is awaited: if no side has one to send, watchers are told what the last one has said.
pub(super) fn check_refusals(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    status: Option<&[u8]>,
    sink: &mut impl ServerSink,
) {
    let item = &items.table[index];
    let Some(merge) = item.hot.as_ref().filter(|_| item.life.awaits_image()) else { return };
    let service = item.key.service;
    let mut sides = (0..2).filter(|side| items.sources.side_instance(service, *side).is_some());
    let is_hoped = sides.clone().any(|side| merge.sides[side].standing == Standing::Asked);
    let waits = sides.any(|side| merge.sides[side].standing == Standing::Refused { is_closed: false });
    if is_hoped {
        return;
    }
    let is_closing = status.is_some_and(|s| {
        StatusMsg::parse(s).is_ok_and(|m| m.state.is_some_and(|s| s.stream != StreamState::Open))
    });
    match status {
        Some(status) => {
            let none_yet = StatusMsg::new(item.key.domain, 0, rwf::DataType::NO_DATA);
            let waiting = StatusMsg { state: Some(WAITING), ..none_yet };
            let waiting =
                (is_closing && waits).then(|| items.encoding.encode(|w| waiting.encode(w)).to_vec());
            let told = waiting.as_deref().unwrap_or(status);
            if items.on_item_status(now, index, told, sink).is_err() {
                items.spoil(now, index, sink);
            }
        }
        None if waits => {
            items.on_input(index, Input::Wait);
            items.send_requests(now, sink);
        }
        // The side that was hoped for is gone: both are asked.
        None => {
            items.request(index);
            items.send_requests(now, sink);
        }
    }
}
