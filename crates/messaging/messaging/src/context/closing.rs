//! The end of a context: what it has accepted leaves first, within a bound, and what did not leave is told.
//!
//! [`Context::close`] says the end of each session and then goes on with the sending side alone: what waits
//! for a rate limit or a socket is sent, retransmissions are answered until nobody has asked for a while, and
//! connections are kept until their peers' kernels have taken everything. Who cannot be served within the
//! linger is left behind and does not hold up the others longer than that. Sessions that then still hold
//! messages give them up and say their last numbers, so that receivers report what they lack as loss.
//! Proved by `what_was_sent_arrives_or_is_told_lost_when_the_context_is_dropped_at_once` and its like
//! (`tests/conformance/closing.rs`).

use std::io;
use std::time::Duration;

use units::Sqn;

use super::Context;
use crate::closing::{Left, Patience, Stage};
use crate::{Handler, SendError, SendFlags, Source};

/// Waits between two looks while a context is closed.
const TURN_MIN: Duration = Duration::from_micros(100);
const TURN_MAX: Duration = Duration::from_millis(1);
/// How often the end of a session that gives messages up is said.
const FAREWELLS: u32 = 3;

impl Context {
    /// Ends the context's sources and goes on with what they and direct connections still have to say, for
    /// `linger` at most; then says the end of what remains. Receivers of this context hear nothing meanwhile.
    /// The context is of no use afterwards: it takes no more messages ([`SendError::Ended`]), and makes no sources,
    /// receivers or connections ([`ContextError::Closed`](crate::ContextError)). Dropping a context closes it with the
    /// configured `linger_us`.
    ///
    /// It waits for these, and no longer: LBT-RM and LBT-RU until all was sent and no receiver has asked for a
    /// retransmission for a fourth of the NAK generation interval (half of it once one has asked), LBT-RU also
    /// until each receiver has said that it has heard of everything; TCP and direct connections until each peer's
    /// kernel has acknowledged everything. Shared memory waits only for room to say the end, and is closed without
    /// that where a receiver leaves none: receivers that have opened it read it to its end.
    ///
    /// Returns what did not leave. Nothing is waited for if nothing was sent. In a child made by `fork` nothing
    /// happens.
    #[cold]
    pub fn close(&mut self, linger: Duration) -> Left {
        if self.base.stage == Stage::Closed || !self.base.home.is_certain() {
            return Left::default();
        }
        self.base.refresh_clock();
        // A time that others set does not pass while this waits for it.
        let until = if self.base.is_simulated() { self.base.now } else { self.base.now.after(linger) };
        while !self.settle() && self.base.now < until {
            let due = self.publishing.first_wakeup();
            let turn = due.since(self.base.now).clamp(TURN_MIN, TURN_MAX).min(until.since(self.base.now));
            std::thread::sleep(turn);
        }
        let left = self.left();
        self.say_farewell();
        self.base.stage = Stage::Closed;
        left
    }

    /// One turn of [`Context::close`], for who drives other things as well: ends the sources, goes on with what
    /// is still to be said, and tells whether nobody needs any more of it. What remains then is to be closed
    /// with no linger, or dropped.
    #[cold]
    pub fn settle(&mut self) -> bool {
        if self.base.stage == Stage::Closed || !self.base.home.is_certain() {
            return true;
        }
        self.base.refresh_clock();
        if self.base.stage < Stage::Settling {
            self.base.stage = Stage::Settling;
            self.direct.settling_since = self.base.now;
            self.publishing.take_late_clients(&mut self.base);
            self.receiving.incoming.ru.leave_all();
            self.end();
        }
        let patience = self.patience();
        // What came is answered below.
        self.poll_xdp(self.base.now, &mut ());
        let are_sessions_settled = self.publishing.settle(&mut self.base, &patience);
        let is_direct_settled = self.direct.settle_direct(&mut self.base, &mut self.receiving, &patience);
        self.receiving.take_told(&mut self.base, &mut self.direct, &mut ());
        is_direct_settled && are_sessions_settled
    }

    /// Lets go of everything at once and says nothing, as if the process had died: what was not sent is lost,
    /// and receivers have to notice by themselves. For tests of that.
    #[cold]
    pub fn abandon(mut self) {
        self.base.stage = Stage::Closed;
    }

    /// Drives the context until everything that was sent before has left as far as is known, for `timeout` at
    /// most. Unlike with [`Context::close`] sources may go on, and events go to `handler`.
    ///
    /// That is: LBT-RM and LBT-RU have sent everything and owe no retransmission, the kernels of all peers of
    /// TCP sessions and direct connections have acknowledged everything, and the receivers that a session of
    /// shared memory waits for have read everything.
    ///
    /// Returns what has not left by then.
    ///
    /// # Errors
    /// As [`Context::poll`].
    pub fn drain(&mut self, timeout: Duration, handler: &mut impl Handler) -> io::Result<Left> {
        self.base.check_before(Stage::Closed)?;
        self.base.refresh_clock();
        let until = if self.base.is_simulated() { self.base.now } else { self.base.now.after(timeout) };
        loop {
            self.publishing.flush_all(&mut self.base);
            self.direct.flush_direct(&mut self.base);
            let left = self.left();
            if left.is_empty() || self.base.now >= until {
                return Ok(left);
            }
            self.wait(Some(TURN_MAX.min(until.since(self.base.now))), handler)?;
            self.base.refresh_clock();
        }
    }

