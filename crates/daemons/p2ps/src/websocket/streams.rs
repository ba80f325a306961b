use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use counters::table::JsonClients as Counters;
use market::p2ps::{ClientId, Watcher};
use rwf::{Domain, MsgHead};
use server::ConnectionId;
use server::websocket::MessageEffect;
use units::Nanos;

use super::connection_of;
use super::ids::OtherIds;

/// The item streams of WebSocket clients that have an image, and which of them lack something of it.
///
/// A status that leaves a stream open goes to those with an image alone: the vendor's packages take the first
/// message of a stream for its answer, and would return without data while the image is still on its way.
///
/// A stream that an update did not reach, because it cannot be written as JSON, gets no further updates until
/// it has had an image. That is asked for once, after a while, for all streams of the item together; until
/// then the stream is suspect, so that an item that fails with every update costs one image each time.
#[derive(Debug)]
pub(crate) struct Streams {
    known: HashMap<ConnectionId, HashMap<i32, StreamHealth>>,
    /// How many of them are not whole.
    wanting_count: usize,
    /// Streams that have missed an update since the last [`Streams::take_due`].
    fresh: Vec<Lacking>,
    /// Those for which an image will be asked, and when.
    waiting: VecDeque<(Nanos, Lacking)>,
    /// Streams whose clients were told the end, and the core is yet to be.
    ended: Vec<Watcher>,
    image_delay: Duration,
    /// Streams that are not about items.
    others: OtherIds,
    counters: Arc<Counters>,
}

/// Streams that one update did not reach.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    pub(crate) domain: Domain,
    pub(crate) watchers: Vec<Watcher>,
}

/// How a stream stands with its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamHealth {
    Whole,
    /// It has missed an update and is suspect.
    Lacking,
    /// Its client was told that it is closed.
    Ended,
}

impl Streams {
    /// No streams. A stream that has missed something gets an image after `image_delay`.
    pub(crate) fn new(image_delay: Duration, counters: Arc<Counters>) -> Streams {
        Streams {
            known: HashMap::new(),
            wanting_count: 0,
            fresh: Vec::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            image_delay,
            others: OtherIds::default(),
            counters,
        }
    }

    /// Whether a stream is to get a message that means this; from now on it is as the message says.
    #[inline]
    pub(crate) fn admits(&mut self, client: ClientId, stream_id: i32, effect: MessageEffect) -> bool {
        if matches!(effect, MessageEffect::Update | MessageEffect::Other) && self.wanting_count == 0 {
            return true;
        }
        let Some(connection) = connection_of(client) else { return true };
        let health = self.known.get(&connection).and_then(|open| open.get(&stream_id)).copied();
        let whole = Some(StreamHealth::Whole);
        match effect {
            _ if health == Some(StreamHealth::Ended) => return false,
            MessageEffect::Other => {}
            MessageEffect::Update => return health != Some(StreamHealth::Lacking),
            MessageEffect::Doubt => return health.is_some(),
            // That all is well would not be so.
            MessageEffect::Remark => return health == whole,
            MessageEffect::Image => self.set(connection, stream_id, whole),
            MessageEffect::End => self.set(connection, stream_id, None),
            MessageEffect::Missed(domain) => {
                if health == whole {
                    self.note_missed(Watcher { client, stream_id }, domain);
                    self.set(connection, stream_id, Some(StreamHealth::Lacking));
                }
                return health == whole;
            }
            MessageEffect::Lost => {
                self.counters.streams_closed.inc();
                self.ended.push(Watcher { client, stream_id });
                self.set(connection, stream_id, Some(StreamHealth::Ended));
            }
        }
        true
    }

    fn note_missed(&mut self, watcher: Watcher, domain: Domain) {
        self.counters.streams_suspected.inc();
        match self.fresh.last_mut() {
            Some(last) if last.domain == domain => last.watchers.push(watcher),
            _ => self.fresh.push(Lacking { domain, watchers: vec![watcher] }),
        }
    }

