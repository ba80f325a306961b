use std::ops::ControlFlow;

use crate::upgrade::{Headers, Request};
use crate::{Outbound, Stop};

/// A message of a peer, all fragments together, decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// UTF-8.
    Text(&'a str),
    /// Any bytes.
    Binary(&'a [u8]),
}

/// The end of the upgrade: what was agreed.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The path of the request.
    pub path: &'a str,
    /// The sub-protocol.
    pub protocol: &'a str,
    /// Messages may be compressed.
    pub is_compressing: bool,
    /// The headers of the peer: cookies and user agent of a client.
    pub headers: Headers<'a>,
}

/// A server's answer to an upgrade request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// 101.
    Accept,
    /// 503, then close.
    Full,
    /// 403, then close: a page of an origin that may not do what the request asks for.
    Origin,
}

/// What the driver gives to a connection's inputs to be told of what they brought.
///
/// Every call that can answer the peer gets the way out. [`ControlFlow::Break`] ends the connection: what was
/// pushed before is still pending and can be written, the rest of the input is dropped.
pub trait Handler {
    /// Server: an upgrade request that can be accepted has arrived.
    fn on_request(&mut self, request: &Request<'_>) -> Admission {
        let _ = request;
        Admission::Accept
    }

    /// The upgrade is complete; messages can be pushed from now on.
    fn on_connected(&mut self, session: &Session<'_>, out: &mut Outbound) -> ControlFlow<Stop>;

    /// A message has arrived.
    fn on_message(&mut self, message: Message<'_>, out: &mut Outbound) -> ControlFlow<Stop>;

    /// Client: the server refused the upgrade, with this HTTP status and reason.
    fn on_refused(&mut self, status: u16, reason: &str) {
        let _ = (status, reason);
    }
}
