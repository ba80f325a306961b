//! Refreshes, updates and statuses on their way out.

use counters::table::ProviderSession;
use market::Encoding;
use rssl::Outbound;
use rwf::{DataType, Key, RefreshMsg, State, StatusMsg, StreamState, UpdateMsg, Writer};

use super::ProviderCore;
use super::items::{Item, Standing, stream_id};
use super::session::Session;
use super::spec::{PublishError, Published, PublishedItem, RefreshSpec, UpdateSpec};
use crate::outgoing::push;
use crate::table::Slot;

impl ProviderCore {
    /// Publishes the whole image of an item, in place of what there was. `payload` writes it, and writes the
    /// same if it is called again, which happens when the room was too small.
    ///
    /// An image that is a map longer than [`part_bytes`](crate::ProviderConfig::part_bytes) goes out in
    /// parts, if images are kept.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<Published, PublishError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.refresh(item.0, spec, payload, out)
    }

    /// Publishes a change. `payload` as in [`ProviderCore::refresh`].
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    #[inline]
    pub fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<Published, PublishError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.update(item.0, spec, payload, out)
    }

    /// Publishes a state. One that is not open ends the item, as [`ProviderCore::close`] does.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<Published, PublishError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.status(item.0, state, out)
    }

    /// Ends an item. Its handle is void from now on, unless the call fails.
    ///
    /// # Errors
    /// [`PublishError`] says what stood against it.
    pub fn close(&mut self, item: PublishedItem, text: &str) -> Result<Published, PublishError> {
        let closed = State::new(StreamState::Closed, rwf::DataState::Suspect);
        self.status(item, closed.because(rwf::StateCode::NONE, text))
    }
}

