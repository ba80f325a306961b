use std::ops::Deref;
use std::sync::Arc;

use super::{ReliableReceiver, ReliableSource};
use crate::{CounterSet, Descriptor, counters};

/// The sending side of one LBT-RM transport session, which counts nothing besides what both reliable transports count.
#[derive(Debug, Default)]
pub struct LbtrmSource {
    /// As on LBT-RU.
    pub session: Arc<ReliableSource>,
}

/// The receiving side of one LBT-RM transport session, which counts nothing besides what both reliable transports
/// count.
#[derive(Debug, Default)]
pub struct LbtrmReceiver {
    /// As on LBT-RU.
    pub session: Arc<ReliableReceiver>,
}

impl LbtrmSource {
    /// This set's part of the table.
    pub const TABLE: &'static [Descriptor] = ReliableSource::LBTRM;
}

impl LbtrmReceiver {
    /// This set's part of the table.
    pub const TABLE: &'static [Descriptor] = ReliableReceiver::LBTRM;
}

impl Deref for LbtrmSource {
    type Target = ReliableSource;

    fn deref(&self) -> &ReliableSource {
        &self.session
    }
}

impl Deref for LbtrmReceiver {
    type Target = ReliableReceiver;

    fn deref(&self) -> &ReliableReceiver {
        &self.session
    }
}

impl CounterSet for LbtrmSource {
    fn descriptors(&self) -> &'static [Descriptor] {
        Self::TABLE
    }

    fn values(&self, into: &mut Vec<u64>) {
        self.session.append_values(into);
    }
}

impl CounterSet for LbtrmReceiver {
    fn descriptors(&self) -> &'static [Descriptor] {
        Self::TABLE
    }

    fn values(&self, into: &mut Vec<u64>) {
        self.session.append_values(into);
    }
}

counters! {
    /// The two networks, A and B, that carry the LBT-RM sessions of one context.
    struct LbtrmNetworks("lbtrm_networks") {
        a_dgrams_rcved: Total, "packets", "Packets of sessions with two networks that came on network A.";
        b_dgrams_rcved: Total, "packets", "The same on network B.";
        a_first_copies: Total, "datagrams", "DATA datagrams of which network A brought the first copy.";
        b_first_copies: Total, "datagrams", "The same on network B.";
        second_copies: Total, "datagrams", "DATA datagrams that had come on either network, or been given up, before.";
        a_gaps_filled: Total, "datagrams", "Missing datagrams, as network B had shown, whose original came on network A.";
        b_gaps_filled: Total, "datagrams", "Missing datagrams, as network A had shown, whose original came on network B.";
        a_feedback_sent: Total, "packets", "NAKs and reports sent on network A.";
        b_feedback_sent: Total, "packets", "The same on network B.";
        a_silent: Gauge, "sessions", "Sessions that are heard on network B and not on network A.";
        b_silent: Gauge, "sessions", "Sessions that are heard on network A and not on network B.";
        a_silences: Total, "times", "Times that a session fell silent on network A.";
        b_silences: Total, "times", "The same on network B.";
        a_copies_dropped: Total, "datagrams", "Datagrams sent on network B alone: the socket of network A failed or took no more.";
        b_copies_dropped: Total, "datagrams", "Datagrams sent on network A alone, likewise.";
        connections_moved: Total, "connections", "Connections of the application that were tried on the other network before they stood.";
        answers_moved: Total, "connections", "Connections for answers that went on on the other network.";
        recoveries_moved: Total, "connections", "Connections for late join and recovery that went on on the other network.";
    }
}
