//! Replay: what a core knows of an item, reported once more.

use market::{ItemKey, RefreshForm, Scratch};
use rwf::{DataState, DataType, RefreshMsg, State, StatusMsg};

use crate::consumer::event::{ConsumerSink, ItemMsg};
use crate::consumer::item::Fate;
use crate::consumer::{ConsumerCore, ItemHandle};

/// About how many bytes a part of an image has; only a map has parts.
const PART_BYTES: usize = 61_440;

impl ConsumerCore {
    /// Reports the image of an item as an unsolicited refresh, in parts if it is large. Returns whether there
    /// was one that can be trusted; nothing was reported if not.
    pub(super) fn replay_image(
        &self,
        handle: ItemHandle,
        scratch: &mut Scratch,
        sink: &mut ConsumerSink<'_>,
    ) -> bool {
        let session = &self.life.session;
        let (Some(item), Some(image)) = (session.watchlist.item(handle), self.image(handle)) else {
            return false;
        };
        let Some(service) = session.watchlist.service_id(item) else { return false };
        let key = ItemKey::named(service, item.domain, item.name.as_bytes());
        let form = RefreshForm { solicited: false, part_bytes: PART_BYTES };
        let mut is_good = false;
        image.encode_refresh(key, form, scratch, |bytes| {
            let msg = RefreshMsg::parse(bytes).expect("it has just been written");
            is_good = msg.state.data == DataState::Ok;
            if is_good {
                let state = Some((msg.state, Fate::Lives));
                let lookup = session.lookup();
                session.watchlist.emit(handle.0, ItemMsg::Refresh(&msg), Some(bytes), state, lookup, sink);
            }
        });
        is_good
    }

    /// Reports a state of an item that is not the server's.
    pub(super) fn replay_state(&self, handle: ItemHandle, state: State<'_>, sink: &mut ConsumerSink<'_>) {
        let session = &self.life.session;
        let Some(item) = session.watchlist.item(handle) else { return };
        let stream_id = item.phase.stream_id().unwrap_or_default();
        let msg =
            StatusMsg { state: Some(state), ..StatusMsg::new(item.domain, stream_id, DataType::NO_DATA) };
        let fate = Some((state, Fate::Lives));
        session.watchlist.emit(handle.0, ItemMsg::Status(&msg), None, fate, session.lookup(), sink);
    }
}
