//! What an application does with a consumer that has several servers.

use rwf::{Domain, EncodeError, Priority, Writer};
use units::Nanos;

use super::StandbyCore;
use super::state::RequestedItem;
use crate::consumer::changes::Wanted;
use crate::consumer::watchlist::Watchlist;
use crate::consumer::{
    ConsumerCore, ConsumerSendError, GenericSpec, ItemHandle, ItemRequestSpec, ItemView, PostId, PostSpec,
    SubscribeError,
};

/// Items.
impl StandbyCore {
    /// Asks all servers for an item; a snapshot or a private stream is the active server's alone. See
    /// [`ConsumerCore::subscribe`].
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing was done then.
    pub fn subscribe(&mut self, spec: &ItemRequestSpec<'_>) -> Result<ItemHandle, SubscribeError> {
        self.add(spec, &vec![0; self.members.len()])
    }

    /// Asks for items that differ in their names alone; see [`ConsumerCore::subscribe_all`].
    pub fn subscribe_all(
        &mut self,
        spec: &ItemRequestSpec<'_>,
        names: &[&str],
    ) -> Vec<Result<ItemHandle, SubscribeError>> {
        let batches = self.next_batches();
        names.iter().map(|name| self.add(&ItemRequestSpec { name, ..spec.clone() }, &batches)).collect()
    }

    /// A number for what goes in one message, for each server.
    fn next_batches(&mut self) -> Vec<u32> {
        self.members.iter_mut().map(|member| member.life.session.watchlist.next_batch()).collect()
    }

    fn add(&mut self, spec: &ItemRequestSpec<'_>, batches: &[u32]) -> Result<ItemHandle, SubscribeError> {
        Watchlist::check(spec)?;
        let unit = self.unit_of(spec.service);
        let slot = self.state.insert(unit, spec);
        let active = self.state.units[unit as usize].active;
        if let Err(error) = self.open(slot, active, batches[active]) {
            self.state.items.remove(slot);
            return Err(match error {
                SubscribeError::AlreadyOpen(handle) => {
                    let known = self.state.servers[active].by_handle.get(&handle).copied();
                    SubscribeError::AlreadyOpen(known.map_or(handle, ItemHandle))
                }
                error => error,
            });
        }
        if spec.streaming && !spec.private_stream {
            for server in (0..self.members.len()).filter(|server| *server != active) {
                // The active server has taken the same request.
                let _ = self.open(slot, server, batches[server]);
            }
        }
        Ok(ItemHandle(slot))
    }

    /// Ends an item everywhere. Returns whether there was one; no event follows.
    pub fn unsubscribe(&mut self, handle: ItemHandle) -> bool {
        self.unsubscribe_all(&[handle]) == 1
    }

    /// Ends items, in as few messages as may be; see [`ConsumerCore::unsubscribe_all`].
    pub fn unsubscribe_all(&mut self, handles: &[ItemHandle]) -> usize {
        let batches = self.next_batches();
        let end = |ItemHandle(slot): &ItemHandle| {
            batches.iter().enumerate().for_each(|(server, batch)| self.shut(*slot, server, *batch));
            self.state.items.remove(*slot).is_some()
        };
        handles.iter().map(end).filter(|there_was| *there_was).count()
    }
}

/// Changes of items: every server learns of them, so that each is ready to take over.
impl StandbyCore {
    /// Wants another part of an item; see [`ConsumerCore::set_view`].
    ///
    /// # Errors
    /// As [`ConsumerCore::set_view`] at the active server.
    pub fn set_view(&mut self, handle: ItemHandle, view: Option<ItemView>) -> Result<(), ConsumerSendError> {
        self.at_active(handle, |core, item| core.set_view(item, view.clone()))?;
        self.at_others(handle, |watchlist, item| watchlist.change(item, Wanted::View(view.clone())));
        self.note(handle, |wish| wish.spec.view = view);
        Ok(())
    }

    /// Gives an item another priority; see [`ConsumerCore::set_priority`].
    ///
    /// # Errors
    /// As [`ConsumerCore::set_priority`] at the active server.
    pub fn set_priority(&mut self, handle: ItemHandle, priority: Priority) -> Result<(), ConsumerSendError> {
        self.at_active(handle, |core, item| core.set_priority(item, priority))?;
        self.at_others(handle, |watchlist, item| watchlist.change(item, Wanted::Priority(priority)));
        self.note(handle, |wish| wish.spec.priority = priority);
        Ok(())
    }

    /// Lets the servers stop the updates of an item; see [`ConsumerCore::pause`].
    ///
    /// # Errors
    /// As [`ConsumerCore::pause`] at the active server.
    pub fn pause(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.at_active(handle, ConsumerCore::pause)?;
        self.set_paused(handle, true);
        Ok(())
    }