    /// Notes how a stream stands, if it does.
    fn set(&mut self, connection: ConnectionId, stream_id: i32, health: Option<StreamHealth>) {
        let open = self.known.entry(connection).or_default();
        let before = match health {
            Some(health) => open.insert(stream_id, health),
            None => open.remove(&stream_id),
        };
        let is_wanting = |health: Option<StreamHealth>| health.is_some_and(|s| s != StreamHealth::Whole);
        self.wanting_count += usize::from(is_wanting(health));
        self.wanting_count -= usize::from(is_wanting(before));
        if before == Some(StreamHealth::Lacking) && health == Some(StreamHealth::Whole) {
            self.counters.streams_restored.inc();
        }
    }

    /// A message that is not about items goes to a client: its stream is open from now on, or free.
    pub(crate) fn note_other(&mut self, connection: ConnectionId, head: MsgHead, msg: &[u8]) {
        match MessageEffect::of(msg) {
            MessageEffect::Image => self.others.open(connection, head.stream_id, head.domain),
            MessageEffect::End => drop(self.others.close(connection, head.stream_id)),
            _ => {}
        }
    }

    /// The first of these ids under which a client has a stream that is not about items, and its domain.
    pub(crate) fn other_in_use(
        &self,
        connection: ConnectionId,
        ids: &RangeInclusive<i32>,
    ) -> Option<(i32, Domain)> {
        self.others.in_use(connection, ids)
    }

    /// The client closes a stream that is not about items; returns what it was.
    pub(crate) fn close_other(&mut self, connection: ConnectionId, stream_id: i32) -> Option<Domain> {
        self.others.close(connection, stream_id)
    }

    /// The client has closed a stream.
    pub(crate) fn forget(&mut self, connection: ConnectionId, stream_id: i32) {
        self.set(connection, stream_id, None);
    }

    /// A connection is gone.
    pub(crate) fn forget_all(&mut self, connection: ConnectionId) {
        self.others.forget_all(connection);
        let gone = self.known.remove(&connection).unwrap_or_default();
        self.wanting_count -= gone.values().filter(|health| **health != StreamHealth::Whole).count();
    }

