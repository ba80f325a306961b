//! Who watches an item, grouped by the form in which they want it.
//!
//! An update is put into each form once, however many streams want it so. Nearly all want the plain form:
//! the provider's own bytes.

use std::sync::Arc;

use rwf::{DecodeError, EncodeError, StreamState, UpdateMsg};

use super::Watcher;
use crate::encoding::Encoding;
use crate::key::ItemKey;
use crate::view::View;

/// What a stream wants to have done to the messages of its item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// The part that is wanted; `None` for all of it.
    pub(super) view: Option<Arc<View>>,
    /// Updates repeat the key.
    pub(super) key_in_updates: bool,
    /// Updates say how many they stand for, where the provider has said so.
    pub(super) conflation_info: bool,
    /// About how many bytes a part of a refresh may have.
    pub(super) part_bytes: usize,
    /// The image is all that is wanted, and its state says so.
    pub(super) is_snapshot: bool,
    /// What becomes of the stream when its data is no longer good.
    pub(super) on_suspect: OnSuspect,
}

/// What a client has said at login about data that cannot be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OnSuspect {
    /// The stream stays open and says so. This server sees to it that it becomes good again.
    #[default]
    Tell,
    /// The same, but the stream is closed if the service behind it is lost: the client recovers by itself.
    CloseIfLost,
    /// The stream is closed.
    Close,
}

impl OnSuspect {
    /// Whether a stream ends when its data has become suspect, because its service was lost or otherwise.
    pub(super) fn closes(self, is_lost: bool) -> bool {
        match self {
            OnSuspect::Tell => false,
            OnSuspect::CloseIfLost => is_lost,
            OnSuspect::Close => true,
        }
    }
}

/// Room for the messages of forms that are not plain.
#[derive(Debug, Default)]
pub(super) struct FormRoom {
    payload: Encoding,
    message: Encoding,
}

/// A message that cannot be put into a form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unusable;

impl From<DecodeError> for Unusable {
    fn from(_: DecodeError) -> Self {
        Unusable
    }
}

impl From<EncodeError> for Unusable {
    fn from(_: EncodeError) -> Self {
        Unusable
    }
}

impl Form {
    /// Whether the provider's bytes are in this form as they are.
    #[inline]
    pub(super) fn has(&self, msg: &UpdateMsg<'_>) -> bool {
        self.view.is_none()
            && self.key_in_updates == msg.key.is_some()
            && (self.conflation_info || msg.conflation.is_none())
    }

    /// An update in this form; `None` if the view shows nothing of it.
    pub(super) fn update<'r>(
        &self,
        msg: &UpdateMsg<'_>,
        key: ItemKey<'_>,
        room: &'r mut FormRoom,
    ) -> Result<Option<&'r [u8]>, Unusable> {
        let payload = match &self.view {
            None => msg.payload,
            Some(view) => match restrict(view, msg.container_type, msg.payload, &mut room.payload)? {
                (payload, true) => payload,
                (_, false) => return Ok(None),
            },
        };
        let update = UpdateMsg {
            key: self.key_in_updates.then(|| key.to_key()),
            conflation: msg.conflation.filter(|_| self.conflation_info),
            payload,
            ..*msg
        };
        Ok(Some(room.message.try_encode(|w| update.encode(w))?))
    }

    /// A refresh in this form.
    pub(super) fn refresh<'r>(&self, bytes: &'r [u8], room: &'r mut FormRoom) -> Result<&'r [u8], Unusable> {
        if self.view.is_none() && !self.is_snapshot {
            return Ok(bytes);
        }
        let mut msg = rwf::RefreshMsg::parse(bytes)?;
        if let Some(view) = &self.view {
            (msg.payload, _) = restrict(view, msg.container_type, msg.payload, &mut room.payload)?;
        }
        if self.is_snapshot && msg.state.stream == StreamState::Open {
            msg.state.stream = StreamState::NonStreaming;
        }
        Ok(room.message.try_encode(|w| msg.encode(w))?)
    }
}

/// What a view leaves of a payload, and whether that says anything.
fn restrict<'r>(
    view: &View,
    container_type: rwf::DataType,
    payload: &[u8],
    room: &'r mut Encoding,
) -> Result<(&'r [u8], bool), Unusable> {
    let mut says = Ok(false);
    let bytes = room.try_encode(|w| says = view.write(container_type, payload, w))?;
    Ok((bytes, says?))
}

/// Streams that want an item in the same form.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) form: Form,
    pub(super) watchers: Vec<Watcher>,
}

/// A stream that waits for its first refresh.
#[derive(Clone, Debug)]
pub(super) struct Newcomer {
    pub(super) watcher: Watcher,
    pub(super) form: Form,
    /// One refresh is all it wants.
    pub(super) is_snapshot: bool,
    /// It wants no updates after the refresh, until it says otherwise.
    pub(super) is_paused: bool,
}

/// All streams of an item.
#[derive(Debug, Default)]
pub(super) struct Audience {
    /// Those that get every update.
    active: Vec<Group>,
    /// Those that get states alone.
    paused: Vec<Group>,
    newcomers: Vec<Newcomer>,
}

