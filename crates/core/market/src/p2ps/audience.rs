//! Who watches an item, grouped by the form in which they want it.
//!
//! An update is put into each form once, however many streams want it so. Nearly all want the plain form:
//! the provider's own bytes.

use std::collections::HashMap;
use std::sync::Arc;

use rwf::{DecodeError, EncodeError, Qos, Rate, StreamState, UpdateMsg};

use super::base::Watcher;
use super::composed::Alias;
use crate::encoding::Encoding;
use crate::key::ItemKey;
use crate::view::View;

/// What a stream wants to have done to the messages of its item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// It gets one update in so many milliseconds; 0 for every update.
    pub(super) interval_ms: u16,
    /// The interval in milliseconds of the quality that it has; 0 for every update. That of the client's class may be
    /// longer, and holds then.
    pub(super) quality_ms: u16,
    /// The key that the client asked by, of an item of a composed service.
    pub(super) alias: Option<Arc<Alias>>,
}

/// What a client has said at login about data that cannot be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OnSuspect {
    /// The stream stays open and says so. This server sees to it that it becomes good again.
    #[default]
    Report,
    /// The same, but the stream is closed if the service behind it is lost: the client recovers by itself.
    CloseIfLost,
    /// The stream is closed.
    Close,
}

impl OnSuspect {
    /// Whether a stream ends when its data has become suspect, because its service was lost or otherwise.
    pub(super) fn closes(self, is_lost: bool) -> bool {
        match self {
            OnSuspect::Report => false,
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
            && (msg.key.is_none() || self.alias.is_none())
            && (self.conflation_info || msg.conflation.is_none())
    }

    /// The key of an item as clients see it.
    pub(super) fn shown_key<'k>(&'k self, key: ItemKey<'k>) -> ItemKey<'k> {
        self.alias.as_ref().map_or(key, |alias| alias.key.as_key())
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
            key: self.key_in_updates.then(|| self.shown_key(key).to_key()),
            conflation: msg.conflation.filter(|_| self.conflation_info),
            payload,
            ..*msg
        };
        Ok(Some(room.message.try_encode(|w| update.encode(w))?))
    }

    /// A refresh in this form.
    pub(super) fn refresh<'r>(&self, bytes: &'r [u8], room: &'r mut FormRoom) -> Result<&'r [u8], Unusable> {
        if self.view.is_none() && !self.is_snapshot && self.interval_ms == 0 && self.alias.is_none() {
            return Ok(bytes);
        }
        let mut msg = rwf::RefreshMsg::parse(bytes)?;
        if let Some(alias) = &self.alias {
            msg.key = msg.key.map(|_| alias.key.as_key().to_key());
        }
        if self.interval_ms > 0 {
            let qos = msg.qos.unwrap_or(Qos::REAL_TIME);
            msg.qos = Some(Qos { rate: Rate::TimeConflated(self.interval_ms), ..qos });
        }
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
    pub(super) form: Arc<Form>,
    pub(super) watchers: Vec<Watcher>,
}

/// A stream that waits for its first refresh.
#[derive(Clone, Debug)]
pub(super) struct Newcomer {
    pub(super) watcher: Watcher,
    pub(super) form: Arc<Form>,
    /// It wants no updates after the refresh, until it says otherwise.
    pub(super) is_paused: bool,
    /// The refresh was put off until its client has room.
    pub(super) is_due: bool,
}

/// Groups of streams, and where each stream is once they are many: a client that leaves, or a view that is opened,
/// costs the same however many there are.
#[derive(Debug, Default)]
struct Groups {
    groups: Vec<Group>,
    /// How many streams there are in all groups.
    count: usize,
    index: Option<Box<AudienceIndex>>,
}

#[derive(Debug, Default)]
struct AudienceIndex {
    /// The group of a form.
    forms: HashMap<FormKey, usize>,
    /// Group and place in it.
    watchers: HashMap<Watcher, (u32, u32)>,
}

/// A form as it is told from others: views that are equal are one ([`Shared`](crate::shared::Shared)).
type FormKey = (usize, bool, bool, usize, bool, OnSuspect, u16, u16, usize);

/// With so many streams their places are noted, with a quarter of them no longer.
const INDEXED_MIN: usize = 64;

impl Form {
    fn key(&self) -> FormKey {
        let view = self.view.as_ref().map_or(0, |view| Arc::as_ptr(view) as usize);
        let alias = self.alias.as_ref().map_or(0, |alias| Arc::as_ptr(alias) as usize);
        let Form {
            key_in_updates,
            conflation_info,
            part_bytes,
            is_snapshot,
            on_suspect,
            interval_ms,
            quality_ms,
            ..
        } = *self;
        (
            view,
            key_in_updates,
            conflation_info,
            part_bytes,
            is_snapshot,
            on_suspect,
            interval_ms,
            quality_ms,
            alias,
        )
    }
}

impl Groups {
    fn watchers(&self) -> impl Iterator<Item = Watcher> {
        self.groups.iter().flat_map(|group| group.watchers.iter().copied())
    }

