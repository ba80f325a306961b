//! What an interactive provider tells its application.

use std::net::SocketAddr;
use std::sync::Arc;

use rwf::{Domain, GenericMsg, Msg, PostMsg};

use super::port_connection::PortConnection;
use crate::PublishedItem;

/// A client of an interactive provider: names one connection, and nothing once that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    pub(crate) connection: PortConnection,
    pub(crate) serial: u64,
}

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientLogin {
    /// The user's name; empty for a login by token.
    pub user: String,
    /// Where the user sits.
    pub position: String,
    /// The id of the application.
    pub application_id: String,
    /// The name of the application.
    pub application_name: String,
    /// The password, if there is one.
    pub password: Option<String>,
    /// The token, if there is one.
    pub token: Option<String>,
}

/// A post that wants an ack: [`InteractiveProvider::ack`](super::InteractiveProvider::ack) and
/// [`InteractiveProvider::nak`](super::InteractiveProvider::nak) answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostTicket {
    pub(crate) client: ClientId,
    /// What of the post the ack repeats.
    pub(crate) post: PostMsg<'static>,
}

/// A message of a client, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedMsg(pub(crate) Box<[u8]>);

/// Something that happened. The application answers with calls of the provider that it is handed with it, at
/// once or later.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InteractiveEvent {
    /// A client's connection stands; it has not logged in yet.
    Connected {
        /// Which.
        client: ClientId,
        /// From where.
        peer: SocketAddr,
        /// What it calls itself, with control characters escaped.
        component: String,
    },
    /// A client has logged in; or wants to, if the configuration has
    /// [`asks_for_logins`](crate::InteractiveConfig::asks_for_logins). Then it waits for
    /// [`accept_login`](super::InteractiveProvider::accept_login) or
    /// [`reject_login`](super::InteractiveProvider::reject_login).
    Login {
        /// Which.
        client: ClientId,
        /// Who it says it is.
        login: ClientLogin,
    },
    /// A client is gone, with all that it wanted.
    Disconnected {
        /// Which.
        client: ClientId,
        /// Why its connection is over.
        reason: String,
    },
    /// Somebody wants an item that has no image: publish a refresh, or close the item.
    Requested {
        /// The item, as if it had been made by [`item`](super::InteractiveProvider::item).
        item: PublishedItem,
        /// The name of its service.
        service: Arc<str>,
        /// Its domain.
        domain: Domain,
        /// Its name.
        name: Arc<str>,
        /// The one client that it is for, on a private stream; `None`: it is for all who want it.
        private: Option<ClientId>,
    },
    /// Nobody wants the item any more. Updates of it go into its image alone; it can be forgotten. An item of
    /// a private stream, or one that never had an image, is forgotten with this.
    Unwanted {
        /// Which.
        item: PublishedItem,
    },
    /// A client contributes data.
    Post {
        /// Who.
        client: ClientId,
        /// The item on whose stream the post came; `None`: the post names an item, published or not.
        item: Option<PublishedItem>,
        /// The post; see [`OwnedMsg::post`].
        message: OwnedMsg,
        /// What answers it, if it wants an answer.
        ticket: Option<PostTicket>,
    },
    /// A client says something on the stream of an item.
    Generic {
        /// Who.
        client: ClientId,
        /// The item.
        item: PublishedItem,
        /// What it says; see [`OwnedMsg::generic`].
        message: OwnedMsg,
    },
}

impl OwnedMsg {
    /// The bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The message.
    ///
    /// # Panics
    /// Never: it was read before.
    #[must_use]
    pub fn msg(&self) -> Msg<'_> {
        Msg::parse(&self.0).expect("the message was read before")
    }

    /// The message, if it is a post.
    #[must_use]
    pub fn post(&self) -> Option<PostMsg<'_>> {
        if let Msg::Post(post) = self.msg() { Some(post) } else { None }
    }

    /// The message, if it is a generic one.
    #[must_use]
    pub fn generic(&self) -> Option<GenericMsg<'_>> {
        if let Msg::Generic(generic) = self.msg() { Some(generic) } else { None }
    }
}

impl std::fmt::Debug for ClientLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLogin")
            .field("user", &self.user)
            .field("position", &self.position)
            .field("application_id", &self.application_id)
            .field("application_name", &self.application_name)
            .finish_non_exhaustive()
    }
}
