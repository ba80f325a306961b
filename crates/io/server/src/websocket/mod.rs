//! WebSocket ports for the JSON protocol: the connections of crate `websocket` behind a
//! [`Listener`](crate::Listener).
//!
//! A message is put into the outbox once, without its stream id ([`stage`]). When the outbox is flushed, each
//! connection that gets it has the id put before it, and several messages share a frame, which is an array:
//! as many as are there, up to about 60 KB. Nothing of a frame is made per client but ids and brackets.
//!
//! For clients that have agreed on compression a message is compressed once, too: a frame is put together
//! from what was compressed by itself, and from ids and brackets that stand uncompressed between
//! ([`websocket::deflate`]).
//!
//! A service that speaks RWF has [`Json`] between itself and the port.

mod config;
mod cookie;
mod dictionaries;
mod effect;
mod fallback_status;
mod json;
mod message;
mod names;
mod origin;
mod pack;
mod protocol;

pub use config::WebSocketConfig;
pub use cookie::{COOKIE_LOGIN_STREAM_ID, cookie_login};
pub use effect::MessageEffect;
pub use json::{Json, PART_BYTES, RwfService, StagedJson, answer};
pub use message::{Kind, stage};
use names::Names;
pub use protocol::{ListenerCounters, WebSocket, WebSocketListener, listen, listen_seated};