impl Session {
    fn refresh(
        &mut self,
        slot: Slot,
        spec: &RefreshSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<Published, PublishError> {
        let is_open = self.is_open();
        let part_bytes = self.items.part_bytes();
        let item = self.items.table.get_mut(slot).ok_or(PublishError::UnknownItem)?;
        let seq_num = next_number(item.seq_num);
        let msg = spec.message(item.domain, stream_id(slot), seq_num, Some(key(item)));
        let bytes = self.message.try_encode_with(self.dictionary.as_deref(), |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        let in_parts = self.keep_images && spec.container_type == DataType::MAP && bytes.len() > part_bytes;
        let out = out.filter(|_| is_open && !in_parts);
        let is_sent = out.is_some();
        if let Some(out) = out {
            push(out, bytes)
                .map_err(PublishError::from)
                .inspect_err(|error| count_refusal(error, &self.counters))?;
            self.counters.refreshes_out.inc();
        }
        item.seq_num = seq_num;
        item.standing = match item.standing {
            _ if is_sent => Standing::Known,
            Standing::Due => Standing::Due,
            Standing::New | Standing::Forgotten | Standing::Known => Standing::Forgotten,
        };
        if self.keep_images {
            let image = item.image.get_or_insert_default();
            let merged = RefreshMsg::parse(bytes).and_then(|msg| image.on_refresh(&msg, &self.rules));
            merged.map_err(PublishError::Payload)?;
        }
        if is_sent {
            self.items.forget_parts(slot);
            return Ok(Published::Sent);
        }
        Ok(self.keep(slot))
    }

    /// A refresh that was not sent goes out with the image, if there is one.
    fn keep(&mut self, slot: Slot) -> Published {
        if !self.keep_images {
            self.counters.updates_dropped.inc();
            return Published::Dropped;
        }
        self.counters.updates_kept.inc();
        self.items.make_due(slot);
        self.is_pump_due |= self.is_open();
        Published::Kept
    }

    #[inline]
    fn update(
        &mut self,
        slot: Slot,
        spec: &UpdateSpec<'_>,
        mut payload: impl FnMut(&mut Writer<'_>),
        out: Option<&mut Outbound>,
    ) -> Result<Published, PublishError> {
        let item = self.items.table.get_mut(slot).ok_or(PublishError::UnknownItem)?;
        let seq_num = next_number(item.seq_num);
        let key = item.key_in_updates.then(|| key(item));
        let msg = spec.message(item.domain, stream_id(slot), seq_num, key);
        let bytes = self.message.try_encode_with(self.dictionary.as_deref(), |w| {
            msg.encode_header(w);
            payload(w);
        })?;
        let published = match (item.standing, out) {
            (Standing::New, _) => return Err(PublishError::NoImage),
            (Standing::Known, Some(out)) => {
                push(out, bytes)
                    .map_err(PublishError::from)
                    .inspect_err(|error| count_refusal(error, &self.counters))?;
                self.counters.updates_out.inc();
                Published::Sent
            }
            (Standing::Due, _) if !spec.do_not_cache => {
                self.counters.updates_kept.inc();
                Published::Kept
            }
            (Standing::Forgotten | Standing::Due | Standing::Known, _) => {
                self.counters.updates_dropped.inc();
                return Ok(Published::Dropped);
            }
        };
        item.seq_num = seq_num;
        if let Some(image) = &mut item.image {
            let merged = UpdateMsg::parse(bytes).and_then(|msg| image.on_update(&msg, &self.rules));
            merged.map_err(PublishError::Payload)?;
        }
        if published == Published::Kept {
            self.items.note_change(slot);
        }
        Ok(published)
    }

    fn status(
        &mut self,
        slot: Slot,
        state: State<'_>,
        out: Option<&mut Outbound>,
    ) -> Result<Published, PublishError> {
        let is_going_out = self.items.is_going_out(slot);
        let item = self.items.table.get(slot).ok_or(PublishError::UnknownItem)?;
        let is_end = state.stream != StreamState::Open;
        let msg = StatusMsg {
            state: Some(state),
            key: Some(key(item)),
            ..StatusMsg::new(item.domain, stream_id(slot), DataType::NO_DATA)
        };
        let published = match (item.standing, out) {
            (Standing::New, _) if !is_end => return Err(PublishError::NoImage),
            (Standing::Known, Some(out)) => send_status(&msg, &mut self.message, out, &self.counters)?,
            (Standing::Due, Some(out)) if is_end && is_going_out => {
                send_status(&msg, &mut self.message, out, &self.counters)?
            }
            (Standing::Due, _) if !is_end => {
                self.counters.updates_kept.inc();
                Published::Kept
            }
            (Standing::New | Standing::Forgotten | Standing::Due | Standing::Known, _) => Published::Dropped,
        };
        if is_end {
            self.items.remove(slot);
            return Ok(published);
        }
        let msg = StatusMsg { state: Some(state), ..StatusMsg::new(item.domain, 0, DataType::NO_DATA) };
        if let Some(image) = self.items.table.get_mut(slot).and_then(|item| item.image.as_mut()) {
            image.on_status(&msg);
        }
        self.items.note_change(slot);
        Ok(published)
    }
}

fn send_status(
    msg: &StatusMsg<'_>,
    message: &mut Encoding,
    out: &mut Outbound,
    counters: &ProviderSession,
) -> Result<Published, PublishError> {
    let bytes = message.try_encode(|w| msg.encode(w))?;
    push(out, bytes).map_err(PublishError::from).inspect_err(|error| count_refusal(error, counters))?;
    counters.statuses_out.inc();
    Ok(Published::Sent)
}

#[cold]
fn count_refusal(error: &PublishError, counters: &ProviderSession) {
    if let PublishError::WouldBlock { .. } = error {
        counters.would_block.inc();
    }
}

/// The number of the next message, where they are numbered: from 1, and after the last from 1 again.
#[inline]
pub(crate) fn next_number(last: Option<u32>) -> Option<u32> {
    last.map(|last| last.checked_add(1).unwrap_or(1))
}

fn key(item: &Item) -> Key<'_> {
    Key::item(item.service_id, item.name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_number_the_first_follows() {
        let numbers = [None, Some(0), Some(7), Some(u32::MAX)].map(next_number);
        assert_eq!(numbers, [None, Some(1), Some(8), Some(1)]);
    }
}
