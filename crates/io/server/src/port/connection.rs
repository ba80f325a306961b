use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use connection::{ByteRate, Disconnect, Ladder, LadderConfig, QueueAge, Rounds, Step};
use net::tcp::{self, Moved};
use net::{Interest, Registrar, Token, Transport};
use units::Nanos;

use super::protocol::{Endpoint, Protocol};
use crate::{ConnectionId, ConnectionInfo, Entry};

/// One connection: its socket, encrypted or not, and the protocol's end of it.
pub(crate) struct Connection<E> {
    pub(crate) transport: Transport,
    pub(crate) endpoint: E,
    pub(crate) peer: SocketAddr,
    /// When it has to have logged in.
    pub(crate) login_until: Nanos,
    /// What the poller was told: read, write.
    interest: (bool, bool),
    /// The socket has taken bytes that it had no room for before, since [`Connection::lives_unheard`] was asked last.
    has_taken: bool,
    /// The service has been told of the connection.
    pub(crate) is_announced: bool,
    /// The service wants it closed, after what it was sent before.
    pub(crate) is_unwanted: bool,
    /// The socket is broken, or the peer has ended the connection: there is nothing to be closed in order.
    pub(crate) is_over: bool,
    /// The service is busy with it: nothing is read from it.
    pub(crate) is_held: bool,
    /// What was read from it before that and is not handled yet.
    pub(crate) held_input: Vec<u8>,
    /// The bytes of its backlog that are in the sum of all backlogs.
    pub(crate) counted_backlog: usize,
    /// It did not keep up when its backlog was looked at last.
    pub(crate) lags: bool,
    /// What it may be sent, if that is bounded.
    rate: Option<Box<Rated>>,
    /// How it is served.
    ladder: Ladder,
    /// How long its backlog has waited.
    age: QueueAge,
    /// It is among those whose rounds are looked at.
    is_listed: bool,
}

/// What a connection may be sent that has a rate.
#[derive(Debug)]
struct Rated {
    rate: ByteRate,
    /// By what it goes down the ladder, and up.
    ladder: LadderConfig,
    /// Something had to wait for the rate since it was looked at last.
    is_short: bool,
    /// Since when the socket has taken nothing of what the rate lets through.
    refused_since: Option<Nanos>,
    /// It is among those that are served when the rate lets more through.
    is_listed: bool,
}

/// What is written with one system call at most: more gains nothing, and this much stays in a core's cache.
pub const WRITE_BYTES: usize = 64 << 10;

impl<E: Endpoint> Connection<E> {
    pub(crate) fn new(transport: Transport, endpoint: E, peer: SocketAddr) -> Connection<E> {
        Connection {
            transport,
            endpoint,
            peer,
            login_until: Nanos::NEVER,
            interest: (true, false),
            has_taken: false,
            is_announced: false,
            is_unwanted: false,
            is_over: false,
            is_held: false,
            held_input: Vec::new(),
            counted_backlog: 0,
            lags: false,
            rate: None,
            ladder: Ladder::default(),
            age: QueueAge::default(),
            is_listed: false,
        }
    }

    /// What a status page shows of it; `id` is its place in the listener's table.
    pub(crate) fn info(&mut self, id: ConnectionId) -> ConnectionInfo {
        ConnectionInfo {
            connection: id,
            peer: self.peer,
            backlog: self.endpoint.backlog(),
            memory_bytes: self.endpoint.memory_bytes() + self.held_input.capacity(),
            traffic: self.endpoint.traffic(),
            round_interval: self.ladder.rounds().map(Rounds::interval),
            tls_version: self.transport.tls_version(),
            has_client_certificate: self.transport.has_peer_certificate(),
        }
    }