    fn add(&mut self, watcher: Watcher, form: &Arc<Form>) {
        let at = match &self.index {
            Some(index) => index.forms.get(&form.key()).copied(),
            None => self.groups.iter().position(|group| group.form == *form),
        };
        let at = at.unwrap_or_else(|| {
            // Nearly all items have one group, and many of those one stream.
            if self.groups.is_empty() {
                self.groups.reserve_exact(1);
            }
            self.groups.push(Group { form: Arc::clone(form), watchers: Vec::with_capacity(1) });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        if let Some(index) = &mut self.index {
            index.forms.insert(form.key(), at);
            index.watchers.insert(watcher, (at as u32, group.watchers.len() as u32));
        }
        group.watchers.push(watcher);
        self.count += 1;
        if self.index.is_none() && self.count >= INDEXED_MIN {
            self.note_places();
        }
    }

    /// Takes a stream out; returns whether it was there.
    fn remove(&mut self, watcher: Watcher) -> bool {
        let found = match &mut self.index {
            Some(index) => index.watchers.remove(&watcher).map(|(at, place)| (at as usize, place as usize)),
            None => {
                let place_in = |group: &Group| group.watchers.iter().position(|w| *w == watcher);
                self.groups.iter().enumerate().find_map(|(at, group)| Some((at, place_in(group)?)))
            }
        };
        let Some((at, place)) = found else { return false };
        let group = &mut self.groups[at];
        group.watchers.swap_remove(place);
        if let (Some(index), Some(moved)) = (&mut self.index, group.watchers.get(place)) {
            index.watchers.insert(*moved, (at as u32, place as u32));
        }
        if group.watchers.is_empty() {
            self.remove_group(at);
        }
        self.count -= 1;
        if self.count < INDEXED_MIN / 4 {
            self.index = None;
        }
        true
    }

    fn remove_group(&mut self, at: usize) {
        let gone = self.groups.swap_remove(at);
        let Some(index) = &mut self.index else { return };
        index.forms.remove(&gone.form.key());
        let Some(moved) = self.groups.get(at) else { return };
        index.forms.insert(moved.form.key(), at);
        for (place, watcher) in moved.watchers.iter().enumerate() {
            index.watchers.insert(*watcher, (at as u32, place as u32));
        }
    }

    fn note_places(&mut self) {
        let mut index = AudienceIndex::default();
        for (at, group) in self.groups.iter().enumerate() {
            index.forms.insert(group.form.key(), at);
            let watchers = group.watchers.iter().enumerate();
            index.watchers.extend(watchers.map(|(place, watcher)| (*watcher, (at as u32, place as u32))));
        }
        self.index = Some(Box::new(index));
    }

    /// Takes out the streams of forms that want no suspect data.
    fn take_closing(&mut self, is_lost: bool, closing: &mut Vec<Watcher>) {
        let taken = self.take_forms(|form| form.on_suspect.closes(is_lost));
        closing.extend(taken.into_iter().flat_map(|group| group.watchers));
    }

    /// Takes out the streams of some forms.
    fn take_forms(&mut self, is_meant: impl Fn(&Form) -> bool) -> Vec<Group> {
        let taken: Vec<Group> = self.groups.extract_if(.., |group| is_meant(&group.form)).collect();
        if !taken.is_empty() {
            self.count -= taken.iter().map(|group| group.watchers.len()).sum::<usize>();
            self.index = None;
            if self.count >= INDEXED_MIN {
                self.note_places();
            }
        }
        taken
    }
}

/// Streams that wait for their first refresh, and where each is once they are many.
#[derive(Debug, Default)]
struct Newcomers {
    all: Vec<Newcomer>,
    index: Option<HashMap<Watcher, u32>>,
}

impl Newcomers {
    fn add(&mut self, newcomer: Newcomer) {
        if let Some(index) = &mut self.index {
            index.insert(newcomer.watcher, self.all.len() as u32);
        }
        self.all.push(newcomer);
        if self.index.is_none() {
            self.note_places();
        }
    }

    fn note_places(&mut self) {
        let index = || self.all.iter().enumerate().map(|(place, newcomer)| (newcomer.watcher, place as u32));
        self.index = (self.all.len() >= INDEXED_MIN).then(|| index().collect());
    }

    fn place_of(&self, watcher: Watcher) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&watcher).map(|place| *place as usize),
            None => self.all.iter().position(|newcomer| newcomer.watcher == watcher),
        }
    }

