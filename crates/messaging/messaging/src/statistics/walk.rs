//! Through all that a context can tell of itself, page by page.
//!
//! What says who loses and who asks again comes first, so that whoever stops early has it: sessions that are published
//! on, sessions that are received, peers, streams, sources.

use units::Nanos;

use super::{Peer, RepairStatistics, Statistic};
use crate::Source;
use crate::outgoing::Outgoing;
use crate::publishing::Publishing;
use crate::receiving::Receiving;
use crate::session::SessionRef;
use crate::stream::Stream;

/// A place among all that [`Context::statistics_from`] tells of; the default is the begin.
///
/// [`Context::statistics_from`]: crate::Context::statistics_from
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsPosition {
    stage: u8,
    slot: u32,
    sub: u32,
}

impl StatisticsPosition {
    /// The position as a number, for other languages; 0 is the begin.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.stage) << STAGE_SHIFT | u64::from(self.slot) << 32 | u64::from(self.sub)
    }

    /// The position that a number stands for. One that no position gave is some place, or behind the last.
    #[must_use]
    pub fn from_bits(bits: u64) -> StatisticsPosition {
        let slot = (bits >> 32) as u32 & SLOT_MASK;
        StatisticsPosition { stage: (bits >> STAGE_SHIFT) as u8, slot, sub: bits as u32 }
    }
}

const STAGE_SHIFT: u32 = 60;
const SLOT_MASK: u32 = (1 << 28) - 1;

/// Most that [`Context::statistics`] tells of.
///
/// [`Context::statistics`]: crate::Context::statistics
pub const STATISTICS_MAX: usize = 10_000;

/// What is gone through, one after the other.
const STAGES: [Stage; 5] = [Stage::Session, Stage::Incoming, Stage::Peer, Stage::Stream, Stage::Source];

#[derive(Clone, Copy)]
enum Stage {
    Session,
    Incoming,
    Peer,
    Stream,
    Source,
}

/// Where a stage goes on, if it is not over.
type Rest = Option<(u32, u32)>;

/// What may still be done for one page.
struct Page<F> {
    each: F,
    /// So many are told.
    left: usize,
    /// So many places are looked at, of which some may be vacant.
    looks: usize,
    now: Nanos,
}

/// Places looked at for each that may be told.
const LOOKS_PER_ROW: usize = 8;
/// And more than that.
const LOOKS_MIN: usize = 256;

impl<F: FnMut(Statistic<'_>)> Page<F> {
    /// Whether one more place may be looked at.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.left > 0 && self.looks > 0;
        self.looks = self.looks.saturating_sub(1);
        goes_on
    }

    fn tell(&mut self, one: Statistic<'_>) {
        self.left -= 1;
        (self.each)(one);
    }
}

