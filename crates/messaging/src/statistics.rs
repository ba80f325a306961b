//! Who loses, who asks again, by name: what each source, session, peer and stream of a context has come to.
//!
//! Nothing is counted for this on the path of a message: it is read, when somebody asks, from what the protocol keeps
//! anyway (numbers of topics and datagrams) and from tallies of what is repaired and lost.

use std::net::SocketAddr;
use std::time::Duration;

use lbt::resolution::TransportSession;
use units::{Nanos, Sqn};

use crate::context::Context;
use crate::incoming::SessionRef;
use crate::{Source, StreamId};

/// One thing that [`Context::statistics`] tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statistic<'a> {
    /// A source of this context.
    Source {
        /// Its handle.
        source: Source,
        /// Its topic.
        topic: &'a str,
        /// The session it publishes on.
        transport: TransportSession,
        /// Number of its next message: how many it has sent, each fragment by itself, if its numbers began at 0.
        next: Sqn,
        /// Sends refused because there was no room.
        blocked: u64,
    },
    /// A session that sources of this context publish on; its peers follow.
    Session {
        /// The session.
        transport: TransportSession,
        /// Its sources.
        topics: usize,
        /// Receivers it knows: of LBT-RM those that have asked for retransmissions.
        peers: usize,
        /// No message is taken now.
        is_blocked: bool,
    },
    /// A receiver of such a session.
    Peer {
        /// The session.
        transport: TransportSession,
        /// Where it is. Of shared memory, which has no addresses, 127.0.0.1 and port 0.
        address: SocketAddr,
        /// Of shared memory, its process, as it says; else 0.
        process: u32,
        /// Numbers it has NAKed.
        naks: u64,
        /// LBT-RU: retransmissions sent to it.
        retransmissions: u64,
        /// LBT-RM: numbers passed over because it asked for more than its share.
        shed: u64,
        /// TCP and receiver-paced shared memory: bytes that wait for it.
        waiting_bytes: u64,
        /// When it was last heard; of TCP and shared memory not known.
        silent: Option<Duration>,
    },
    /// A session that this context receives; its streams follow.
    Incoming {
        /// The session.
        transport: TransportSession,
        /// Its number, as in [`SourceInfo::session`](crate::SourceInfo::session).
        session: u64,
        /// Its streams.
        streams: usize,
        /// Topic numbers that its streams have lost.
        lost: u64,
        /// What it cost to repair; none of transports that lose nothing by themselves.
        repair: Option<RepairStatistics>,
    },
    /// A topic of such a session.
    Stream {
        /// Its number.
        stream: StreamId,
        /// Its topic.
        topic: &'a str,
        /// The session.
        transport: TransportSession,
        /// The number with which it began, once it has.
        begun: Option<Sqn>,
        /// Topic numbers that were told as lost.
        lost: u64,
        /// Loss events.
        losses: u64,
    },
}

