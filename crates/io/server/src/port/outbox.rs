use crate::ConnectionId;

/// Where a message lies in the outbox; valid until the next flush.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    at: u32,
    len: u32,
}

/// A message that a connection is to get, with the stream id it carries there.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    at: u32,
    len: u32,
    /// The id that the message carries on this connection.
    pub stream_id: i32,
}

impl Entry {
    /// Where the message is in the log.
    #[must_use]
    pub fn place(&self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// Messages on their way to connections, each once, and who gets which.
#[derive(Debug, Default)]
pub struct Outbox {
    log: Vec<u8>,
    /// By connection.
    pending: Vec<Pending>,
    /// Connections that have something pending.
    dirty: Vec<ConnectionId>,
    /// Connections to be closed after what they have pending.
    unwanted: Vec<ConnectionId>,
    /// Connections that lack something because the log was full.
    short: Vec<ConnectionId>,
    /// By connection.
    loads: Vec<Load>,
    /// Connections that were to be served when they have room, and have it.
    roomy: Vec<ConnectionId>,
    /// Rates of connections, as they were set since the last flush.
    rates: Vec<(ConnectionId, u64)>,
}

/// What a connection gets with the next flush.
#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Entry>,
    /// Its updates are conflated: it is noted here because this is what a delivery touches anyway.
    is_conflated: bool,
}

/// The weight of a connection that nobody has set one of.
pub const WEIGHT_DEFAULT: u8 = 5;

/// How much waits for a connection.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// It does not take what it is sent about as fast as that comes.
    is_behind: bool,
    /// It is to be served when it does.
    awaits_room: bool,
    /// What has changed for it waits for its next round.
    awaits_round: bool,
    /// All of a round was put in since the last flush.
    has_round: bool,
    /// So many bytes are in so many of its entries.
    bytes: usize,
    entries: usize,
    /// How much may wait for it, compared with others, before it is closed for what waits for all.
    weight: u8,
}

impl Default for Load {
    fn default() -> Self {
        let weight = WEIGHT_DEFAULT;
        let (is_behind, awaits_room, awaits_round, has_round) = (false, false, false, false);
        Load { is_behind, awaits_room, awaits_round, has_round, bytes: 0, entries: 0, weight }
    }
}

/// A connection gets no more than this with one flush if that can be helped.
const FLUSH_BYTES: usize = 1 << 20;

/// Where messages are that found no room in the log.
const NOWHERE: Staged = Staged { at: u32::MAX, len: u32::MAX };

impl Outbox {
    /// Puts a message in, for any number of connections. A log holds 4 GiB between two flushes; who is to get what
    /// comes beyond is closed with the next one, because something would be missing in its stream.
    #[inline]
    pub fn stage(&mut self, message: &[u8]) -> Staged {
        self.stage_with(|log| log.extend_from_slice(message))
    }

    /// Lets `write` append a message, for any number of connections, as [`Outbox::stage`].
    #[inline]
    pub fn stage_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Staged {
        let start = self.log.len();
        write(&mut self.log);
        match u32::try_from(self.log.len()) {
            Ok(end) => Staged { at: start as u32, len: end - start as u32 },
            Err(_) => self.refuse(start),
        }
    }

    #[cold]
    fn refuse(&mut self, start: usize) -> Staged {
        self.log.truncate(start);
        NOWHERE
    }

