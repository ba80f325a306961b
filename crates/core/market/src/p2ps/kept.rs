//! Images that another keeps anyway: a shard has a copy of the relay's while it needs one.
//!
//! An item's updates reach its streams without an image: they are passed on as they came. An image is needed when a
//! stream begins, comes back from a pause, or was not sent an update. So the image of an item that needs none is given up
//! after a while ([`CachedItem::give_up_image`]): it is *away*. When it is needed it is *recalled*: asked for again. It
//! comes in its place among the updates, so who is sent every update meanwhile neither waits nor misses anything, and who
//! needs the image waits for it:
//!
//! | stream | waits | until then |
//! |---|---|---|
//! | new, or asks for a refresh | among the newcomers of the item | gets no updates: they will be in the image |
//! | comes back from a pause, or was not sent an update | as one for which an image is due ([`due`](super::due)) | the same; each update that it lacks is counted |
//!
//! An image is away only of an item that is [`Live`](Phase::Live); whatever makes it suspect leads to an image for all. It
//! is here for as long as a stream waits for it, or lacks updates. Without a limit ([`ServerConfig::kept_images_max`])
//! all images stay: a server that takes the backbone itself has nobody to ask.
//!
//! [`ServerConfig::kept_images_max`]: super::ServerConfig::kept_images_max
//! [`CachedItem::give_up_image`]: crate::CachedItem::give_up_image

use std::sync::Arc;

use rwf::{DecodeError, RefreshMsg, StreamState};
use units::Nanos;

use super::audience::Newcomer;
use super::base::Watcher;
use super::fanout;
use super::instance::send_to_instance;
use super::items::WatchedItems;
use super::life::Phase;
use super::sink::ServerSink;
use crate::backbone::LinkUp;
use crate::cached::CachedItem;

/// With more images than there may be, so many are looked at for each that comes: one more than comes.
const LOOKED_AT: usize = 2;

/// Gives up the oldest image unless it is needed, or was sent to somebody and there is room: then it is the newest.
fn look_at_oldest(items: &mut WatchedItems, now: Nanos) {
    let WatchedItems { kept, table, .. } = items;
    let is_over = kept.is_over();
    let Some((_, index, serial)) = kept.here.pop_front() else { return };
    let Some(item) = table.get_mut(index).filter(|item| item.serial == serial) else { return };
    let was_sent = std::mem::take(&mut item.image_use.was_sent);
    if item.audience.needs_image() || was_sent && !is_over {
        kept.here.push_back((now, index, serial));
        return;
    }
    item.image_use.is_listed = false;
    if item.life.phase() == Phase::Live {
        item.forget_changes();
        item.cached.give_up_image();
    }
}

/// Gives up images that nobody has needed for a while, as many as may be looked at in a turn.
fn give_up(items: &mut WatchedItems, now: Nanos) {
    for _ in 0..items.config.cleanups_per_turn {
        if now < items.kept.next_wakeup() {
            break;
        }
        look_at_oldest(items, now);
    }
}

/// The image of an item is here and was sent to those who waited for it.
pub(super) fn note_here(items: &mut WatchedItems, now: Nanos, index: usize, sink: &mut impl ServerSink) {
    let Some(item) = items.table.get_mut(index).filter(|_| items.kept.max.is_some()) else { return };
    if let Some(recall) = item.recall.take() {
        items.kept.forget(&recall);
        recall.streams.iter().for_each(|watcher| items.clients.enqueue_due(*watcher));
    }
    if !std::mem::replace(&mut item.image_use.is_listed, true) {
        items.kept.here.push_back((now, index, item.serial));
    }
    for _ in 0..LOOKED_AT {
        if items.kept.is_over() {
            look_at_oldest(items, now);
        }
    }
    ask(items, sink);
}

/// An image is needed that is away; `streams` are those that it is due for when it has come.
pub(super) fn recall(
    items: &mut WatchedItems,
    index: usize,
    streams: &[Watcher],
    sink: &mut impl ServerSink,
) {
    let item = &mut items.table[index];
    let is_news = item.recall.is_none();
    item.recall.get_or_insert_default().streams.extend(streams);
    if is_news {
        items.kept.wanted.push_back((index, item.serial));
        ask(items, sink);
    }
}