    fn find(&mut self, watcher: Watcher) -> Option<&mut Newcomer> {
        let place = self.place_of(watcher)?;
        self.all.get_mut(place)
    }

    fn remove(&mut self, watcher: Watcher) -> bool {
        let Some(place) = self.place_of(watcher) else { return false };
        self.all.swap_remove(place);
        if let Some(index) = &mut self.index {
            index.remove(&watcher);
            if let Some(moved) = self.all.get(place) {
                index.insert(moved.watcher, place as u32);
            }
        }
        true
    }

    fn take(&mut self) -> Vec<Newcomer> {
        self.index = None;
        std::mem::take(&mut self.all)
    }

    fn take_closing(&mut self, is_lost: bool, closing: &mut Vec<Watcher>) {
        let taken = self.take_forms(|form| form.on_suspect.closes(is_lost));
        closing.extend(taken.into_iter().map(|newcomer| newcomer.watcher));
    }

    fn take_forms(&mut self, is_meant: impl Fn(&Form) -> bool) -> Vec<Newcomer> {
        let taken = self.all.extract_if(.., |newcomer| is_meant(&newcomer.form)).collect();
        self.note_places();
        taken
    }
}

/// All streams of an item.
#[derive(Debug, Default)]
pub(super) struct Audience {
    /// Those that get every update.
    active: Groups,
    /// The others: nearly all items have none most of the time, and take no room for them.
    others: Option<Box<Others>>,
}

/// Streams of an item that do not get every update.
#[derive(Debug, Default)]
struct Others {
    /// Those that get states alone.
    paused: Groups,
    /// Those that get an image when their clients have room for it, and until then only what is bad.
    due: Groups,
    /// Those that were not sent the last updates and get the newest values when their clients have room.
    changed: Groups,
    newcomers: Newcomers,
}

impl Others {
    fn count(&self) -> usize {
        self.paused.count + self.due.count + self.changed.count + self.newcomers.all.len()
    }

    fn remove(&mut self, watcher: Watcher) -> bool {
        self.paused.remove(watcher)
            || self.due.remove(watcher)
            || self.changed.remove(watcher)
            || self.newcomers.remove(watcher)
    }
}

impl Audience {
    fn others(&mut self) -> &mut Others {
        self.others.get_or_insert_default()
    }

    /// Gives back the room of the others once there are none.
    fn trim(&mut self) {
        self.others.take_if(|others| others.count() == 0);
    }

    /// The streams that get no updates and have had a refresh, and those that are owed something, by form.
    fn other_groups(&self) -> impl Iterator<Item = &Group> {
        let others = self.others.as_deref().into_iter();
        others.flat_map(|others| [&others.paused, &others.due, &others.changed]).flat_map(|all| &all.groups)
    }
}

impl Audience {
    /// Takes in a stream that has had a refresh.
    pub(super) fn add(&mut self, watcher: Watcher, form: &Arc<Form>, is_paused: bool) {
        let groups = if is_paused { &mut self.others().paused } else { &mut self.active };
        groups.add(watcher, form);
    }

    /// Takes in a stream that waits for its first refresh.
    pub(super) fn await_image(&mut self, newcomer: Newcomer) {
        self.others().newcomers.add(newcomer);
    }

