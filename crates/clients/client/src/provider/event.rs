//! What a provider tells its application.

use std::fmt;
use std::time::Duration;

use rdm::login::LoginRefresh;
use rwf::{GenericMsg, PostMsg, State};

use super::PublishedItem;
use crate::{DisconnectReason, HostPort, shown};

/// A post that wants an ack: [`Provider::ack`](crate::Provider::ack) and
/// [`Provider::nak`](crate::Provider::nak) answer it, on the connection that it came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedTicket {
    /// Counts logins.
    pub(crate) login: u64,
    /// What of the post the ack repeats.
    pub(crate) post: PostMsg<'static>,
}

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
    /// A consumer behind the server contributes data.
    Post {
        /// The item on whose stream it came; `None`: the post names its item itself.
        item: Option<PublishedItem>,
        /// The post.
        post: &'a PostMsg<'a>,
        /// What answers it, if it wants an answer.
        ticket: Option<PublishedTicket>,
    },
    /// The server says something on the stream of an item.
    Generic {
        /// The item.
        item: PublishedItem,
        /// What it says.
        msg: &'a GenericMsg<'a>,
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

impl fmt::Display for ProviderEvent<'_> {
    /// What happened, in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { host, session } => shown::connected(f, host, session.component_version),
            Self::Disconnected { host, reason, retry_in } => shown::disconnected(f, host, *reason, *retry_in),
            Self::LoggedIn(refresh) => write!(f, "logged in: {}", refresh.state),
            Self::LoginStatus(state) => write!(f, "login: {state}"),
            Self::LoginRefused { state, retry } => shown::login_refused(f, *state, *retry),
            Self::Post { post, ticket, .. } => {
                let wanted = if ticket.is_some() { ", which wants an ack" } else { "" };
                write!(f, "a post of {} bytes{wanted}", post.payload.len())
            }
            Self::Generic { msg, .. } => write!(f, "a generic message of {} bytes", msg.payload.len()),
            Self::Ready { images_count, wants_images: false } => {
                write!(f, "ready: {images_count} images published again")
            }
            Self::Ready { wants_images: true, .. } => {
                f.write_str("ready: no images are kept, publish a refresh of each item")
            }
            Self::ImageTooLong { bytes, .. } => {
                write!(f, "an image of {bytes} bytes is longer than the backlog (backlog_max_bytes)")
            }
        }
    }
}

impl fmt::Debug for ProviderEvent<'_> {
    /// As it is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderEvent({self})")
    }
}