    /// Bytes of messages put in since the last flush, each counted once.
    #[inline]
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        self.log.len()
    }

    /// Lets a connection have a staged message, under a stream id.
    #[inline]
    pub fn deliver(&mut self, to: ConnectionId, message: Staged, stream_id: i32) {
        let Some(pending) = self.pending.get_mut(to.0 as usize) else { return };
        pending.push(to, message, stream_id, &mut self.dirty, &mut self.short);
    }

    /// The same for an update; returns whether it was refused because the connection's updates are conflated.
    #[inline]
    #[must_use]
    pub fn deliver_update(&mut self, to: ConnectionId, message: Staged, stream_id: i32) -> bool {
        let Some(pending) = self.pending.get_mut(to.0 as usize) else { return false };
        if !pending.is_conflated {
            pending.push(to, message, stream_id, &mut self.dirty, &mut self.short);
        }
        pending.is_conflated
    }

    /// Whether a connection's updates are conflated.
    #[inline]
    #[must_use]
    pub fn is_conflated(&self, connection: ConnectionId) -> bool {
        self.pending.get(connection.0 as usize).is_some_and(|pending| pending.is_conflated)
    }

    /// Makes room for a connection; the listener does so for each that it accepts.
    pub fn add(&mut self, connection: ConnectionId) {
        let at = connection.0 as usize;
        if self.pending.len() <= at {
            self.pending.resize_with(at + 1, Pending::default);
        }
        self.pending[at].entries.clear();
        self.pending[at].is_conflated = false;
        self.loads.resize(self.pending.len(), Load::default());
        self.loads[at] = Load::default();
    }

    /// Whether a connection does not keep up with what it is sent, or is about to be sent much at once: what can wait
    /// had better come later.
    pub fn lags(&mut self, connection: ConnectionId) -> bool {
        let at = connection.0 as usize;
        let (Some(load), Some(pending)) = (self.loads.get_mut(at), self.pending.get(at)) else {
            return false;
        };
        let entries = &pending.entries;
        let new = entries.get(load.entries..).unwrap_or_default();
        load.bytes += new.iter().map(|entry| entry.len as usize).sum::<usize>();
        load.entries = entries.len();
        load.is_behind || load.bytes > FLUSH_BYTES
    }

    /// From the next flush on a connection is sent no more than so many bytes a second, before encryption; 0 for what it
    /// takes. What waits for that goes down the ladder: its updates are conflated.
    pub fn set_rate(&mut self, connection: ConnectionId, bytes_per_second: u64) {
        self.rates.push((connection, bytes_per_second));
    }

    /// When too much waits for all connections of the port together, those are closed for which most waits in relation to
    /// their weights.
    pub fn set_weight(&mut self, connection: ConnectionId, weight: u8) {
        if let Some(load) = self.loads.get_mut(connection.0 as usize) {
            load.weight = weight.max(1);
        }
    }

    pub(crate) fn weight(&self, connection: ConnectionId) -> u8 {
        self.loads.get(connection.0 as usize).map_or(WEIGHT_DEFAULT, |load| load.weight)
    }

    pub(crate) fn take_rates(&mut self) -> Vec<(ConnectionId, u64)> {
        std::mem::take(&mut self.rates)
    }

    /// Whether a connection is sent the newest values in rounds, and the next one is not to begin yet.
    #[inline]
    #[must_use]
    pub fn awaits_round(&self, connection: ConnectionId) -> bool {
        self.loads.get(connection.0 as usize).is_some_and(|load| load.awaits_round)
    }

    /// All of a round is put in for a connection: what changes from now on waits for the next one.
    pub fn end_round(&mut self, connection: ConnectionId) {
        if let Some(load) = self.loads.get_mut(connection.0 as usize) {
            (load.awaits_round, load.has_round) = (true, true);
        }
    }

    /// Whether that was done since the last call.
    #[inline]
    pub(crate) fn take_round(&mut self, connection: ConnectionId) -> bool {
        let load = self.loads.get_mut(connection.0 as usize);
        load.is_some_and(|load| std::mem::take(&mut load.has_round))
    }

    /// A connection that lags or awaits a round is to be served when it does not: it is then among those of
    /// [`Outbox::take_roomy`].
    pub fn await_room(&mut self, connection: ConnectionId) {
        if let Some(load) = self.loads.get_mut(connection.0 as usize) {
            load.awaits_room = true;
        }
    }

    /// Connections of [`Outbox::await_room`] that have room, since the last call.
    pub fn take_roomy(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.roomy)
    }

    /// Whether there are such connections.
    #[inline]
    #[must_use]
    pub fn has_roomy(&self) -> bool {
        !self.roomy.is_empty()
    }

    /// Whether a connection is behind, as was seen when its socket was written to last, and whether it awaits a round.
    #[inline]
    pub(crate) fn note_behind(&mut self, connection: ConnectionId, is_behind: bool, awaits_round: bool) {
        if let Some(load) = self.loads.get_mut(connection.0 as usize) {
            load.is_behind = is_behind;
            load.awaits_round = awaits_round;
            if load.awaits_room && !is_behind && !awaits_round {
                load.awaits_room = false;
                self.roomy.push(connection);
            }
        }
    }

    /// Whether a connection's updates are conflated from now on.
    pub(crate) fn set_conflated(&mut self, connection: ConnectionId, is_conflated: bool) {
        if let Some(pending) = self.pending.get_mut(connection.0 as usize) {
            pending.is_conflated = is_conflated;
        }
    }

    /// Drops what a connection that is gone would have got.
    pub(crate) fn remove(&mut self, connection: ConnectionId) {
        if let Some(pending) = self.pending.get_mut(connection.0 as usize) {
            pending.entries.clear();
            pending.entries.shrink_to(64);
            self.rates.retain(|(rated, _)| *rated != connection);
            pending.is_conflated = false;
            self.loads[connection.0 as usize] = Load::default();
        }
    }

    pub(crate) fn take_dirty(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.dirty)
    }

    pub(crate) fn give_back_dirty(&mut self, mut dirty: Vec<ConnectionId>) {
        dirty.clear();
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    pub(crate) fn note_unwanted(&mut self, connection: ConnectionId) {
        self.unwanted.push(connection);
    }

    /// Connections that lack something that was to be sent to them; some are named several times.
    pub(crate) fn take_short(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.short)
    }

    pub(crate) fn take_unwanted(&mut self) -> Option<ConnectionId> {
        self.unwanted.pop()
    }

    /// Whether no connection has anything pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.dirty.is_empty()
    }

    /// The log of messages and what one connection gets of them.
    ///
    /// # Panics
    /// If the connection was never added.
    pub fn parts(&mut self, connection: ConnectionId) -> (&[u8], &mut Vec<Entry>) {
        let load = &mut self.loads[connection.0 as usize];
        (load.bytes, load.entries) = (0, 0);
        (&self.log, &mut self.pending[connection.0 as usize].entries)
    }

    /// All messages are delivered.
    pub(crate) fn clear(&mut self) {
        self.log.clear();
        // A burst of images should not be paid for for ever.
        if self.log.capacity() > LOG_KEPT_BYTES {
            self.log.shrink_to(LOG_KEPT_BYTES);
        }
    }
}