impl Audience {
    /// Takes in a stream that has had a refresh.
    pub(super) fn add(&mut self, watcher: Watcher, form: &Form, is_paused: bool) {
        let groups = if is_paused { &mut self.paused } else { &mut self.active };
        match groups.iter_mut().find(|group| group.form == *form) {
            Some(group) => group.watchers.push(watcher),
            None => groups.push(Group { form: form.clone(), watchers: vec![watcher] }),
        }
    }

    /// Takes in a stream that waits for its first refresh.
    pub(super) fn await_image(&mut self, newcomer: Newcomer) {
        self.newcomers.push(newcomer);
    }

    /// Takes a stream out; returns whether it was there.
    pub(super) fn remove(&mut self, watcher: Watcher) -> bool {
        if remove_from(&mut self.active, watcher) || remove_from(&mut self.paused, watcher) {
            return true;
        }
        let before = self.newcomers.len();
        self.newcomers.retain(|newcomer| newcomer.watcher != watcher);
        self.newcomers.len() != before
    }

    /// The entry of a stream that waits for its first refresh.
    pub(super) fn newcomer(&mut self, watcher: Watcher) -> Option<&mut Newcomer> {
        self.newcomers.iter_mut().find(|newcomer| newcomer.watcher == watcher)
    }

    /// Those who wait for their first refresh; they wait no longer.
    pub(super) fn take_newcomers(&mut self) -> Vec<Newcomer> {
        std::mem::take(&mut self.newcomers)
    }

    /// Pauses a stream or lets it go on; returns whether one that has had a refresh was in the other state.
    pub(super) fn set_paused(&mut self, watcher: Watcher, form: &Form, is_paused: bool) -> bool {
        if let Some(newcomer) = self.newcomer(watcher) {
            newcomer.is_paused = is_paused;
            return false;
        }
        let from = if is_paused { &mut self.active } else { &mut self.paused };
        let changes = remove_from(from, watcher);
        if changes {
            self.add(watcher, form, is_paused);
        }
        changes
    }

    /// The streams that get updates, by form.
    #[inline]
    pub(super) fn active(&self) -> &[Group] {
        &self.active
    }

    /// The streams that have had a refresh, by form, paused ones too.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.active.iter().chain(&self.paused)
    }

    /// Whether there is nobody.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.paused.is_empty() && self.newcomers.is_empty()
    }

    /// All streams.
    pub(super) fn everyone(&self) -> Vec<Watcher> {
        let groups = self.active.iter().chain(&self.paused);
        let newcomers = self.newcomers.iter().map(|newcomer| newcomer.watcher);
        groups.flat_map(|group| group.watchers.iter().copied()).chain(newcomers).collect()
    }

    /// Takes out the streams that are to be closed when the data is suspect.
    pub(super) fn take_closing(&mut self, is_lost: bool) -> Vec<Watcher> {
        let mut closing = Vec::new();
        for groups in [&mut self.active, &mut self.paused] {
            let taken = groups.extract_if(.., |group| group.form.on_suspect.closes(is_lost));
            closing.extend(taken.flat_map(|group| group.watchers));
        }
        let taken = self.newcomers.extract_if(.., |newcomer| newcomer.form.on_suspect.closes(is_lost));
        closing.extend(taken.map(|newcomer| newcomer.watcher));
        closing
    }
}

fn remove_from(groups: &mut Vec<Group>, watcher: Watcher) -> bool {
    let place_in = |group: &Group| group.watchers.iter().position(|w| *w == watcher);
    let found = groups.iter().enumerate().find_map(|(at, group)| Some((at, place_in(group)?)));
    let Some((at, place)) = found else { return false };
    groups[at].watchers.swap_remove(place);
    if groups[at].watchers.is_empty() {
        groups.swap_remove(at);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::ClientId;
    use super::*;

    fn watcher(stream_id: i32) -> Watcher {
        Watcher { client: ClientId(1), stream_id }
    }

    fn form(on_suspect: OnSuspect) -> Form {
        Form {
            view: None,
            key_in_updates: false,
            conflation_info: false,
            part_bytes: 100,
            is_snapshot: false,
            on_suspect,
        }
    }

    #[test]
    fn streams_of_one_form_are_one_group_and_paused_ones_get_no_updates() {
        let mut audience = Audience::default();
        let tell = form(OnSuspect::Tell);
        let keyed = Form { key_in_updates: true, ..tell.clone() };
        audience.add(watcher(5), &tell, false);
        audience.add(watcher(6), &tell, false);
        audience.add(watcher(7), &keyed, false);
        audience.add(watcher(8), &tell, true);
        assert_eq!(audience.active().iter().map(|g| g.watchers.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(audience.everyone().len(), 4);
        for stream_id in 5..=8 {
            assert!(audience.remove(watcher(stream_id)) && !audience.remove(watcher(stream_id)));
        }
        assert!(audience.is_empty());
    }

    #[test]
    fn who_wants_no_suspect_data_is_taken_out_when_there_is_some() {
        let mut audience = Audience::default();
        audience.add(watcher(5), &form(OnSuspect::Tell), false);
        audience.add(watcher(6), &form(OnSuspect::CloseIfLost), true);
        let form = form(OnSuspect::Close);
        audience.await_image(Newcomer { watcher: watcher(7), form, is_snapshot: false, is_paused: false });
        assert_eq!(audience.take_closing(false), [watcher(7)]);
        assert_eq!(audience.take_closing(true), [watcher(6)]);
        assert_eq!(audience.everyone(), [watcher(5)]);
    }
}
