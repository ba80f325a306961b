//! What receivers ask sources for: messages sent before they joined, and what the transport gave up.
//!
//! A session of which a source retains messages has a [`Recovery`] between its receiver and the handler.
//! While something is to be asked for, it has a connection to the source's request port.

use std::net::SocketAddrV4;
use std::time::Duration;

use counters::table::LbtrmNetworks;
use lbt::config::Order;
use lbt::recovery::Requester;
use slab::Slab;
use units::{Deadlines, Nanos};

use crate::ConnectionId;
use crate::session::SessionRef;

/// What is asked for of one session.
pub(crate) struct Recovery {
    pub(crate) requester: Requester,
    pub(crate) source: SocketAddrV4,
    /// Where it is on the other of two networks, and whether that is asked.
    pub(crate) other: Option<SocketAddrV4>,
    pub(crate) asks_other: bool,
    /// When the source was last heard, or began to be waited for.
    pub(crate) heard: Nanos,
    pub(crate) is_waiting: bool,
    /// Networks that were tried in vain since the source was last heard.
    pub(crate) tries: u32,
    pub(crate) connection: Option<ConnectionId>,
    /// When to try to connect again.
    pub(crate) connects_at: Nanos,
    /// When the connection was last of use.
    pub(crate) used: Nanos,
    /// Its number among all.
    pub(crate) key: usize,
    /// It stands in [`Stirred`].
    pub(crate) is_stirred: bool,
}

/// The sessions that have a [`Recovery`], and when it is due. What a turn costs does not depend on how many there are:
/// those to which something has happened are noted ([`Stirred`]), and then stand here with their moments.
#[derive(Default)]
pub(crate) struct Recovering {
    pub(crate) sessions: Slab<SessionRef>,
    pub(crate) due: Deadlines,
    /// Those whose moment has come, while they are driven.
    pub(crate) turn: Vec<SessionRef>,
    /// How often one was looked at.
    #[cfg(test)]
    pub(crate) looks: u64,
}

/// Sessions of a transport with a recovery to which something has happened since its moment was noted, each once.
#[derive(Default)]
pub(crate) struct Stirred(pub(crate) Vec<usize>);

impl Stirred {
    /// The session at that place was heard.
    #[inline]
    pub(crate) fn note(&mut self, at: usize, recovery: &mut Recovery) {
        if !std::mem::replace(&mut recovery.is_stirred, true) {
            self.0.push(at);
        }
    }
}

impl Recovery {
    /// The session stands: the source can be asked.
    pub(crate) fn on_established(&mut self) {
        self.connects_at = Nanos::ZERO;
    }

    /// The source has sent something over the connection.
    pub(crate) fn on_heard(&mut self, now: Nanos) {
        (self.heard, self.tries) = (now, 0);
    }

    /// When the other network is tried, if a connection brings nothing of what is waited for.
    pub(crate) fn moves_at(&self, interval: Duration) -> Nanos {
        if self.other.is_none() { Nanos::NEVER } else { self.heard + interval * (2 << self.tries.min(3)) }
    }

    /// Goes on on the other network, if there is one.
    pub(crate) fn move_on(&mut self, counters: &LbtrmNetworks) {
        self.tries += 1;
        if self.other.is_some() {
            self.asks_other = !self.asks_other;
            counters.recoveries_moved.inc();
        }
    }
}

/// How a topic is wanted that is about to be subscribed.
pub(crate) struct Wanted {
    pub(crate) token: u64,
    /// That of its receiver.
    pub(crate) order: Option<Order>,
    /// It goes on where it was lost: what is retained of before was heard.
    pub(crate) resumes: bool,
}
