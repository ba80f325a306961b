//! The item streams of clients: which item each has, and whether it gets updates.

use market::{ItemKey, RefreshForm};
use rwf::{Msg, RefreshMsg};
use server::websocket::PART_BYTES;

use super::InteractiveEvent;
use super::client::{Outlet, Stream, Watcher};
use super::core::Core;
use super::port_connection::PortConnection;
use crate::PublishedItem;
use crate::table::Slot;

impl Core {
    /// A new stream of a client: it has the image at once, or waits for the application.
    pub(super) fn add_stream(
        &mut self,
        connection: PortConnection,
        stream_id: i32,
        stream: Stream,
        out: &mut impl Outlet,
    ) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        client.streams.insert(stream_id, stream);
        self.stream_count += 1;
        self.counters.streams.set(self.stream_count);
        let watcher = Watcher { connection, stream_id };
        if let Some(item) = self.items.table.get_mut(stream.slot) {
            item.waiting.push(watcher);
        }
        self.answer(stream.slot, out);
    }

    /// Gives the image of an item to the streams that wait for it, or asks the application for it.
    pub(super) fn answer(&mut self, slot: Slot, out: &mut impl Outlet) {
        let Some(item) = self.items.table.get_mut(slot) else { return };
        if item.waiting.is_empty() {
            return;
        }
        if !item.has_image() {
            if !std::mem::replace(&mut item.is_asked_for, true) {
                let (domain, name, private) = (item.domain, item.name.clone(), item.private);
                let service = self.service_name(self.items.table.get(slot).map_or(0, |item| item.service_id));
                let item = PublishedItem(slot);
                self.events.push_back(InteractiveEvent::Requested { item, service, domain, name, private });
            }
            return;
        }
        let waiting = std::mem::take(&mut item.waiting);
        self.send_image(slot, &waiting, true, out);
        for watcher in &waiting {
            self.place_stream(slot, *watcher);
        }
        // Snapshots end last, so that an item that others want is not taken for unwanted.
        for watcher in waiting {
            self.end_snapshot(watcher);
        }
    }

    /// Sends the image of an item: to clients that speak RSSL in parts if it is large. Streams whose clients speak
    /// JSON have ended if it cannot be written so.
    pub(super) fn send_image(&mut self, slot: Slot, to: &[Watcher], solicited: bool, out: &mut impl Outlet) {
        let (websocket, rssl): (Vec<Watcher>, Vec<Watcher>) =
            to.iter().partition(|watcher| watcher.connection.is_websocket());
        let form = RefreshForm { solicited, part_bytes: self.config.part_bytes as usize };
        self.send_image_in(slot, form, &rssl, out);
        let form = RefreshForm { solicited, part_bytes: PART_BYTES };
        if !self.send_image_in(slot, form, &websocket, out) {
            websocket.into_iter().for_each(|watcher| self.end_stream(watcher));
        }
    }

    /// Whether the streams go on.
    fn send_image_in(
        &mut self,
        slot: Slot,
        form: RefreshForm,
        to: &[Watcher],
        out: &mut impl Outlet,
    ) -> bool {
        let Some(item) = self.items.table.get(slot).filter(|_| !to.is_empty()) else { return true };
        let key = ItemKey::named(item.service_id, item.domain, item.name.as_bytes());
        let mut goes_on = true;
        let (message, counters, is_private) = (&mut self.message, &self.counters, item.private.is_some());
        item.image.encode_refresh(key, form, &mut self.scratch, |part| {
            counters.refreshes_out.inc();
            match Msg::parse(part) {
                Ok(Msg::Refresh(msg)) if is_private => {
                    let msg = RefreshMsg { private_stream: true, ..msg };
                    // It was encoded before, and the flag takes no room.
                    if let Ok(bytes) = message.try_encode(|w| msg.encode(w)) {
                        goes_on &= out.fan_out(to, bytes);
                    }
                }
                _ => goes_on &= out.fan_out(to, part),
            }
        });
        goes_on
    }

    /// Puts a stream that has its image where it belongs: to those that get updates, or to the paused ones.
    fn place_stream(&mut self, slot: Slot, watcher: Watcher) {
        let Some(client) = self.clients.get_mut(&watcher.connection) else { return };
        let Some(stream) = client.streams.get(&watcher.stream_id) else { return };
        let is_paused = stream.is_paused || client.is_paused;
        if stream.streaming
            && let Some(item) = self.items.table.get_mut(slot)
        {
            if is_paused { item.paused.push(watcher) } else { item.live.push(watcher) }
        }
    }

    fn end_snapshot(&mut self, watcher: Watcher) {
        let stream = self.clients.get(&watcher.connection).and_then(|c| c.streams.get(&watcher.stream_id));
        if stream.is_some_and(|stream| !stream.streaming) {
            self.end_stream(watcher);
        }
    }

    /// Pauses or resumes a stream by itself. One that is resumed waits for an image, unless it is paused with
    /// all others of its client.
    pub(super) fn set_stream_paused(&mut self, watcher: Watcher, is_paused: bool) {
        let Some(client) = self.clients.get_mut(&watcher.connection) else { return };
        let Some(stream) = client.streams.get_mut(&watcher.stream_id) else { return };
        stream.is_paused = is_paused;
        let (slot, is_paused) = (stream.slot, is_paused || client.is_paused);
        self.shift(slot, watcher, is_paused);
    }

    /// Pauses or resumes all streams of a client. Those that are resumed get an image.
    pub(super) fn set_client_paused(
        &mut self,
        connection: PortConnection,
        is_paused: bool,
        out: &mut impl Outlet,
    ) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        if std::mem::replace(&mut client.is_paused, is_paused) == is_paused {
            return;
        }
        let streams: Vec<(i32, Stream)> = client.streams.iter().map(|(id, stream)| (*id, *stream)).collect();
        for (stream_id, stream) in streams {
            self.shift(stream.slot, Watcher { connection, stream_id }, is_paused || stream.is_paused);
            self.answer(stream.slot, out);
        }
    }

    /// Moves a stream that has its image between those that get updates and those that do not.
    fn shift(&mut self, slot: Slot, watcher: Watcher, is_paused: bool) {
        let Some(item) = self.items.table.get_mut(slot) else { return };
        if item.waiting.contains(&watcher) || item.paused.contains(&watcher) == is_paused {
            return;
        }
        item.remove(watcher);
        if is_paused { item.paused.push(watcher) } else { item.waiting.push(watcher) }
    }

    /// Has a stream wait for another image.
    pub(super) fn want_image(&mut self, watcher: Watcher, out: &mut impl Outlet) {
        let stream = self.clients.get(&watcher.connection).and_then(|c| c.streams.get(&watcher.stream_id));
        let Some(slot) = stream.map(|stream| stream.slot) else { return };
        if let Some(item) = self.items.table.get_mut(slot) {
            item.remove(watcher);
            item.waiting.push(watcher);
        }
        self.answer(slot, out);
    }

    /// A stream is over; its item may be wanted by nobody any more.
    pub(super) fn end_stream(&mut self, watcher: Watcher) {
        let Some(client) = self.clients.get_mut(&watcher.connection) else { return };
        if let Some(stream) = client.streams.remove(&watcher.stream_id) {
            self.drop_streams(watcher.connection, std::iter::once((watcher.stream_id, stream)));
        }
    }

    /// What follows from streams that are gone.
    pub(super) fn drop_streams(
        &mut self,
        connection: PortConnection,
        streams: impl Iterator<Item = (i32, Stream)>,
    ) {
        for (stream_id, stream) in streams {
            self.stream_count -= 1;
            let Some(item) = self.items.table.get_mut(stream.slot) else { continue };
            item.remove(Watcher { connection, stream_id });
            if item.is_wanted() {
                continue;
            }
            self.events.push_back(InteractiveEvent::Unwanted { item: PublishedItem(stream.slot) });
            if item.private.is_some() || !item.image.is_known() {
                self.items.remove(stream.slot);
            }
        }
        self.counters.streams.set(self.stream_count);
    }
}
