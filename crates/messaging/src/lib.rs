//! Publish and subscribe by topic: contexts, sources, receivers on reliable multicast.
//!
//! A [`Context`] owns the sockets of one thread. Sources publish on its LBT-RM transport session, receivers
//! find the sources of their topics by LBMR and join their sessions; what the transport cannot repair is told
//! in place. Beside it, processes reach each other directly over TCP at the *request port* that
//! advertisements carry: messages of any size, in order, both ways.
//!
//! Nothing runs by itself: the thread that owns a context waits for its descriptors with a [`net::Poller`]
//! and calls [`Context::on_ready`], [`Context::on_wakeup`] and, when there is nothing more to send,
//! [`Context::flush`].
//!
//! Promises (tests in `tests/loopback.rs`):
//!
//! - Messages of a topic arrive in order, whole and once, however large
//!   (`messages_of_any_size_arrive_in_order`).
//! - A receiver finds sources that begin before or after it
//!   (`receivers_and_sources_find_each_other_in_any_order`).
//! - A process that ends tells its receivers (`the_end_of_a_source_is_told`).
//! - Direct messages are independent of multicast and carry both ways (`direct_messages_go_both_ways`).

mod config;
mod context;
mod direct;
mod event;
mod publish;
mod subscribe;

pub use crate::config::MessagingConfig;
pub use context::{Context, ContextCounters, ContextError};
pub use direct::ConnectionId;
pub use event::{Handler, SourceInfo};
pub use lbt::rm::SendError;
pub use publish::TopicId;
pub use subscribe::{ReceiverId, SourceId};