/// Tells `each` of at most `most` from a position on; returns where to go on.
pub(crate) fn page(
    publishing: &Publishing,
    receiving: &Receiving,
    now: Nanos,
    from: StatisticsPosition,
    most: usize,
    each: impl FnMut(Statistic<'_>),
) -> Option<StatisticsPosition> {
    let left = most.max(1);
    let looks = LOOKS_MIN.saturating_add(left.saturating_mul(LOOKS_PER_ROW));
    let mut page = Page { each, left, looks, now };
    let StatisticsPosition { stage: first, mut slot, mut sub } = from;
    for (number, stage) in STAGES.into_iter().enumerate().skip(first.into()) {
        let rest = match stage {
            Stage::Session => tell_sessions(publishing, slot, &mut page),
            Stage::Incoming => tell_incoming(receiving, slot, sub, &mut page),
            Stage::Peer => tell_peers(publishing, slot, sub, &mut page),
            Stage::Stream => tell_streams(receiving, slot, &mut page),
            Stage::Source => tell_each_source(publishing, slot, &mut page),
        };
        if let Some((slot, sub)) = rest {
            return Some(StatisticsPosition { stage: number as u8, slot, sub });
        }
        (slot, sub) = (0, 0);
    }
    None
}

/// How many there are to be told of at present.
pub(crate) fn count(publishing: &Publishing, receiving: &Receiving) -> usize {
    let peers: usize = publishing.sessions().iter().map(|(_, outgoing)| outgoing.peer_count()).sum();
    let streams = &receiving.streams();
    publishing.sessions().len() + streams.tallies.len() + peers + streams.len() + publishing.sources().len()
}

fn tell_sessions(publishing: &Publishing, from: u32, page: &mut Page<impl FnMut(Statistic<'_>)>) -> Rest {
    for at in from as usize..publishing.sessions().capacity() {
        if !page.goes_on() {
            return Some((at as u32, 0));
        }
        let Some(outgoing) = publishing.sessions().get(at) else { continue };
        let (bytes, sent) = outgoing.sent();
        page.tell(Statistic::Session {
            transport: outgoing.transport(),
            topics: outgoing.topics(),
            peers: outgoing.peer_count(),
            is_blocked: outgoing.is_blocked(),
            bytes,
            sent,
        });
    }
    None
}

fn tell_peers(
    publishing: &Publishing,
    from: u32,
    mut first: u32,
    page: &mut Page<impl FnMut(Statistic<'_>)>,
) -> Rest {
    for at in from as usize..publishing.sessions().capacity() {
        if !page.goes_on() {
            return Some((at as u32, first));
        }
        let Some(outgoing) = publishing.sessions().get(at) else { continue };
        for (index, peer) in outgoing.peers(first as usize) {
            if !page.goes_on() {
                return Some((at as u32, index as u32));
            }
            page.tell_peer(outgoing, peer);
        }
        first = 0;
    }
    None
}

fn tell_each_source(publishing: &Publishing, from: u32, page: &mut Page<impl FnMut(Statistic<'_>)>) -> Rest {
    for slot in from as usize..publishing.sources().capacity() {
        if !page.goes_on() {
            return Some((slot as u32, 0));
        }
        let Some(entry) = publishing.sources().get(slot) else { continue };
        let Some(outgoing) = publishing.sessions().get(entry.session) else { continue };
        page.tell(Statistic::Source {
            source: Source::in_slot(slot, entry.number()),
            topic: &entry.name,
            transport: outgoing.transport(),
            next: outgoing.next_sqn(entry.topic).unwrap_or_default(),
            blocked: entry.blocked,
        });
    }
    None
}

fn tell_incoming(
    receiving: &Receiving,
    at: u32,
    kind: u32,
    page: &mut Page<impl FnMut(Statistic<'_>)>,
) -> Rest {
    for (session, tally) in receiving.streams().tallies.range(session_at(kind, at)..) {
        if !page.goes_on() {
            let (kind, at) = place_of(*session);
            return Some((at, kind));
        }
        let (bytes, repair) = receiving.incoming.received(*session);
        page.tell(Statistic::Incoming {
            transport: tally.transport,
            session: tally.number,
            streams: tally.streams,
            lost: tally.lost,
            bytes,
            repair: repair.map(|repair| RepairStatistics::of(repair, page.now)),
        });
    }
    None
}

fn tell_streams(receiving: &Receiving, from: u32, page: &mut Page<impl FnMut(Statistic<'_>)>) -> Rest {
    for slot in from as usize..receiving.streams().capacity() {
        if !page.goes_on() {
            return Some((slot as u32, 0));
        }
        let Some(stream) = receiving.streams().get(slot) else { continue };
        page.tell(Statistic::Stream {
            stream: stream.id,
            topic: stream.info().topic,
            transport: stream.record.session,
            session: stream.info().session,
            begun: stream.begun,
            delivered: delivered(receiving, stream),
            lost: stream.lost,
            losses: stream.losses,
        });
    }
    None
}

/// Topic numbers of a stream that were delivered: those since its begin that were not lost.
fn delivered(receiving: &Receiving, stream: &Stream) -> u64 {
    let (Some(first), topic) = (stream.begun, stream.record.topic_index) else { return 0 };
    let span = receiving.incoming.span(stream.session, topic, first);
    span.unwrap_or(0).saturating_sub(stream.lost)
}

impl<F: FnMut(Statistic<'_>)> Page<F> {
    fn tell_peer(&mut self, outgoing: &Outgoing, peer: Peer) {
        let Peer { address, process, naks, retransmissions, shed, bytes, waiting_bytes, heard } = peer;
        self.tell(Statistic::Peer {
            transport: outgoing.transport(),
            address,
            process,
            naks,
            retransmissions,
            shed,
            bytes,
            waiting_bytes,
            silent: heard.map(|heard| self.now.since(heard)),
        });
    }
}

/// A session's place in a position: its transport, and where it is there.
fn place_of(session: SessionRef) -> (u32, u32) {
    match session {
        SessionRef::Rm(at) => (0, at as u32),
        SessionRef::Tcp(at) => (1, at as u32),
        SessionRef::Ipc(at) => (2, at as u32),
        SessionRef::Ru(at) => (3, at as u32),
    }
}

fn session_at(kind: u32, at: u32) -> SessionRef {
    let at = at as usize;
    match kind {
        0 => SessionRef::Rm(at),
        1 => SessionRef::Tcp(at),
        2 => SessionRef::Ipc(at),
        3 => SessionRef::Ru(at),
        _ => SessionRef::Ru(usize::MAX),
    }
}