    /// Whether there is nothing that the core has to be told or asked for now.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.ended.is_empty() && self.fresh.is_empty() && self.waiting.is_empty()
    }

    /// Streams whose clients take them for closed; the core is to hear of it, and their ids are free then.
    pub(crate) fn take_ended(&mut self) -> Vec<Watcher> {
        let mut ended = std::mem::take(&mut self.ended);
        // Of what a client has closed meanwhile the core knows.
        ended.retain(|watcher| self.health(*watcher) == Some(StreamHealth::Ended));
        for watcher in &ended {
            if let Some(connection) = connection_of(watcher.client) {
                self.set(connection, watcher.stream_id, None);
            }
        }
        ended
    }

    /// Streams that have missed an update since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<Lacking> {
        std::mem::take(&mut self.fresh)
    }

    /// An image is to be asked for, for these, in its time.
    pub(crate) fn await_image(&mut self, now: Nanos, lacking: Lacking) {
        if !lacking.watchers.is_empty() {
            self.waiting.push_back((now + self.image_delay, lacking));
        }
    }

    /// Streams whose time has come and that have had no image of themselves.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Vec<Watcher> {
        let mut due = Vec::new();
        while let Some((_, lacking)) = self.waiting.pop_front_if(|(at, _)| now >= *at) {
            due.extend(lacking.watchers);
        }
        due.retain(|watcher| self.health(*watcher) == Some(StreamHealth::Lacking));
        due
    }

    /// When [`Streams::take_due`] is worth a call.
    pub(crate) fn next_due(&self) -> Nanos {
        self.waiting.front().map_or(Nanos::NEVER, |(at, _)| *at)
    }

    fn health(&self, watcher: Watcher) -> Option<StreamHealth> {
        self.known.get(&connection_of(watcher.client)?)?.get(&watcher.stream_id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::client_of;

    const CONNECTION: ConnectionId = ConnectionId(3);
    const MISSED: MessageEffect = MessageEffect::Missed(Domain::MARKET_PRICE);
    const DELAY: Duration = Duration::from_secs(1);

    fn streams() -> Streams {
        Streams::new(DELAY, Arc::default())
    }

    fn watcher(stream_id: i32) -> Watcher {
        Watcher { client: client_of(CONNECTION), stream_id }
    }

    #[test]
    fn a_remark_before_the_image_or_after_the_end_is_kept_back_from_websocket_clients_alone() {
        let mut streams = streams();
        let (client, rssl) = (client_of(CONNECTION), ClientId(3));
        assert!(
            !streams.admits(client, 5, MessageEffect::Remark)
                && streams.admits(rssl, 5, MessageEffect::Remark)
        );
        assert!(
            streams.admits(client, 5, MessageEffect::Image)
                && streams.admits(client, 5, MessageEffect::Remark)
        );
        assert!(!streams.admits(client, 6, MessageEffect::Doubt), "of another stream");
        assert!(
            streams.admits(client, 5, MessageEffect::End)
                && !streams.admits(client, 5, MessageEffect::Remark)
        );
        for forget in [|s: &mut Streams| s.forget(CONNECTION, 5), |s: &mut Streams| s.forget_all(CONNECTION)]
        {
            streams.admits(client, 5, MessageEffect::Image);
            forget(&mut streams);
            assert!(!streams.admits(client, 5, MessageEffect::Doubt));
        }
    }

    #[test]
    fn who_misses_an_update_is_told_once_and_gets_no_more_updates_before_an_image() {
        let mut streams = streams();
        let client = client_of(CONNECTION);
        assert!(!streams.admits(client, 5, MISSED), "there is no image that could lack something");
        streams.admits(client, 5, MessageEffect::Image);
        streams.admits(client, 6, MessageEffect::Image);
        assert!(streams.admits(client, 5, MISSED) && !streams.admits(client, 5, MISSED));
        assert!(
            !streams.admits(client, 5, MessageEffect::Update)
                && streams.admits(client, 6, MessageEffect::Update)
        );
        assert!(
            !streams.admits(client, 5, MessageEffect::Remark)
                && streams.admits(client, 5, MessageEffect::Doubt)
        );
        assert!(streams.admits(client, 5, MessageEffect::Other), "a generic message");
        assert!(
            streams.admits(client, 5, MessageEffect::Image)
                && streams.admits(client, 5, MessageEffect::Update)
        );
        let counters = &streams.counters;
        assert_eq!((counters.streams_suspected.get(), counters.streams_restored.get()), (1, 1));
    }

    #[test]
    fn an_image_is_asked_for_once_after_a_while_for_those_who_still_lack_it() {
        let mut streams = streams();
        for stream_id in 5..=8 {
            streams.admits(client_of(CONNECTION), stream_id, MessageEffect::Image);
            streams.admits(client_of(CONNECTION), stream_id, MISSED);
        }
        for lacking in streams.take_fresh() {
            streams.await_image(Nanos(0), lacking);
        }
        streams.admits(client_of(CONNECTION), 6, MessageEffect::Image);
        streams.forget(CONNECTION, 7);
        assert_eq!((streams.take_due(Nanos(999_999_999)), streams.next_due()), (vec![], Nanos::ZERO + DELAY));
        assert_eq!(streams.take_due(Nanos::ZERO + DELAY), [watcher(5), watcher(8)]);
        assert!(streams.is_settled() && streams.next_due() == Nanos::NEVER);
    }

    #[test]
    fn a_stream_whose_image_is_lost_is_closed_and_hears_nothing_more() {
        let mut streams = streams();
        let client = client_of(CONNECTION);
        assert!(streams.admits(client, 5, MessageEffect::Lost), "its first image");
        assert!(
            !streams.admits(client, 5, MessageEffect::Image)
                && !streams.admits(client, 5, MessageEffect::Other)
        );
        assert_eq!((streams.take_ended(), streams.take_ended()), (vec![watcher(5)], vec![]));
        assert!(streams.admits(client, 5, MessageEffect::Image), "the id is free");
        streams.admits(client, 6, MessageEffect::Lost);
        streams.forget(CONNECTION, 6);
        assert_eq!((streams.take_ended(), streams.counters.streams_closed.get()), (vec![], 2));
        assert_eq!(streams.wanting_count, 0);
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_is_gone() {
        let mut streams = streams();
        streams.admits(client_of(CONNECTION), 5, MessageEffect::Image);
        streams.admits(client_of(CONNECTION), 5, MISSED);
        streams.admits(client_of(CONNECTION), 6, MessageEffect::Lost);
        streams.forget_all(CONNECTION);
        assert_eq!((streams.wanting_count, streams.take_due(Nanos::NEVER)), (0, vec![]));
    }
}