/// Asks for images until enough are on their way.
fn ask(items: &mut WatchedItems, sink: &mut impl ServerSink) {
    for _ in 0..items.config.cleanups_per_turn {
        if items.kept.outstanding >= items.config.images_outstanding_max {
            break;
        }
        let Some((index, serial)) = items.kept.wanted.pop_front() else { break };
        let Some(item) = items.table.get_mut(index).filter(|item| item.serial == serial) else { continue };
        // Of one that is not live an image for all comes by itself.
        let is_live = item.life.phase() == Phase::Live;
        let service = items.sources.services.get(&item.key.service).filter(|_| is_live);
        let Some(active) = service.and_then(|service| service.active) else { continue };
        let Some(recall) = item.recall.as_mut().filter(|recall| !recall.is_asked) else { continue };
        recall.is_asked = true;
        items.kept.outstanding += 1;
        items.counters.images_requested.inc();
        let msg = LinkUp::ImageRequest { key: item.key.as_key() };
        send_to_instance(&items.sources.instances, active.instance, msg, sink);
    }
}

/// Asks for what is still to be asked for.
pub(super) fn check(items: &mut WatchedItems, now: Nanos, sink: &mut impl ServerSink) {
    ask(items, sink);
    give_up(items, now);
}

/// Streams are to be sent an image that is away: they wait for it. `solicited` if it answers their requests.
#[cold]
pub(super) fn wait(
    items: &mut WatchedItems,
    index: usize,
    watchers: &[Watcher],
    solicited: bool,
    sink: &mut impl ServerSink,
) {
    let mut due = Vec::new();
    for &watcher in watchers {
        let Some(client) = items.clients.get(watcher.client) else { continue };
        let Some(stream) = client.streams.get(&watcher.stream_id) else { continue };
        let (form, is_paused) = (Arc::clone(&stream.form), client.pauses(watcher.stream_id));
        let item = &mut items.table[index];
        if solicited {
            item.audience.remove(watcher);
            let newcomer = Newcomer { watcher, form, is_paused, is_due: false };
            item.audience.await_image(newcomer);
        } else if item.audience.defer_one(watcher, &form) {
            items.clients.begin_due(watcher, item.updates);
            due.push(watcher);
        }
    }
    recall(items, index, &due, sink);
}

/// One part of an image that was recalled; `id` is the item's in the stream.
pub(super) fn on_image(
    items: &mut WatchedItems,
    now: Nanos,
    index: usize,
    (id, after): (u32, u64),
    refresh: &[u8],
    sink: &mut impl ServerSink,
) -> Result<(), DecodeError> {
    if !items.table[index].recall.as_ref().is_some_and(|recall| recall.is_asked) {
        return Ok(());
    }
    let msg = RefreshMsg::parse(refresh)?;
    let was_bound = items.table[index].id == Some(id);
    let is_first = msg.part_num.unwrap_or(0) == 0;
    if is_first && !(items.bind(index, id) && items.joins_stream(index, after, was_bound)) {
        ask_again(items, index, sink);
        return Ok(());
    }
    let ripples = items.ripples_of(items.table[index].key.service);
    let item = &mut items.table[index];
    let Some(recall) = &mut item.recall else { return Ok(()) };
    if is_first {
        recall.incoming = Some((after, CachedItem::new(ripples)));
    }
    let Some((_, image)) = recall.incoming.as_mut().filter(|(begun, _)| *begun == after) else {
        return Ok(());
    };
    match image.on_refresh(&msg, &items.rules) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => {
            // From here on it is an item without an image, which is asked for again when that is overdue.
            items.kept.restart(recall);
            items.request(index);
            return Err(error);
        }
    }
    let Some((_, image)) = recall.incoming.take() else { return Ok(()) };
    if item.life.image_after().is_some_and(|last| last > after) {
        // Updates have passed that are not in it.
        ask_again(items, index, sink);
        return Ok(());
    }
    // Unless one for all has come meanwhile.
    if item.cached.is_away() {
        item.cached.take_back(image);
        items.count_suspect(index);
    }
    if msg.state.stream != StreamState::Open {
        items.end_with_image(index, sink);
        return Ok(());
    }
    fanout::close_if_suspect(items, now, index, sink);
    fanout::serve_newcomers(items, now, index, sink);
    note_here(items, now, index, sink);
    Ok(())
}

/// What has come of an image is of no use.
#[cold]
fn ask_again(items: &mut WatchedItems, index: usize, sink: &mut impl ServerSink) {
    let item = &mut items.table[index];
    let Some(recall) = &mut item.recall else { return };
    items.kept.restart(recall);
    items.kept.wanted.push_back((index, item.serial));
    ask(items, sink);
}
