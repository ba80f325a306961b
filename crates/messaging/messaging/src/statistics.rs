//! Who loses, who asks again, by name: what each source, session, peer and stream of a context has come to.
//!
//! Nothing is counted for this on the path of a message: it is read, when somebody asks, from what the protocol keeps
//! anyway (numbers of topics and datagrams) and from tallies of what is repaired and lost. [`walk`] goes through all of
//! it in pages, for applications; [`census`] writes the pages, some each turn, into the file that `tickcast counters
//! --sessions` reads.

pub(crate) mod census;
pub(crate) mod walk;

use std::net::SocketAddr;
use std::time::Duration;

use lbt::resolution::TransportSession;
use lbt::session::SentTotals;
use units::{Nanos, Sqn};

use crate::{Source, StreamId};

pub use walk::{STATISTICS_MAX, StatisticsPosition};

/// One thing that [`Context::statistics`](crate::Context::statistics) tells of.
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
    /// A session that sources of this context publish on.
    Session {
        /// The session.
        transport: TransportSession,
        /// Its sources.
        topics: usize,
        /// Receivers it knows: of LBT-RM those that have asked for retransmissions.
        peers: usize,
        /// No message is taken now.
        is_blocked: bool,
        /// LBT-RM and LBT-RU: bytes of datagrams sent for the first time. TCP and shared memory: bytes written for all
        /// receivers together.
        bytes: u64,
        /// LBT-RM and LBT-RU: what it has sent.
        sent: Option<SentStatistics>,
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
        /// TCP: bytes that its socket has taken.
        bytes: Option<u64>,
        /// TCP and receiver-paced shared memory: bytes that wait for it.
        waiting_bytes: u64,
        /// When it was last heard; of TCP and shared memory not known.
        silent: Option<Duration>,
    },
    /// A session that this context receives.
    Incoming {
        /// The session.
        transport: TransportSession,
        /// Its number, as in [`SourceInfo::session`](crate::SourceInfo::session).
        session: u64,
        /// Its streams.
        streams: usize,
        /// Topic numbers that its streams have lost, those that nobody hears any more too.
        lost: u64,
        /// Bytes that have arrived, duplicates not counted.
        bytes: u64,
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
        /// Its number.
        session: u64,
        /// The number with which it began, once it has.
        begun: Option<Sqn>,
        /// Topic numbers delivered since it has begun, each fragment by itself; with late join, what is still being
        /// recovered counts.
        delivered: u64,
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
            Statistic::Session { topics, peers, is_blocked, bytes, sent, .. } => {
                each("topics", topics as u64);
                each("peers", peers as u64);
                each("is_blocked", is_blocked.into());
                each("bytes", bytes);
                let Some(sent) = sent else { return };
                each("datagrams", sent.datagrams);
                each("retransmissions", sent.retransmissions);
                each("retransmitted_bytes", sent.retransmitted_bytes);
            }
            Statistic::Peer { naks, retransmissions, shed, bytes, waiting_bytes, silent, .. } => {
                each("naks", naks);
                each("retransmissions", retransmissions);
                each("shed", shed);
                bytes.into_iter().for_each(|bytes| each("bytes", bytes));
                each("waiting_bytes", waiting_bytes);
                silent.into_iter().for_each(|silent| each("silent_ns", ns(silent)));
            }
            Statistic::Incoming { session, streams, lost, bytes, repair, .. } => {
                each("session", session);
                each("streams", streams as u64);
                each("lost", lost);
                each("bytes", bytes);
                let Some(repair) = repair else { return };
                each("datagrams", repair.datagrams);
                each("missing", repair.missing);
                each("naks_sent", repair.naks_sent);
                each("recovered", repair.recovered);
                each("given_up", repair.given_up);
                each("duplicates", repair.duplicates);
                each("silent_ns", ns(repair.silent));
            }
            Statistic::Stream { stream, session, begun, delivered, lost, losses, .. } => {
                each("stream", stream.0.into());
                each("session", session);
                begun.into_iter().for_each(|first| each("begun", first.0.into()));
                each("delivered", delivered);
                each("lost", lost);
                each("losses", losses);
            }
        }
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What one session of LBT-RM or LBT-RU has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStatistics {
    /// Datagrams sent for the first time; of LBT-RU once for each client.
    pub datagrams: u64,
    /// Datagrams sent again.
    pub retransmissions: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
}

impl From<SentTotals> for SentStatistics {
    fn from(sent: SentTotals) -> SentStatistics {
        let SentTotals { datagrams, retransmissions, retransmitted_bytes, .. } = sent;
        SentStatistics { datagrams, retransmissions, retransmitted_bytes }
    }
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
    pub(crate) bytes: Option<u64>,
    pub(crate) waiting_bytes: u64,
    pub(crate) heard: Option<Nanos>,
}

impl Peer {
    pub(crate) fn at(address: SocketAddr) -> Peer {
        Peer {
            address,
            process: 0,
            naks: 0,
            retransmissions: 0,
            shed: 0,
            bytes: None,
            waiting_bytes: 0,
            heard: None,
        }
    }
}