    /// Takes a stream out; returns whether it was there.
    pub(super) fn remove(&mut self, watcher: Watcher) -> bool {
        let was_there =
            self.active.remove(watcher) || self.others.as_mut().is_some_and(|others| others.remove(watcher));
        self.trim();
        was_there
    }

    /// Takes a stream out that is not sent updates now; returns whether it was one of these.
    pub(super) fn remove_owed(&mut self, watcher: Watcher) -> bool {
        let others = self.others.as_mut();
        let was_owed =
            others.is_some_and(|others| others.due.remove(watcher) || others.changed.remove(watcher));
        self.trim();
        was_owed
    }

    /// Of the streams that get updates, those that meet a condition wait for an image from now on; returns them.
    pub(super) fn defer(&mut self, mut is_meant: impl FnMut(Watcher) -> bool) -> Vec<Watcher> {
        let mut deferred = Vec::new();
        for Group { form, watchers } in &self.active.groups {
            let meant = watchers.iter().copied().filter(|watcher| is_meant(*watcher));
            deferred.extend(meant.map(|watcher| (watcher, Arc::clone(form))));
        }
        let waiting = deferred.into_iter().map(|(watcher, form)| {
            self.defer_one(watcher, &form);
            watcher
        });
        waiting.collect()
    }

    /// A stream that gets updates gets an image later; returns whether it was there.
    pub(super) fn defer_one(&mut self, watcher: Watcher, form: &Arc<Form>) -> bool {
        self.set_aside(watcher, form, |others| &mut others.due)
    }

