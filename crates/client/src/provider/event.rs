//! What a provider tells its application.

use std::time::Duration;

use rdm::login::LoginRefresh;
use rwf::State;

use super::PublishedItem;
use crate::{DisconnectReason, HostPort};

/// Something that happened. It borrows from the message at hand and is valid during the call that brings it.
#[non_exhaustive]
pub enum ProviderEvent<'a> {
    /// The RSSL connection to a server stands; the login is under way.
    Connected {
        /// The server.
        host: &'a HostPort,
        /// What was agreed, and what the server calls itself.
        session: &'a rssl::Session<'a>,
    },
    /// The session is lost, or could not be made.
    Disconnected {
        /// The server.
        host: &'a HostPort,
        /// Why.
        reason: DisconnectReason,
        /// How long it is until the next attempt; `None`: there will be none.
        retry_in: Option<Duration>,
    },
    /// The login is accepted, the directory is published.
    LoggedIn(&'a LoginRefresh<'a>),
    /// The server says something about the login, which goes on.
    LoginStatus(State<'a>),
    /// The login is refused, or was ended.
    LoginRefused {
        /// The server's words.
        state: State<'a>,
        /// Whether it will be tried again. If not, [`Provider::restart`](crate::Provider::restart) does it.
        retry: bool,
    },
    /// All images that are kept are on their way: what is published from now on is sent at once.
    Ready {
        /// Images published again on this connection.
        images_count: u64,
        /// No images are kept: the application has to publish a refresh of each item.
        wants_images: bool,
    },
    /// An image has become longer than the backlog allows and cannot be published. What is published for the
    /// item is dropped until its next refresh.
    ImageTooLong {
        /// The item.
        item: PublishedItem,
        /// The length of the message.
        bytes: usize,
    },
}