impl Pending {
    #[inline]
    fn push(
        &mut self,
        to: ConnectionId,
        message: Staged,
        stream_id: i32,
        dirty: &mut Vec<ConnectionId>,
        short: &mut Vec<ConnectionId>,
    ) {
        if message.at == NOWHERE.at {
            return short.push(to);
        }
        if self.entries.is_empty() {
            dirty.push(to);
        }
        self.entries.push(Entry { at: message.at, len: message.len, stream_id });
    }
}

const LOG_KEPT_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);

    #[test]
    fn a_connection_lags_that_is_behind_or_is_about_to_get_much_until_it_is_flushed() {
        let mut outbox = Outbox::default();
        outbox.add(ONE);
        assert!(!outbox.lags(ONE) && !outbox.lags(ConnectionId(7)));
        let message = outbox.stage(&[0; FLUSH_BYTES / 4]);
        for count in 1..=5 {
            outbox.deliver(ONE, message, 5);
            assert_eq!(outbox.lags(ONE), count > 4, "{count}");
        }
        outbox.parts(ONE).1.clear();
        assert!(!outbox.lags(ONE));
        outbox.note_behind(ONE, true, false);
        assert!(outbox.lags(ONE));
        outbox.remove(ONE);
        assert!(!outbox.lags(ONE));
    }

    #[test]
    fn updates_are_refused_for_a_connection_that_conflates_and_for_none_that_has_its_number_later() {
        let mut outbox = Outbox::default();
        outbox.add(ONE);
        let message = outbox.stage(b"update");
        assert!(!outbox.deliver_update(ONE, message, 5) && !outbox.is_conflated(ONE));
        outbox.set_conflated(ONE, true);
        assert!(outbox.deliver_update(ONE, message, 6) && outbox.is_conflated(ONE));
        outbox.deliver(ONE, message, 7);
        let ids = |outbox: &mut Outbox| outbox.parts(ONE).1.drain(..).map(|entry| entry.stream_id).collect();
        assert_eq!(Vec::from_iter::<Vec<i32>>(ids(&mut outbox)), [5, 7]);
        outbox.remove(ONE);
        outbox.add(ONE);
        assert!(!outbox.deliver_update(ONE, message, 8));
        assert_eq!(Vec::from_iter::<Vec<i32>>(ids(&mut outbox)), [8]);
        assert!(!outbox.deliver_update(ConnectionId(7), message, 9), "there is none of that number");
    }

    #[test]
    fn who_awaits_room_is_named_once_when_there_is_some() {
        let mut outbox = Outbox::default();
        outbox.add(ONE);
        outbox.note_behind(ONE, true, false);
        outbox.note_behind(ONE, false, false);
        assert!(!outbox.has_roomy(), "it does not wait");
        outbox.await_room(ONE);
        outbox.note_behind(ONE, true, false);
        assert!(!outbox.has_roomy());
        outbox.note_behind(ONE, false, false);
        outbox.note_behind(ONE, false, false);
        assert!(outbox.has_roomy());
        assert_eq!((outbox.take_roomy(), outbox.has_roomy()), (vec![ONE], false));
    }

    #[test]
    fn who_awaits_a_round_has_no_room_before_it_begins() {
        let mut outbox = Outbox::default();
        outbox.add(ONE);
        outbox.note_behind(ONE, false, true);
        outbox.await_room(ONE);
        assert!(outbox.awaits_round(ONE) && !outbox.lags(ONE) && !outbox.has_roomy());
        outbox.note_behind(ONE, true, false);
        assert!(!outbox.has_roomy(), "it is behind");
        outbox.note_behind(ONE, false, false);
        assert_eq!((outbox.take_roomy(), outbox.awaits_round(ONE)), (vec![ONE], false));
        assert!(!outbox.take_round(ONE));
        outbox.end_round(ONE);
        assert!(outbox.awaits_round(ONE) && outbox.take_round(ONE) && !outbox.take_round(ONE));
        outbox.remove(ONE);
        assert!(!outbox.awaits_round(ONE));
        outbox.end_round(ConnectionId(7));
        assert!(!outbox.awaits_round(ConnectionId(7)), "there is none of that number");
    }
}
