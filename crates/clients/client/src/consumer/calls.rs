//! What an application does with a consumer's items once they are subscribed.

use rwf::{Domain, EncodeError, Priority, Writer};
use units::Nanos;

use super::changes::Wanted;
use super::{
    Capability, ConsumerCore, ConsumerSendError, GenericSpec, ItemHandle, ItemRequestSpec, ItemView, PostId,
    PostSpec, SubscribeError,
};

/// Several items at once.
impl ConsumerCore {
    /// Asks for items that differ in their names alone; the name in `spec` is not used. Where the server's
    /// login announces batch requests they go in as few messages as may be, else in one each.
    pub fn subscribe_all(
        &mut self,
        spec: &ItemRequestSpec<'_>,
        names: &[&str],
    ) -> Vec<Result<ItemHandle, SubscribeError>> {
        self.life.session.watchlist.subscribe_all(spec, names)
    }

    /// Ends items, in as few messages as may be where the server's login announces batch closes. Returns how
    /// many there were; no event follows.
    pub fn unsubscribe_all(&mut self, handles: &[ItemHandle]) -> usize {
        self.life.session.watchlist.unsubscribe_all(handles)
    }
}

/// Changes of items. An open stream is asked for again (a reissue); an item that waits for its stream says it
/// with its request. They last until the next change, also over connections.
impl ConsumerCore {
    /// Wants another part of an item, `None` for all of it. An image of it follows.
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`], [`ConsumerSendError::UnknownItem`].
    pub fn set_view(&mut self, handle: ItemHandle, view: Option<ItemView>) -> Result<(), ConsumerSendError> {
        self.life.session.require(Capability::Views)?;
        self.change(handle, Wanted::View(view))
    }

    /// Gives an item another priority.
    ///
    /// # Errors
    /// [`ConsumerSendError::UnknownItem`].
    pub fn set_priority(&mut self, handle: ItemHandle, priority: Priority) -> Result<(), ConsumerSendError> {
        self.change(handle, Wanted::Priority(priority))
    }

    /// Lets the server stop the updates of an item. Some may still come.
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`], [`ConsumerSendError::UnknownItem`].
    pub fn pause(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.life.session.require(Capability::PauseResume)?;
        self.change(handle, Wanted::Paused(true))
    }

    /// Wants the updates of an item again. An image of it comes first.
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`], [`ConsumerSendError::UnknownItem`].
    pub fn resume(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.life.session.require(Capability::PauseResume)?;
        self.change(handle, Wanted::Paused(false))
    }

    /// Wants the image of an item once more.
    ///
    /// # Errors
    /// [`ConsumerSendError::UnknownItem`].
    pub fn request_image(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
        self.change(handle, Wanted::Image)
    }

    /// Lets the server stop the updates of all items, those that are still to be subscribed too: the login is
    /// sent again with its pause flag.
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`].
    pub fn pause_all(&mut self) -> Result<(), ConsumerSendError> {
        self.set_paused(true)
    }

    /// Wants the updates of all items again that are not paused by themselves. The server sends images of
    /// them as it sees fit.
    ///
    /// # Errors
    /// [`ConsumerSendError::NotSupported`].
    pub fn resume_all(&mut self) -> Result<(), ConsumerSendError> {
        self.set_paused(false)
    }

    fn set_paused(&mut self, is_paused: bool) -> Result<(), ConsumerSendError> {
        self.life.session.require(Capability::PauseResume)?;
        if std::mem::replace(&mut self.life.session.is_paused, is_paused) != is_paused {
            self.life.session.change_login();
        }
        Ok(())
    }

    fn change(&mut self, handle: ItemHandle, wanted: Wanted) -> Result<(), ConsumerSendError> {
        if self.life.session.watchlist.change(handle, wanted) {
            Ok(())
        } else {
            Err(ConsumerSendError::UnknownItem)
        }
    }
}

/// Messages to the server.
impl ConsumerCore {
    /// Posts on the stream of an item: contributes data to it. If an ack is wanted,
    /// [`ConsumerEvent::Posted`](super::ConsumerEvent::Posted) tells what became of the post, exactly once:
    /// when the ack comes, when it is overdue, or when the connection is lost.
    ///
    /// # Errors
    /// [`ConsumerSendError`] says what stood against it; nothing was sent then.
    pub fn post(
        &mut self,
        now: Nanos,
        handle: ItemHandle,
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<PostId, ConsumerSendError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        let out = out.filter(|_| self.life.session.knows_features());
        self.life.session.post(now, handle, spec, payload, out)
    }

    /// Posts to an item that need not be subscribed: `item` is service, domain and name. See
    /// [`ConsumerCore::post`].
    ///
    /// # Errors
    /// [`ConsumerSendError`] says what stood against it; nothing was sent then.
    pub fn post_off_stream(
        &mut self,
        now: Nanos,
        item: (&str, Domain, &str),
        spec: &PostSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<PostId, ConsumerSendError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        let out = out.filter(|_| self.life.session.knows_features());
        self.life.session.post_off_stream(now, item, spec, payload, out)
    }

    /// Sends a generic message on the stream of an item: what the two ends agree on. Those of the server come
    /// as [`ItemMsg::Generic`](super::ItemMsg::Generic).
    ///
    /// # Errors
    /// [`ConsumerSendError`] says what stood against it; nothing was sent then.
    pub fn send_generic(
        &mut self,
        handle: ItemHandle,
        spec: &GenericSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<(), ConsumerSendError> {
        let out = self.life.connector.open_parts().map(|(_, connection)| connection.outbound());
        self.life.session.generic(handle, spec, payload, out)
    }

    /// Logs in with a token instead of user and password from now on: with the next login, and on a
    /// connection that stands at once, where the server answers with another
    /// [`ConsumerEvent::LoggedIn`](super::ConsumerEvent::LoggedIn) or ends the login.
    ///
    /// # Errors
    /// The token is too long for a login; the one before stays.
    pub fn set_login_token(&mut self, token: &str) -> Result<(), EncodeError> {
        self.life.session.set_token(token)
    }
}
