use std::sync::Arc;

use super::{ReliableReceiver, ReliableSource};
use crate::{CounterSet, Descriptor, counters};

counters! {
    /// What an LBT-RU source counts about its clients.
    struct LbtruClients("lbtru_source") {
        num_clients: Gauge, "clients", "Clients that are connected.";
        clients_connected: Total, "clients", "Clients that have completed the connection.";
        clients_timed_out: Total, "clients", "Clients dropped because they gave no sign of life.";
        clients_left: Total, "clients", "Clients that have said that they leave.";
        clients_refused: Total, "packets", "Packets refused because there were as many clients as allowed.";
        creqs_rcved: Total, "packets", "Connect requests received.";
        creqs_ignored: Total, "packets", "Connect requests not answered: too many from one address.";
        acks_rcved: Total, "packets", "Signs of life received from clients.";
        acks_dropped: Total, "packets", "Signs of life with a number the session does not have.";
        syns_sent: Total, "packets", "Answers to connect requests sent.";
        rsts_sent: Total, "packets", "Resets sent.";
        replies_dropped: Total, "packets", "Answers and resets not sent because too many were waiting.";
        dgrams_dropped_sid: Total, "packets", "Packets for another session.";
        dgrams_dropped_client: Total, "packets", "NAKs from an address that is no client.";
        unheard: Total, "datagrams", "DATA datagrams that no client was connected for.";
        events_dropped: Total, "events", "Connections and disconnections nobody asked for.";
    }
}

counters! {
    /// What an LBT-RU receiver counts about its connection.
    struct LbtruConnection("lbtru_receiver") {
        creqs_sent: Total, "packets", "Connect requests sent.";
        acks_sent: Total, "packets", "Signs of life sent.";
        syns_rcved: Total, "packets", "Answers to connect requests received.";
        rsts_rcved: Total, "packets", "Resets received.";
        rsts_outlived: Total, "resets", "Resets after which the session turned out to be alive.";
        dgrams_dropped_sid: Total, "packets", "Dropped: another session, or sent to another client.";
        dgrams_dropped_early: Total, "packets", "Dropped: arrived before the connection was answered.";
    }
}

/// The sending side of one LBT-RU transport session: what both reliable transports count, and its clients.
#[derive(Debug, Default)]
pub struct LbtruSource {
    /// As on LBT-RM; sent datagrams are counted once for each client.
    pub session: Arc<ReliableSource>,
    /// The clients.
    pub clients: LbtruClients,
}

/// The receiving side of one LBT-RU transport session: what both reliable transports count, and its connection.
#[derive(Debug, Default)]
pub struct LbtruReceiver {
    /// As on LBT-RM.
    pub session: Arc<ReliableReceiver>,
    /// The connection.
    pub connection: LbtruConnection,
}

/// Two tables as one.
const fn joined<const N: usize>(shared: &[Descriptor], own: &[Descriptor]) -> [Descriptor; N] {
    let mut all = [shared[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < shared.len() { shared[at] } else { own[at - shared.len()] };
        at += 1;
    }
    all
}

impl CounterSet for LbtruSource {
    fn descriptors(&self) -> &'static [Descriptor] {
        const SHARED: &[Descriptor] = ReliableSource::LBTRU;
        const OWN: &[Descriptor] = LbtruClients::TABLE;
        static TABLE: [Descriptor; SHARED.len() + OWN.len()] = joined(SHARED, OWN);
        &TABLE
    }

    fn values(&self, into: &mut Vec<u64>) {
        self.session.append_values(into);
        self.clients.values(into);
    }
}

impl CounterSet for LbtruReceiver {
    fn descriptors(&self) -> &'static [Descriptor] {
        const SHARED: &[Descriptor] = ReliableReceiver::LBTRU;
        const OWN: &[Descriptor] = LbtruConnection::TABLE;
        static TABLE: [Descriptor; SHARED.len() + OWN.len()] = joined(SHARED, OWN);
        &TABLE
    }

    fn values(&self, into: &mut Vec<u64>) {
        self.session.append_values(into);
        self.connection.values(into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(set: &dyn CounterSet) -> Vec<(&'static str, u64)> {
        let mut values = Vec::new();
        set.values(&mut values);
        assert_eq!(values.len(), set.descriptors().len());
        set.descriptors().iter().map(|d| d.name).zip(values).collect()
    }

    #[test]
    fn counters_that_both_transports_have_bear_the_name_of_the_transport() {
        let source = LbtruSource::default();
        source.session.naks_rcved.add(3);
        source.clients.num_clients.set(2);
        let named = by_name(&source);
        assert!(named.contains(&("lbtru_source_naks_rcved_total", 3)));
        assert!(named.contains(&("lbtru_source_num_clients", 2)));
        let receiver = LbtruReceiver::default();
        receiver.connection.acks_sent.inc();
        receiver.session.lost.inc();
        let received = by_name(&receiver);
        assert!(received.contains(&("lbtru_receiver_lost_total", 1)));
        assert!(received.contains(&("lbtru_receiver_acks_sent_total", 1)));
        assert!(named.iter().chain(&received).all(|(name, _)| name.starts_with("lbtru_")));
    }
}