    /// Whether a stream waits for an image, or for newest values.
    pub(super) fn needs_image(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.count() > others.paused.count)
    }

    /// A stream that gets updates was not sent one, and gets the newest values later; returns whether it was there.
    pub(super) fn change(&mut self, watcher: Watcher, form: &Arc<Form>) -> bool {
        self.set_aside(watcher, form, |others| &mut others.changed)
    }

    /// Moves a stream that gets updates into a group of others; returns whether it was there.
    fn set_aside(
        &mut self,
        watcher: Watcher,
        form: &Arc<Form>,
        group: impl FnOnce(&mut Others) -> &mut Groups,
    ) -> bool {
        let was_active = self.active.remove(watcher);
        if was_active {
            group(self.others()).add(watcher, form);
        }
        was_active
    }

    /// How many streams are to get every update.
    #[inline]
    pub(super) fn active_count(&self) -> usize {
        self.active.count
    }

    /// How many streams are not sent updates now, and get an image or the newest values later.
    #[inline]
    pub(super) fn owed_count(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.due.count + others.changed.count)
    }

    /// How many streams were not sent the last updates.
    #[inline]
    pub(super) fn changed_count(&self) -> usize {
        self.others.as_ref().map_or(0, |others| others.changed.count)
    }

    /// Takes a stream out that was not sent the last updates; returns whether it was there.
    pub(super) fn take_changed(&mut self, watcher: Watcher) -> bool {
        self.others.as_mut().is_some_and(|others| others.changed.count > 0 && others.changed.remove(watcher))
    }

    /// Those that were not sent the last updates, by form: they get updates from now on, because the caller sends them
    /// the newest values.
    pub(super) fn take_all_changed(&mut self) -> Vec<Group> {
        let taken = self.take_changed_groups();
        for Group { form, watchers } in &taken {
            watchers.iter().for_each(|watcher| self.active.add(*watcher, form));
        }
        taken
    }

    fn take_changed_groups(&mut self) -> Vec<Group> {
        self.others.as_mut().map(|others| std::mem::take(&mut others.changed).groups).unwrap_or_default()
    }

    /// Those that were not sent the last updates wait for an image from now on; returns them.
    pub(super) fn defer_changed(&mut self) -> Vec<Watcher> {
        let taken = self.take_changed_groups();
        let mut deferred = Vec::new();
        for Group { form, watchers } in taken {
            watchers.iter().for_each(|watcher| self.others().due.add(*watcher, &form));
            deferred.extend(watchers);
        }
        deferred
    }

    /// Takes a stream out that waits for an image; returns whether it was there.
    pub(super) fn take_due(&mut self, watcher: Watcher) -> bool {
        self.others.as_mut().is_some_and(|others| others.due.count > 0 && others.due.remove(watcher))
    }

    /// Takes a stream out that waits for its first refresh.
    pub(super) fn take_newcomer(&mut self, watcher: Watcher) -> Option<Newcomer> {
        let newcomers = &mut self.others.as_mut()?.newcomers;
        let newcomer = newcomers.find(watcher)?.clone();
        newcomers.remove(watcher);
        Some(newcomer)
    }

    /// The entry of a stream that waits for its first refresh.
    pub(super) fn newcomer(&mut self, watcher: Watcher) -> Option<&mut Newcomer> {
        self.others.as_mut()?.newcomers.find(watcher)
    }

    /// Those who wait for their first refresh.
    pub(super) fn newcomers(&self) -> Vec<Watcher> {
        let waiting = self.others.iter().flat_map(|others| &others.newcomers.all);
        waiting.map(|newcomer| newcomer.watcher).collect()
    }

    /// Those who wait for their first refresh; they wait no longer.
    pub(super) fn take_newcomers(&mut self) -> Vec<Newcomer> {
        let taken = self.others.as_mut().map(|others| others.newcomers.take()).unwrap_or_default();
        self.trim();
        taken
    }

    /// Pauses a stream or lets it go on; returns whether one that has had a refresh was in the other state.
    pub(super) fn set_paused(&mut self, watcher: Watcher, form: &Arc<Form>, is_paused: bool) -> bool {
        if let Some(newcomer) = self.newcomer(watcher) {
            newcomer.is_paused = is_paused;
            return false;
        }
        let changes = match is_paused {
            true => self.active.remove(watcher) || self.take_due(watcher) || self.take_changed(watcher),
            false => self.others.as_mut().is_some_and(|others| others.paused.remove(watcher)),
        };
        if changes {
            self.add(watcher, form, is_paused);
            self.trim();
        }
        changes
    }

    /// The streams that get updates, by form.
    #[inline]
    pub(super) fn active(&self) -> &[Group] {
        &self.active.groups
    }

    /// The streams that have had a refresh, by form, paused ones too.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.active.groups.iter().chain(self.other_groups())
    }

    /// How many streams there are.
    pub(super) fn count(&self) -> usize {
        self.active.count + self.others.as_ref().map_or(0, |others| others.count())
    }

    /// Whether there is nobody.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// All streams.
    pub(super) fn everyone(&self) -> Vec<Watcher> {
        let mut all = self.everyone_with_image();
        all.extend(self.others.iter().flat_map(|others| others.due.watchers()));
        all
    }

    /// All streams but those that wait for an image after another one.
    pub(super) fn everyone_with_image(&self) -> Vec<Watcher> {
        let mut all: Vec<Watcher> = self.active.watchers().collect();
        if let Some(others) = &self.others {
            all.extend(others.paused.watchers().chain(others.changed.watchers()));
            all.extend(others.newcomers.all.iter().map(|newcomer| newcomer.watcher));
        }
        all
    }

    /// Takes out the streams that are to be closed when the data is suspect.
    pub(super) fn take_closing(&mut self, is_lost: bool) -> Vec<Watcher> {
        let mut closing = Vec::new();
        self.active.take_closing(is_lost, &mut closing);
        if let Some(others) = &mut self.others {
            others.paused.take_closing(is_lost, &mut closing);
            others.due.take_closing(is_lost, &mut closing);
            others.changed.take_closing(is_lost, &mut closing);
            others.newcomers.take_closing(is_lost, &mut closing);
        }
        self.trim();
        closing
    }
}

/// Streams that were taken out, by what they were.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Those that have had a refresh and are to get updates.
    pub(super) active: Vec<Group>,
    /// Those that pause.
    pub(super) paused: Vec<Group>,
    /// Those that wait for their first refresh.
    pub(super) newcomers: Vec<Newcomer>,
}

/// Streams of composed services.
impl Audience {
    /// The aliases by which streams watch the item.
    pub(super) fn aliases(&self) -> Vec<Arc<Alias>> {
        let newcomers = self.others.iter().flat_map(|others| &others.newcomers.all);
        let forms = self.groups().map(|group| &group.form).chain(newcomers.map(|newcomer| &newcomer.form));
        let mut aliases: Vec<Arc<Alias>> = forms.filter_map(|form| form.alias.clone()).collect();
        aliases.sort_unstable_by_key(|alias| alias.place);
        aliases.dedup_by(|a, b| a == b);
        aliases
    }

