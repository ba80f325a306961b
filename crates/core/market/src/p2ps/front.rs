//! What a front end asks for of its own accord, because it could not show a client what it was given.

use std::collections::BTreeMap;

use units::Nanos;

use super::PointToPoint;
use super::audience::{Audience, Group};
use super::base::Watcher;
use super::sink::ServerSink;

impl PointToPoint {
    /// Sends streams the present image of their items, unasked, each form of an item once. Passed over are
    /// streams that get an image anyway, when theirs has come or when they are not paused any more, and
    /// private ones, of which nothing is kept.
    pub fn send_images(&mut self, watchers: &[Watcher], sink: &mut impl ServerSink) {
        let mut items: BTreeMap<usize, Audience> = BTreeMap::new();
        for &watcher in watchers {
            self.items.settle_stream(watcher, sink);
            let Some(client) = self.items.clients.get(watcher.client) else { continue };
            let Some(stream) = client.streams.get(&watcher.stream_id) else { continue };
            let is_live = self.items.table.get(stream.index()).is_some_and(|item| item.life.is_shown());
            if is_live && !client.pauses(watcher.stream_id) {
                items.entry(stream.index()).or_default().add(watcher, &stream.form, false);
            }
        }
        for (index, audience) in items {
            for Group { form, watchers } in audience.active() {
                self.items.send_image(index, form, watchers, false, sink);
            }
        }
    }

    /// Ends a stream, if it is open. The front end has told its client.
    pub fn end_stream(&mut self, now: Nanos, watcher: Watcher, sink: &mut impl ServerSink) {
        self.items.leave(now, watcher, sink);
    }
}
