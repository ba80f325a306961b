//! Publishing, as applications call it.

use super::Context;
use crate::error::ContextError;
use crate::outgoing::Claim;
use crate::{SendFlags, Source, SourceOptions};
use lbt::rm::SendError;
use units::Sqn;

impl Context {
    /// Begins to publish a topic: it is advertised, and its messages number from 0.
    ///
    /// Sources share a transport session where transport and place are the same: for LBT-RM the group. A
    /// topic of `source_static_session` is published there, whatever `options` ask for, and not advertised.
    ///
    /// # Errors
    /// [`ContextError::Io`] if the session cannot be opened, [`ContextError::Topic`] if the name cannot be
    /// sent, [`ContextError::Config`] if an option is out of range; each names what it is about.
    /// [`ContextError::PlainRetention`] if it is to retain encrypted messages and `request_tcp_tls` is off.
    /// [`ContextError::Closed`] after [`Context::end`] or [`Context::close`]. [`ContextError::Forked`] in a child made
    /// by `fork`.
    pub fn create_source(&mut self, topic: &str, options: &SourceOptions) -> Result<Source, ContextError> {
        self.publishing.create_source(&mut self.base, &mut self.direct, topic, options)
    }

    /// Ends a topic. What was sent before still goes out and is repaired, but is no longer retained. Receivers hear of
    /// the end of sessions only: the stream ends with the session, which the context's other sources may share.
    pub fn delete_source(&mut self, source: Source) {
        self.publishing.delete_source(&mut self.base, source)
    }

    /// Appends a message, gathered from `parts`, and returns its topic number. It leaves when a datagram is
    /// full, or with [`Context::flush`] (which [`Context::poll`] does).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when more than the configured buffer waits for the rate limit, the socket
    /// or the slowest receiver: nothing was taken, and [`SourceEvent::WakeUp`] tells when there is room
    /// again. [`SendError::TooLong`] above `maximum_message_size`. [`SendError::UnknownTopic`] after
    /// [`Context::delete_source`]. [`SendError::Ended`] after [`Context::end`]. [`SendError::Forked`] in a child
    /// made by `fork`.
    ///
    /// [`SourceEvent::WakeUp`]: crate::SourceEvent::WakeUp
    #[inline]
    pub fn send(&mut self, source: Source, parts: &[&[u8]]) -> Result<Sqn, SendError> {
        self.publishing.send(&mut self.base, source, parts)
    }

    /// The same with flags.
    ///
    /// From a `batch_start` to its `batch_end` what is sent on the session stays together: no turn and no
    /// timer of implicit batching sends it, only a full datagram does (with TCP 64 KiB, in shared memory a
    /// segment), or an explicit flush. A batch that is refused at its start has not begun.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn send_flagged(
        &mut self,
        source: Source,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.publishing.send_flagged(&mut self.base, source, flags, parts)
    }

    /// Reserves room for a message of exactly `len` bytes where it will be sent from.
    ///
    /// # Errors
    /// As [`Context::send`]; a claim cannot be longer than [`Context::claim_max`].
    #[inline]
    pub fn claim(&mut self, source: Source, len: usize) -> Result<Claim<'_>, SendError> {
        self.publishing.claim(&mut self.base, source, len)
    }

    /// The longest message that can be claimed: what fits one datagram of the source's transport.
    #[must_use]
    pub fn claim_max(&self, source: Source) -> usize {
        self.publishing.claim_max(source)
    }

    /// Sends what waits of a source's session.
    pub fn flush_source(&mut self, source: Source) {
        self.publishing.flush_source(&mut self.base, source)
    }

    /// The transport session that a source publishes on; prints as the field's source strings do.
    #[must_use]
    pub fn source_transport(&self, source: Source) -> Option<lbt::resolution::TransportSession> {
        self.publishing.source_transport(source)
    }

    /// Sends a message that other sources of the topic, in this process or in others, send as well, under
    /// the same `number`. A receiver with [`ReceiverOptions::hot_failover`](crate::ReceiverOptions) gets the
    /// copy that comes first, and messages in the order of their numbers; any other receiver gets each
    /// source's copy, and finds the number in [`Message::failover_number`].
    ///
    /// Each source's numbers ascend; numbers may be left out, best by all sources, since a receiver waits for
    /// a number that only one has left out (`hot_failover_gap_interval_us`). They need not begin at 0, and
    /// go on where they were when a source is started again; numbers that begin anew are told to receivers
    /// by [`Context::restart_hot_failover`]. A jump by more than 2^30 is not believed.
    ///
    /// # Errors
    /// As [`Context::send`].
    ///
    /// [`Message::failover_number`]: crate::Message::failover_number
    pub fn send_hot_failover(
        &mut self,
        source: Source,
        number: u64,
        flags: SendFlags,
        parts: &[&[u8]],
    ) -> Result<Sqn, SendError> {
        self.publishing.send_hot_failover(&mut self.base, source, number, flags, parts)
    }
}