    /// Sends a message as [`Context::send_flagged`] does, and drives the context while there is no room for it, for
    /// `timeout` at most. Events go to `handler` meanwhile.
    ///
    /// # Errors
    /// Outside as [`Context::poll`]; inside as [`Context::send_flagged`], with [`SendError::WouldBlock`] when the
    /// time is over.
    pub fn send_wait(
        &mut self,
        source: Source,
        flags: SendFlags,
        parts: &[&[u8]],
        timeout: Duration,
        handler: &mut impl Handler,
    ) -> io::Result<Result<Sqn, SendError>> {
        let sent = self.publishing.send_flagged(&mut self.base, source, flags, parts);
        if sent != Err(SendError::WouldBlock) {
            return Ok(sent);
        }
        self.base.refresh_clock();
        let until = if self.base.is_simulated() { self.base.now } else { self.base.now.after(timeout) };
        loop {
            // Room in shared memory is told by nobody.
            self.wait(Some(TURN_MAX.min(until.since(self.base.now))), handler)?;
            let sent = self.publishing.send_flagged(&mut self.base, source, flags, parts);
            self.base.refresh_clock();
            if sent != Err(SendError::WouldBlock) || self.base.now >= until {
                return Ok(sent);
            }
        }
    }

    /// What has not left, at this moment; datagrams that are not full and were not flushed too.
    #[must_use]
    pub fn left(&self) -> Left {
        Left { sessions: self.publishing.left(), direct_bytes: self.direct.direct_left(), queued_messages: 0 }
    }

    fn patience(&self) -> Patience {
        let generation = self.base.config.lbtrm.nak_generation_interval_us;
        let quiet = self.base.config.lbtrm.nak_backoff_us().saturating_mul(10).max(generation / 4);
        let repair = generation / 2;
        let us = Duration::from_micros;
        Patience { quiet: us(quiet), repair: us(repair.max(quiet)), remind: us((quiet / 5).max(1_000)) }
    }

    /// Gives up what waits, and says so.
    fn say_farewell(&mut self) {
        for _ in 0..FAREWELLS {
            if !self.publishing.say_farewell(&mut self.base) {
                return;
            }
            std::thread::sleep(TURN_MAX);
            self.base.refresh_clock();
        }
    }
}

impl Drop for Context {
    /// Closes the context with the configured linger; not while the thread panics.
    fn drop(&mut self) {
        if self.base.stage != Stage::Closed && !std::thread::panicking() {
            // Whoever wants to know what did not leave calls `close`.
            let _ = self.close(self.base.config.linger());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use super::*;
    use crate::context::tests::sending;
    use crate::error::Closed;
    use crate::{Asked, ContextError, ReceiverOptions, RequestError, SourceOptions, Transport};

    /// Everything that makes something or sends.
    fn assert_closed(context: &mut Context, source: Source) {
        let (options, receiving) = (SourceOptions::default(), ReceiverOptions::default());
        let here: SocketAddrV4 = "127.0.0.1:9".parse().expect("an address");
        let made = [
            context.create_source("px", &options).err(),
            context.create_source("other", &options).err(),
            context.create_receiver("px", &receiving).err(),
            context.create_prefix_receiver("px", &receiving).err(),
            context.create_pattern_receiver("px", &receiving).err(),
            context.listen().err(),
            context.connect(here).err(),
        ];
        for (at, refused) in made.iter().enumerate() {
            assert!(matches!(refused, Some(ContextError::Closed)), "{at}: {refused:?}");
        }
        assert_eq!(context.send(source, &[b"late"]), Err(SendError::Ended));
        assert_eq!(context.send_flagged(source, SendFlags::default(), &[b"late"]), Err(SendError::Ended));
        let numbered = context.send_hot_failover(source, 7, SendFlags::default(), &[b"late"]);
        assert_eq!(numbered, Err(SendError::Ended));
        assert_eq!(context.claim(source, 4).err(), Some(SendError::Ended));
        let asked = context.request(source, &[b"who?"]).expect_err("it is closed");
        assert!(matches!(asked, RequestError::Send(SendError::Ended)), "{asked:?}");
    }

    #[test]
    fn a_closed_context_refuses_everything_that_would_be_lost_in_silence() {
        for (test, transport) in (70..).zip(Transport::ALL.iter().copied()) {
            let (mut context, source) = sending(test, transport);
            let here = context.listen().expect("a port is free");
            let connection = context.connect(here).expect("it is near");
            context.send(source, &[b"in time"]).expect("there is room");
            while !context.settle() {
                assert_closed(&mut context, source);
            }
            context.close(Duration::ZERO);
            assert_closed(&mut context, source);
            assert!(!context.send_direct(connection, b"late"));
            let answered = context.respond(Asked { index: 1, address: here }, b"late");
            assert!(answered.is_err_and(|e| Closed::is(&e)));
            assert!(context.poll(&mut ()).is_err_and(|e| Closed::is(&e)));
            assert!(context.wait(None, &mut ()).is_err_and(|e| Closed::is(&e)));
            // Nothing is there to be done, and nobody is harmed.
            context.flush();
            context.delete_source(source);
            assert!(context.close(Duration::ZERO).is_empty());
        }
    }

    #[test]
    fn a_context_whose_sources_were_ended_makes_receivers_and_no_sources() {
        let (mut context, _) = sending(75, Transport::LbtRm);
        context.end();
        let refused = context.create_source("other", &SourceOptions::default());
        assert!(matches!(refused, Err(ContextError::Closed)), "{refused:?}");
        context.create_receiver("px", &ReceiverOptions::default()).expect("it goes on receiving");
        context.poll(&mut ()).expect("it is driven");
    }
}