impl Statistic<'_> {
    /// What it tells of: `source`, `session`, `peer`, `incoming` or `stream`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Statistic::Source { .. } => "source",
            Statistic::Session { .. } => "session",
            Statistic::Peer { .. } => "peer",
            Statistic::Incoming { .. } => "incoming",
            Statistic::Stream { .. } => "stream",
        }
    }

    /// The topic, of a source or a stream.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        match self {
            Statistic::Source { topic, .. } | Statistic::Stream { topic, .. } => Some(topic),
            _ => None,
        }
    }

    /// The session; prints as the field's source strings do.
    #[must_use]
    pub fn transport(&self) -> TransportSession {
        match self {
            Statistic::Source { transport, .. }
            | Statistic::Session { transport, .. }
            | Statistic::Peer { transport, .. }
            | Statistic::Incoming { transport, .. }
            | Statistic::Stream { transport, .. } => *transport,
        }
    }

    /// A receiver's address; of shared memory its process, as `pid 4711`.
    #[must_use]
    pub fn peer(&self) -> Option<String> {
        match self {
            Statistic::Peer { process: 0, address, .. } => Some(address.to_string()),
            Statistic::Peer { process, .. } => Some(format!("pid {process}")),
            _ => None,
        }
    }

    /// Its numbers under the names of the fields, for other languages and exporters; what is not known is left out. Spans
    /// are in nanoseconds, `silent_ns`; yes is 1.
    pub fn numbers(&self, mut each: impl FnMut(&'static str, u64)) {
        match *self {
            Statistic::Source { source, next, blocked, .. } => {
                each("id", source.to_bits());
                each("next", next.0.into());
                each("blocked", blocked);
            }
            Statistic::Session { topics, peers, is_blocked, .. } => {
                each("topics", topics as u64);
                each("peers", peers as u64);
                each("is_blocked", is_blocked.into());
            }
            Statistic::Peer { naks, retransmissions, shed, waiting_bytes, silent, .. } => {
                each("naks", naks);
                each("retransmissions", retransmissions);
                each("shed", shed);
                each("waiting_bytes", waiting_bytes);
                silent.into_iter().for_each(|silent| each("silent_ns", ns(silent)));
            }
            Statistic::Incoming { session, streams, lost, repair, .. } => {
                each("session", session);
                each("streams", streams as u64);
                each("lost", lost);
                let Some(repair) = repair else { return };
                each("datagrams", repair.datagrams);
                each("missing", repair.missing);
                each("naks_sent", repair.naks_sent);
                each("recovered", repair.recovered);
                each("given_up", repair.given_up);
                each("duplicates", repair.duplicates);
                each("silent_ns", ns(repair.silent));
            }
            Statistic::Stream { stream, begun, lost, losses, .. } => {
                each("stream", stream.0.into());
                begun.into_iter().for_each(|first| each("begun", first.0.into()));
                each("lost", lost);
                each("losses", losses);
            }
        }
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Repair of one session of LBT-RM or LBT-RU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairStatistics {
    /// Datagrams of the session since this receiver's first one, whether they arrived or not.
    pub datagrams: u64,
    /// Datagrams missing now.
    pub missing: u64,
    /// Numbers NAKed, each as often as it was.
    pub naks_sent: u64,
    /// Missing datagrams that came by retransmission.
    pub recovered: u64,
    /// Datagrams given up.
    pub given_up: u64,
    /// Datagrams that were not missing any more.
    pub duplicates: u64,
    /// How long the source was not heard.
    pub silent: Duration,
}

impl RepairStatistics {
    fn of(repair: lbt::session::Repair, now: Nanos) -> RepairStatistics {
        RepairStatistics {
            datagrams: repair.datagrams,
            missing: repair.missing,
            naks_sent: repair.naks_sent,
            recovered: repair.recovered,
            given_up: repair.given_up,
            duplicates: repair.duplicates,
            silent: now.since(repair.heard),
        }
    }
}

/// A receiver, before its session is named.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) process: u32,
    pub(crate) naks: u64,
    pub(crate) retransmissions: u64,
    pub(crate) shed: u64,
    pub(crate) waiting_bytes: u64,
    pub(crate) heard: Option<Nanos>,
}

impl Peer {
    pub(crate) fn at(address: SocketAddr) -> Peer {
        Peer { address, process: 0, naks: 0, retransmissions: 0, shed: 0, waiting_bytes: 0, heard: None }
    }
}

impl Context {
    /// Tells `each` of the sources, the sessions with their peers, and the sessions that are received with their
    /// streams. It takes time that grows with how many there are: for monitoring, about once a
    /// second, not for the path of a message. In a child made by `fork` nothing is told.
    pub fn statistics(&mut self, mut each: impl FnMut(Statistic<'_>)) {
        if !self.home.is_here() {
            return;
        }
        self.refresh_clock();
        let now = self.now;
        let mut topics = vec![0; self.outgoing.capacity()];
        for (slot, entry) in &self.sources {
            topics[entry.session] += 1;
            let Some(outgoing) = self.outgoing.get(entry.session) else { continue };
            each(Statistic::Source {
                source: Source::in_slot(slot, entry.number()),
                topic: &entry.name,
                transport: outgoing.transport,
                next: outgoing.next_sqn(entry.topic).unwrap_or_default(),
                blocked: entry.blocked,
            });
        }
        for (at, outgoing) in &self.outgoing {
            let (transport, peers) = (outgoing.transport, outgoing.peers());
            let (is_blocked, topics) = (outgoing.is_blocked(), topics[at]);
            each(Statistic::Session { transport, topics, peers: peers.len(), is_blocked });
            for peer in peers {
                let Peer { address, process, naks, retransmissions, shed, waiting_bytes, heard } = peer;
                let silent = heard.map(|heard| now.since(heard));
                each(Statistic::Peer {
                    transport,
                    address,
                    process,
                    naks,
                    retransmissions,
                    shed,
                    waiting_bytes,
                    silent,
                });
            }
        }
        for (session, slots) in self.streams.sessions() {
            let streams = slots.iter().filter_map(|slot| self.streams.get(*slot));
            let lost = streams.clone().map(|stream| stream.lost).sum();
            let Some(first) = streams.clone().next() else { continue };
            let repair = match session {
                SessionRef::Rm(at) => self.rm_in.sessions.get(at).map(|receiver| receiver.repair()),
                SessionRef::Ru(at) => self.ru_in.sessions.get(at).map(|receiver| receiver.repair()),
                SessionRef::Tcp(_) | SessionRef::Ipc(_) => None,
            };
            let repair = repair.map(|repair| RepairStatistics::of(repair, now));
            let (transport, number) = (first.record.session, first.info().session);
            each(Statistic::Incoming { transport, session: number, streams: slots.len(), lost, repair });
            for stream in streams {
                each(Statistic::Stream {
                    stream: stream.id,
                    topic: stream.info().topic,
                    transport,
                    begun: stream.begun,
                    lost: stream.lost,
                    losses: stream.losses,
                });
            }
        }
    }
}