    /// Frames the messages noted for this connection and writes them. What the socket does not take stays in
    /// the backlog.
    pub(crate) fn write_entries<P: Protocol<Endpoint = E>>(
        &mut self,
        now: Nanos,
        protocol: &mut P,
        log: &[u8],
        entries: &mut Vec<Entry>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), E::Reason> {
        let mut rest = entries.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            scratch.clear();
            result = protocol
                .frame(&mut self.endpoint, log, &mut rest, scratch)
                .and_then(|()| self.write_frames(now, scratch));
        }
        entries.clear();
        result
    }

    /// Writes frames behind what waits already.
    fn write_frames(&mut self, now: Nanos, frames: &[u8]) -> Result<(), E::Reason> {
        self.write_backlog(now)?;
        let mut written = 0;
        let admitted = self.admitted(now, frames.len());
        if self.endpoint.pending().is_empty() && admitted > 0 {
            written = match self.transport.write(&frames[..admitted]) {
                Ok(Moved::Bytes(count)) => {
                    self.pay(count);
                    count
                }
                Ok(Moved::WouldBlock) => {
                    self.note_refusal(now);
                    0
                }
                Ok(Moved::End) => return Err(self.ended()),
                Err(_) => return Err(self.broken()),
            };
        }
        self.endpoint.keep(frames, written)
    }

    /// Writes what waits in the backlog as far as the socket takes it, and its rate if it has one.
    pub(crate) fn write_backlog(&mut self, now: Nanos) -> Result<(), E::Reason> {
        loop {
            let most = self.endpoint.pending().len();
            let admitted = self.admitted(now, most);
            if admitted == 0 {
                return self.transport.flush().map(|_| ()).map_err(|_| self.broken());
            }
            match self.transport.write(&self.endpoint.pending()[..admitted]) {
                Ok(Moved::Bytes(count)) => {
                    // What goes straight into the socket tells nothing: the system takes it for who is stopped, too.
                    // What a rate lets through goes straight into it as well; but who is not read from says nothing else.
                    let (is_read, waited_for_room) = self.interest;
                    self.has_taken |= waited_for_room && (self.rate.is_none() || !is_read);
                    self.pay(count);
                    self.endpoint.consume(count);
                    self.age.take(count);
                }
                Ok(Moved::WouldBlock) => {
                    self.note_refusal(now);
                    return Ok(());
                }
                Ok(Moved::End) => return Err(self.ended()),
                Err(_) => return Err(self.broken()),
            }
        }
    }

    /// From now on it is sent no more than so many bytes a second; 0 for what it takes. `ladder` is what counts for
    /// others.
    pub(crate) fn set_rate(&mut self, now: Nanos, bytes_per_second: u64, ladder: &LadderConfig) {
        self.rate = (bytes_per_second > 0).then(|| {
            let rate = ByteRate::new(now, bytes_per_second);
            let ladder = ladder.at_rate(rate.bytes_per_second());
            Box::new(Rated { rate, ladder, is_short: false, refused_since: None, is_listed: false })
        });
    }

    /// How many of so many bytes may be written now.
    #[inline]
    fn admitted(&mut self, now: Nanos, wanted: usize) -> usize {
        let Some(rated) = &mut self.rate else { return wanted };
        let admitted = wanted.min(rated.rate.room(now));
        rated.is_short |= admitted < wanted;
        admitted
    }

    #[inline]
    fn pay(&mut self, count_bytes: usize) {
        if let Some(rated) = &mut self.rate {
            rated.rate.take(count_bytes);
            rated.refused_since = None;
        }
    }

    /// The socket takes nothing at present.
    fn note_refusal(&mut self, now: Nanos) {
        if let Some(rated) = &mut self.rate {
            rated.refused_since.get_or_insert(now);
        }
    }

    /// Whether something waits that its rate does not let through now.
    #[inline]
    fn waits_for_rate(&mut self, now: Nanos) -> bool {
        match &mut self.rate {
            Some(rated) => self.counted_backlog > 0 && rated.rate.room(now) == 0,
            None => false,
        }
    }

    /// Whether it waits for its rate and is to be listed among those that do: it was not listed before.
    #[inline]
    pub(crate) fn enlists(&mut self, now: Nanos) -> bool {
        let waits = self.waits_for_rate(now);
        self.rate.as_mut().is_some_and(|rated| waits && !std::mem::replace(&mut rated.is_listed, true))
    }

    /// It is listed no longer: its rate lets more through, which is written.
    pub(crate) fn write_rated(&mut self, now: Nanos) -> Result<(), E::Reason> {
        if let Some(rated) = &mut self.rate {
            rated.is_listed = false;
        }
        self.write_backlog(now)
    }

    /// What it is sent at most, in bytes a second.
    pub(crate) fn bytes_per_second(&self) -> Option<u64> {
        self.rate.as_ref().map(|rated| rated.rate.bytes_per_second())
    }

    /// Whether the peer is known to live though nothing is heard of it: it takes what waits for it, and answers late
    /// what waits behind that; or nothing is read from it, which is not its fault.
    pub(crate) fn lives_unheard(&mut self, is_paused: bool) -> bool {
        let (is_read, _) = self.interest;
        std::mem::take(&mut self.has_taken) || !is_read && (is_paused || self.is_held)
    }

    pub(crate) fn ended(&mut self) -> E::Reason {
        self.is_over = true;
        self.endpoint.on_disconnected(Disconnect::EndOfStream)
    }

    pub(crate) fn broken(&mut self) -> E::Reason {
        self.is_over = true;
        self.endpoint.on_disconnected(Disconnect::SocketError)
    }

    /// Tells the poller what this connection waits for: input unless much waits for its socket, room if
    /// something does. Whether it keeps up again, which it did not when this was called last.
    pub(crate) fn update_interest(
        &mut self,
        now: Nanos,
        registrar: &Registrar,
        token: Token,
        is_paused: bool,
        all_backlogs: &mut usize,
    ) -> io::Result<bool> {
        let backlog = self.endpoint.backlog();
        *all_backlogs = *all_backlogs - self.counted_backlog + backlog.depth_bytes;
        self.counted_backlog = backlog.depth_bytes;
        let keeps_up = backlog.keeps_up();
        let catches_up = keeps_up && self.lags;
        self.lags = !keeps_up;
        let waits_for_room = backlog.depth_bytes > 0 && !self.waits_for_rate(now);
        let wants = (keeps_up && !is_paused && !self.is_held, self.transport.waits_for_room(waits_for_room));
        if wants != self.interest {
            self.interest = wants;
            let interest = match wants {
                (true, false) => Interest::Read,
                (true, true) => Interest::ReadWrite,
                (false, true) => Interest::Write,
                (false, false) => Interest::Nothing,
            };
            registrar.change(&self.transport, token, interest)?;
        }
        Ok(catches_up)
    }

    /// How it is served from now on, by the backlog as [`Connection::update_interest`] has found it, if that is a
    /// change; and how long the oldest byte has waited.
    #[inline]
    pub(crate) fn climb(&mut self, now: Nanos, config: Option<&LadderConfig>) -> Option<(Step, Duration)> {
        let is_tick = self.ladder.step() == Step::Tick;
        let is_watched = config.is_some() || self.rate.is_some();
        if is_tick && (!is_watched || self.counted_backlog == 0 && self.age.is_empty()) {
            return None;
        }
        self.climb_by(now, config)
    }

    #[inline(never)]
    fn climb_by(&mut self, now: Nanos, config: Option<&LadderConfig>) -> Option<(Step, Duration)> {
        let mut queued_bytes = self.counted_backlog;
        let age = self.age.observe(now, queued_bytes);
        let (config, oldest) = match &mut self.rate {
            Some(rated) => {
                // Who always has as much waiting as there is room for has not caught up.
                if std::mem::take(&mut rated.is_short) {
                    queued_bytes = queued_bytes.max(rated.ladder.room_bytes + 1);
                }
                // What waits for the rate is not the client's fault.
                (rated.ladder, rated.refused_since.map_or(Duration::ZERO, |since| now.since(since)))
            }
            // One that had a rate before may have to come up.
            None => (config.copied().unwrap_or_default(), age),
        };
        let before = self.ladder.step();
        let mut step = self.ladder.observe(now, &config, queued_bytes, oldest);
        if step == Step::Interval {
            let (transport, backlog) = (&self.transport, self.counted_backlog);
            step = self.ladder.look_at_rounds(now, || backlog == 0 && holds_nothing(transport));
        }
        (step != before).then_some((step, age))
    }

    /// All of a round was written.
    pub(crate) fn end_round(&mut self, now: Nanos) {
        self.ladder.end_round(now);
    }

    /// Whether what has changed for it waits for its next round.
    #[inline]
    pub(crate) fn awaits_round(&self) -> bool {
        self.ladder.rounds().is_some_and(|rounds| !rounds.is_open())
    }

    /// When its rounds are to be looked at next, and is to be listed for that; `None` if it has none.
    #[inline]
    pub(crate) fn next_look(&mut self) -> Option<(Nanos, bool)> {
        let next = self.ladder.rounds()?.next_look();
        Some((next, !std::mem::replace(&mut self.is_listed, true)))
    }

    /// It is listed no longer.
    pub(crate) fn take_off_list(&mut self) {
        self.is_listed = false;
    }

    /// Whether what can wait had better come later: more waits already than is good for a client in its step.
    #[inline]
    pub(crate) fn is_behind(&self, config: Option<&LadderConfig>) -> bool {
        let is_full = |config: &LadderConfig| self.counted_backlog > config.room_bytes;
        let config = || self.rate.as_ref().map(|rated| &rated.ladder).or(config);
        let is_conflated = matches!(self.ladder.step(), Step::Conflated | Step::Interval);
        self.lags || (is_conflated && config().is_some_and(is_full))
    }

    /// Ends the connection from this side, after one attempt to write what waits.
    pub(crate) fn stop(&mut self) -> E::Reason {
        let reason = self.endpoint.stop();
        self.write_last();
        reason
    }

    /// Attempts to write what waits, whatever the rate.
    pub(crate) fn write_last(&mut self) {
        self.rate = None;
        // It is given up either way; the first reason stays.
        let _ = self.write_backlog(Nanos::ZERO);
    }
}

/// Whether the peer's kernel has all that was written. Where this one does not say, that is taken for so.
fn holds_nothing(transport: &Transport) -> bool {
    let on_its_way = tcp::unacknowledged(transport.socket()).map_or(0, |unacknowledged| unacknowledged.bytes);
    on_its_way == 0 && !transport.holds_output()
}
