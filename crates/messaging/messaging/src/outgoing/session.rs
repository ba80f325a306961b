//! What every transport session that sources publish on does, whatever its transport.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use lbt::presence::{Answer, Query};
use lbt::resolution::{Origin, TransportSession};
use lbt::rm::{SendError, TopicId};
use lbt::session::Unsent;
use lbt::wire::lbmc::Chain;
use net::Ready;
use units::{Nanos, Sqn};

use super::claim::Claim;
use crate::base::Base;
use crate::closing::Patience;
use crate::event::SourceEvent;
use crate::keys::NewKeys;
use crate::statistics::{Peer, SentStatistics};

/// A session of one transport. [`Outgoing`](super::Outgoing) has one, and calls it in one way.
pub(super) trait Session {
    /// Adds a topic with an index, which begins with the number `first`.
    fn add_topic(&mut self, now: Nanos, index: u32, first: Sqn) -> TopicId;
    fn remove_topic(&mut self, topic: TopicId);
    /// The number of a topic's next message.
    fn next_sqn(&self, topic: TopicId) -> Option<Sqn>;
    fn send(&mut self, now: Nanos, topic: TopicId, parts: &[&[u8]]) -> Result<Sqn, SendError>;
    fn send_with(
        &mut self,
        now: Nanos,
        topic: TopicId,
        headers: &Chain,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError>;
    fn claim(&mut self, now: Nanos, topic: TopicId, len: usize) -> Result<Claim<'_>, SendError>;
    fn claim_max(&self) -> usize;
    /// What is not full is held from now on, or not any more.
    fn hold(&mut self, is_held: bool);
    /// Whether it sends datagrams: those that are full though the rest is held, and retransmissions after its end.
    fn is_of_datagrams(&self) -> bool {
        false
    }
    /// Begins to keep what is written for [`Session::written`]; the number of the next datagram, where there are any.
    fn keep_written(&mut self) -> Sqn;
    /// Gives `each` the messages that were written since the last time: of datagrams those that were closed since
    /// number `from`, which is moved.
    fn written(&mut self, from: &mut Sqn, each: impl FnMut(&[u8]));
    /// The receivers it knows from a place on, each with its place.
    fn peers(&self, from: usize) -> Box<dyn Iterator<Item = (usize, Peer)> + '_>;
    /// How many of them there are.
    fn peer_count(&self) -> usize;
    /// Bytes that it has sent, retransmissions not counted, and what else is known.
    fn sent(&self) -> (u64, Option<SentStatistics>);
    fn is_blocked(&self) -> bool;
    /// When to flush again what was just flushed, if nothing is sent or comes till then.
    fn flush_due(&self) -> Nanos {
        self.next_wakeup()
    }
    fn next_wakeup(&self) -> Nanos;
    /// Sends what is closed, and answers what came, as far as limits and sockets allow.
    fn transmit(&mut self, base: &mut Base, now: Nanos);
    /// Sends everything that waits.
    fn flush(&mut self, base: &mut Base, now: Nanos);
    /// Says the last number of each topic and the end.
    fn end(&mut self, base: &mut Base, now: Nanos);
    fn on_wakeup(&mut self, base: &mut Base, now: Nanos);
    /// Sockets to which the kernel refuses to cut runs.
    fn without_offload(&self) -> usize {
        0
    }
    /// Takes what has come: NAKs, or somebody who connects. Whether there may be more.
    fn on_ready(&mut self, base: &mut Base, now: Nanos) -> bool;
    /// Whether it has sockets that the poller may not watch.
    fn has_unwatched(&self) -> bool {
        false
    }
    /// Looks at sockets that the poller does not watch; whether anything has come.
    fn poll_unwatched(&mut self, _: &mut Base, _: Nanos) -> bool {
        false
    }
    /// A datagram has come to a port of the AF_XDP socket; false if that is not its own.
    fn on_nak(&mut self, _: Nanos, _: SocketAddrV4, _: SocketAddrV4, _: &[u8]) -> bool {
        false
    }
    /// A connection of a receiver is ready.
    fn on_client_ready(&mut self, _: usize, _: Ready) {}
    /// Looks at the connections of all receivers.
    fn look_at_clients(&mut self) {}
    /// Asks its receivers who receives topics; false if there are none, or it cannot be sent now.
    fn ask_receivers(&mut self, query: &Query) -> bool;
    /// Hands over what receivers have answered, each with where it came from if that is known.
    fn take_answers(&mut self, each: impl FnMut(Answer, Option<SocketAddr>));
    /// Whether answers are to be looked for: nobody tells that they are there.
    fn has_silent_answers(&self) -> bool {
        false
    }
    /// What has happened to it since the last time.
    fn take_events(&mut self, base: &mut Base) -> Vec<SourceEvent>;
    /// What it has accepted and not got rid of, how many receivers lack something, and whether it owes anybody an
    /// answer.
    fn left(&self) -> (Unsent, u32, bool);
    /// Takes who has connected before the end and was not looked at since.
    fn take_late_clients(&mut self, _: &mut Base) {}
    /// Goes on after its end; whether nobody needs it any more.
    fn settle(&mut self, base: &mut Base, now: Nanos, patience: &Patience) -> bool;
    /// Drops what it has not sent and says its end, once more with each call; false if there is no need.
    fn bid_farewell(&mut self, _: &mut Base, _: Nanos) -> bool {
        false
    }
    /// This process was stopped; whether it changes anything.
    fn after_pause(&mut self, _: Nanos) -> bool {
        false
    }
    /// Shows sockets to the poller that it may not know of yet.
    fn watch(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Keys for LBT-RM or LBT-RU are other ones from now on.
    fn rekey(&mut self, _: &NewKeys<'_>) {}
}

/// Bytes that wait to be retained before further sends make room for themselves.
pub(super) const KEPT_MAX_BYTES: usize = 1 << 20;

/// A session that was just opened.
pub(super) struct Opened<S> {
    pub(super) session: S,
    pub(super) transport: TransportSession,
    /// What names it on both networks, if it is on two.
    pub(super) origin: Option<Origin>,
}

impl<S> Opened<S> {
    pub(super) fn map<T>(self, kind: impl FnOnce(Box<S>) -> T) -> Opened<T> {
        Opened { session: kind(Box::new(self.session)), transport: self.transport, origin: self.origin }
    }
}