    /// Wants the updates of an item again; see [`ConsumerCore::resume`].
    ///
    /// # Errors
    /// As [`ConsumerCore::resume`] at the active server.
    pub fn resume(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.at_active(handle, ConsumerCore::resume)?;
        self.set_paused(handle, false);
        Ok(())
    }

    fn set_paused(&mut self, handle: ItemHandle, is_paused: bool) {
        self.at_others(handle, |watchlist, item| watchlist.change(item, Wanted::Paused(is_paused)));
        self.note(handle, |wish| wish.is_paused = is_paused);
    }

    /// Lets the servers stop the updates of all items; see [`ConsumerCore::pause_all`].
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`] if that is so at one of the servers; the others have been asked.
    pub fn pause_all(&mut self) -> Result<(), ConsumerSendError> {
        self.at_all(ConsumerCore::pause_all)
    }

    /// Wants the updates of all items again; see [`ConsumerCore::resume_all`].
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`] if that is so at one of the servers; the others have been asked.
    pub fn resume_all(&mut self) -> Result<(), ConsumerSendError> {
        self.at_all(ConsumerCore::resume_all)
    }

    /// Wants the image of an item once more, from the active server.
    ///
    /// # Errors
    /// As [`ConsumerCore::request_image`].
    pub fn request_image(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.at_active(handle, ConsumerCore::request_image)
    }
}

/// Messages to the active server, and logins.
impl StandbyCore {
    /// Posts on the stream of an item, to its active server; see [`ConsumerCore::post`].
    ///
    /// # Errors
    /// As [`ConsumerCore::post`].
    pub fn post(
        &mut self,
        now: Nanos,
        handle: ItemHandle,
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<PostId, ConsumerSendError> {
        let (server, item) = self.state.at_active(handle).ok_or(ConsumerSendError::UnknownItem)?;
        self.numbered(server, |core| core.post(now, item, spec, payload))
    }

    /// Posts to an item by service, domain and name, to the active server of the service; see
    /// [`ConsumerCore::post_off_stream`].
    ///
    /// # Errors
    /// As [`ConsumerCore::post_off_stream`].
    pub fn post_off_stream(
        &mut self,
        now: Nanos,
        item: (&str, Domain, &str),
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<PostId, ConsumerSendError> {
        let server = self.state.active_for(item.0);
        self.numbered(server, |core| core.post_off_stream(now, item, spec, payload))
    }

    /// Posts of all servers have numbers of one sequence.
    fn numbered(
        &mut self,
        server: usize,
        post: impl FnOnce(&mut ConsumerCore) -> Result<PostId, ConsumerSendError>,
    ) -> Result<PostId, ConsumerSendError> {
        let core = &mut self.members[server];
        core.life.session.posts.continue_after(self.last_post_id);
        let id = post(core)?;
        self.last_post_id = id.0;
        Ok(id)
    }

    /// Sends a generic message on the stream of an item, to its active server; see
    /// [`ConsumerCore::send_generic`].
    ///
    /// # Errors
    /// As [`ConsumerCore::send_generic`].
    pub fn send_generic(
        &mut self,
        handle: ItemHandle,
        spec: &GenericSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<(), ConsumerSendError> {
        self.at_active(handle, |core, item| core.send_generic(item, spec, payload))
    }

    /// Logs in everywhere with a token; see [`ConsumerCore::set_login_token`].
    ///
    /// # Errors
    /// The token is too long for a login; the one before stays.
    pub fn set_login_token(&mut self, token: &str) -> Result<(), EncodeError> {
        self.members.iter_mut().try_for_each(|member| member.set_login_token(token))
    }

    fn at_active<R>(
        &mut self,
        handle: ItemHandle,
        call: impl FnOnce(&mut ConsumerCore, ItemHandle) -> Result<R, ConsumerSendError>,
    ) -> Result<R, ConsumerSendError> {
        let (server, item) = self.state.at_active(handle).ok_or(ConsumerSendError::UnknownItem)?;
        call(&mut self.members[server], item)
    }

    fn at_others(&mut self, handle: ItemHandle, mut call: impl FnMut(&mut Watchlist, ItemHandle) -> bool) {
        let Some(entry) = self.state.items.get(handle.0) else { return };
        let active = self.state.units[entry.unit as usize].active;
        for (server, member) in self.members.iter_mut().enumerate() {
            if let Some(item) = entry.handles[server].filter(|_| server != active) {
                call(&mut member.life.session.watchlist, item);
            }
        }
    }

    fn at_all(
        &mut self,
        call: impl Fn(&mut ConsumerCore) -> Result<(), ConsumerSendError>,
    ) -> Result<(), ConsumerSendError> {
        self.members.iter_mut().map(call).fold(Ok(()), Result::and)
    }

    /// What a server is to be asked for that comes back later.
    fn note(&mut self, handle: ItemHandle, note: impl FnOnce(&mut RequestedItem)) {
        if let Some(entry) = self.state.items.get_mut(handle.0) {
            note(&mut entry.wish);
        }
    }
}