    /// Takes out the streams of an alias.
    pub(super) fn take_alias(&mut self, alias: &Arc<Alias>) -> Taken {
        let is_meant = |form: &Form| form.alias.as_ref() == Some(alias);
        let mut taken = Taken { active: self.active.take_forms(is_meant), ..Taken::default() };
        if let Some(others) = &mut self.others {
            taken.active.extend(others.due.take_forms(is_meant));
            taken.active.extend(others.changed.take_forms(is_meant));
            taken.paused = others.paused.take_forms(is_meant);
            taken.newcomers = others.newcomers.take_forms(is_meant);
        }
        self.trim();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClientId;
    use super::*;

    fn watcher(stream_id: i32) -> Watcher {
        Watcher { client: ClientId(1), stream_id }
    }

    fn form(on_suspect: OnSuspect) -> Arc<Form> {
        Arc::new(Form {
            view: None,
            key_in_updates: false,
            conflation_info: false,
            part_bytes: 100,
            is_snapshot: false,
            on_suspect,
            interval_ms: 0,
            quality_ms: 0,
            alias: None,
        })
    }

    /// What a stream of this form gets of a conflated update.
    fn conflated(form: &Form, item: &crate::CachedItem, since: u64) -> Option<Vec<u8>> {
        let key = ItemKey::named(7, rwf::Domain::MARKET_PRICE, b"IBM");
        let (mut scratch, mut room) = (crate::Scratch::default(), FormRoom::default());
        let crate::Conflated::Update(bytes) = item.encode_changes(key, since, Some(20), &mut scratch) else {
            panic!("there are changes");
        };
        let Ok(rwf::Msg::Update(msg)) = rwf::Msg::parse(bytes) else { panic!("it is an update") };
        form.update(&msg, key, &mut room).expect("it can be put into any form").map(<[u8]>::to_vec)
    }

    #[test]
    fn a_conflated_update_is_put_into_forms_as_any_update_is() {
        use rwf::{DataType, Domain, Key, Msg, RefreshMsg, encode_to_vec};
        let fields = |all: &[i16]| {
            encode_to_vec(|w| w.field_list(|f| all.iter().for_each(|id| f.put(*id, 5u64)))).expect("legal")
        };
        let (mut item, rules) = (crate::CachedItem::new(true), crate::image::FieldRules::default());
        let (image, change) = (fields(&[22, 25, 30]), fields(&[30, 22]));
        let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        item.on_refresh(&RefreshMsg { complete: true, payload: &image, ..head }, &rules).expect("legal");
        let since = item.version();
        let head = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
        let update = UpdateMsg { payload: &change, ..head };
        item.on_update(&update, &rules).expect("legal");
        item.track_changes(Some(&update));
        let view_of = |ids: &[i16]| {
            let wanted = rdm::item::View::Fields(ids.into());
            Some(Arc::new(View::of(&wanted, &rwf::Dictionary::new())))
        };
        let plain = form(OnSuspect::Report);
        let whole = conflated(&plain, &item, since).expect("all of it");
        let Ok(Msg::Update(whole)) = Msg::parse(&whole) else { panic!("it is an update") };
        assert_eq!((whole.payload, whole.key, whole.conflation), (&fields(&[22, 30])[..], None, None));
        let keyed = Form {
            view: view_of(&[25, 30]),
            key_in_updates: true,
            conflation_info: true,
            ..Form::clone(&plain)
        };
        let part = conflated(&keyed, &item, since).expect("a part of it");
        let Ok(Msg::Update(part)) = Msg::parse(&part) else { panic!("it is an update") };
        assert_eq!((part.payload, part.key), (&fields(&[30])[..], Some(Key::item(7, b"IBM"))));
        assert!(part.do_not_ripple && part.conflation.is_some());
        let other = Form { view: view_of(&[25]), ..keyed };
        assert_eq!(conflated(&other, &item, since), None, "nothing that it shows has changed");
    }

    #[test]
    fn streams_of_one_form_are_one_group_and_paused_ones_get_no_updates() {
        let mut audience = Audience::default();
        let reported = form(OnSuspect::Report);
        let keyed = Arc::new(Form { key_in_updates: true, ..Form::clone(&reported) });
        audience.add(watcher(5), &reported, false);
        audience.add(watcher(6), &reported, false);
        audience.add(watcher(7), &keyed, false);
        audience.add(watcher(8), &reported, true);
        assert_eq!(audience.active().iter().map(|g| g.watchers.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(audience.everyone().len(), 4);
        for stream_id in 5..=8 {
            assert!(audience.remove(watcher(stream_id)) && !audience.remove(watcher(stream_id)));
        }
        assert!(audience.is_empty());
    }

    /// Against a list that is searched: thousands of streams of many forms come, pause, go on and leave.
    #[test]
    fn places_are_right_whatever_comes_and_goes() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(7);
        let forms: Vec<Arc<Form>> = (0..40)
            .map(|n| (n, form([OnSuspect::Report, OnSuspect::Close][n % 2])))
            .map(|(n, form)| Arc::new(Form { part_bytes: n, ..Form::clone(&form) }))
            .collect();
        let (mut audience, mut model) = (Audience::default(), Vec::<(Watcher, usize, u8)>::new());
        for step in 0..30_000 {
            let grows = step / 5_000 % 2 == 0;
            if rng.next_u64() % 10 < if grows { 7 } else { 3 } || model.is_empty() {
                let watcher = Watcher { client: ClientId((rng.next_u64() % 50) as u32), stream_id: step };
                let (at, kind) = ((rng.next_u64() % 40) as usize, (rng.next_u64() % 3) as u8);
                let form = Arc::clone(&forms[at]);
                match kind {
                    2 => audience.await_image(Newcomer { watcher, form, is_paused: false, is_due: false }),
                    _ => audience.add(watcher, &form, kind == 1),
                }
                model.push((watcher, at, kind));
            } else {
                let place = (rng.next_u64() % model.len() as u64) as usize;
                let (watcher, at, kind) = model[place];
                if kind < 2 && rng.next_u64().is_multiple_of(2) {
                    assert!(audience.set_paused(watcher, &forms[at], kind == 0));
                    model[place].2 = 1 - kind;
                } else {
                    assert!(audience.remove(watcher) && !audience.remove(watcher));
                    model.swap_remove(place);
                }
            }
            if step % 7_001 == 7_000 {
                let mut closed = audience.take_closing(true);
                let mut wanted: Vec<Watcher> =
                    model.extract_if(.., |(_, at, _)| *at % 2 == 1).map(|(watcher, ..)| watcher).collect();
                closed.sort_by_key(|w| w.stream_id);
                wanted.sort_by_key(|w| w.stream_id);
                assert_eq!(closed, wanted);
            }
            if step % 1_000 == 0 {
                let mut active: Vec<(Watcher, usize)> = audience
                    .active()
                    .iter()
                    .flat_map(|group| group.watchers.iter().map(|w| (*w, group.form.part_bytes)))
                    .collect();
                let mut wanted: Vec<(Watcher, usize)> =
                    model.iter().filter(|(.., kind)| *kind == 0).map(|(w, at, _)| (*w, *at)).collect();
                active.sort_by_key(|(w, _)| w.stream_id);
                wanted.sort_by_key(|(w, _)| w.stream_id);
                assert_eq!(active, wanted);
                assert_eq!(audience.everyone().len(), model.len());
            }
        }
        for (watcher, ..) in model {
            assert!(audience.remove(watcher));
        }
        assert!(audience.is_empty() && audience.active.index.is_none());
    }

    #[test]
    fn who_wants_no_suspect_data_is_taken_out_when_there_is_some() {
        let mut audience = Audience::default();
        audience.add(watcher(5), &form(OnSuspect::Report), false);
        audience.add(watcher(6), &form(OnSuspect::CloseIfLost), true);
        let form = form(OnSuspect::Close);
        audience.await_image(Newcomer { watcher: watcher(7), form, is_paused: false, is_due: false });
        assert_eq!(audience.take_closing(false), [watcher(7)]);
        assert_eq!(audience.take_closing(true), [watcher(6)]);
        assert_eq!(audience.everyone(), [watcher(5)]);
    }
}
