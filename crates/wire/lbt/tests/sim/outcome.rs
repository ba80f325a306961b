//! What a run came to, and what must hold of each receiver when it is over.

use crate::world::{Heard, Node, Session};
use tickcast_lbt::delivery::EndReason;

/// All receivers that lived to the end together.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) dropped: u64,
    pub(crate) damaged: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    /// Datagrams that were found missing.
    pub(crate) missed: u64,
    pub(crate) recovered: u64,
    pub(crate) retransmitted: u64,
    pub(crate) confirmed: u64,
    pub(crate) naks: u64,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Outcome) {
        self.dropped += other.dropped;
        self.damaged += other.damaged;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.missed += other.missed;
        self.recovered += other.recovered;
        self.retransmitted += other.retransmitted;
        self.confirmed += other.confirmed;
        self.naks += other.naks;
    }

    /// Checks one session at one node when all is over.
    pub(crate) fn take(&mut self, node: &Node, heard: &Heard, session: &Session, is_last: bool) {
        assert!(heard.receiver.has_ended(), "every session comes to its end");
        assert_eq!(heard.receiver.missing(), 0);
        let c = &heard.counters;
        let given_up = c.unrecovered_txw.get()
            + c.unrecovered_tmo.get()
            + c.unrecovered_ncf.get()
            + c.unrecovered_bound.get()
            + c.unrecovered_end.get();
        let repaired = c.recovered.get() + c.out_of_order.get();
        assert_eq!(c.lost.get(), repaired + given_up, "what was missing was repaired or given up");
        assert_eq!(heard.delivery.order_map_entries.get(), 0);
        self.check_naks(node, heard);
        for (&topic, stream) in &heard.streams {
            assert_eq!(stream.begun.is_some(), stream.end.is_some(), "topic {topic}: what begins ends");
            let reason = stream.end.map(|e| e.reason);
            if is_last && reason == Some(EndReason::Ended) {
                stream.check_complete(&session.sent, topic);
            }
            // a crash in the middle of a message loses that message without the loss of a datagram, and so
            // do the bound on messages being put together and a datagram that was cut between two messages
            let unfinished = heard.delivery.fragments_unrecoverably_lost.get() > 0;
            let seen = given_up > 0 || stream.lost_count == 0 || unfinished || self.damaged > 0;
            assert!(seen, "topic {topic} of {:#x}: loss the transport did not see", session.id);
            self.delivered += stream.messages;
            self.lost += stream.lost_count;
        }
        self.missed += c.lost.get();
        self.recovered += c.recovered.get();
        self.naks += c.naks_sent.get();
    }

    /// A number is asked for once after the first wait, then once in half a back-off at most, for the
    /// generation interval; for four while the source is silent.
    fn check_naks(&self, node: &Node, heard: &Heard) {
        let config = &node.plan.config;
        let wait = config.nak_backoff_interval / 2;
        let each = (4 * config.nak_generation_interval).div_duration_f64(wait) as u64 + 2;
        let (naks, missed) = (heard.counters.naks_sent.get(), heard.counters.lost.get());
        assert!(naks <= each * missed, "{naks} NAKs for {missed} missing datagrams");
    }
}
