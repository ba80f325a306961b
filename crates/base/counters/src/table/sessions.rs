//! What a messaging context tells by name: rows of a [`Roll`](crate::Roll), one kind for each part of it.

use crate::NamedTable;
use crate::roll::named;

/// A session that sources publish on.
pub static SESSION: NamedTable = named!("messaging_session", "session" {
    topics: Gauge, "topics", "Sources on the session.";
    peers: Gauge, "receivers", "Receivers it knows; of LBT-RM those that have asked for retransmissions.";
    is_blocked: Gauge, "flag", "1 while no message is taken.";
    datagrams: Total, "datagrams", "Datagrams sent for the first time, of LBT-RU once for each client.";
    bytes: Total, "bytes", "Bytes of those datagrams; of TCP and shared memory, bytes written for all receivers.";
    retransmissions: Total, "datagrams", "Datagrams sent again.";
    retransmitted_bytes: Total, "bytes", "Bytes of datagrams sent again.";
});

/// A receiver of such a session.
pub static PEER: NamedTable = named!("messaging_peer", "peer" {
    naks: Total, "numbers", "Numbers it has asked for.";
    retransmissions: Total, "datagrams", "LBT-RU: retransmissions sent to it.";
    shed: Total, "numbers", "LBT-RM: numbers passed over because it asked for more than its share.";
    bytes: Total, "bytes", "TCP: bytes that its socket has taken.";
    waiting_bytes: Gauge, "bytes", "TCP and shared memory: bytes that wait for it.";
    silent_ns: Gauge, "ns", "How long it was not heard.";
});

/// A session that is received.
pub static INCOMING: NamedTable = named!("messaging_incoming", "incoming" {
    streams: Gauge, "streams", "Topics of the session that receivers of this context hear.";
    lost: Total, "messages", "Topic numbers that they have lost.";
    datagrams: Total, "datagrams", "Datagrams of the session since the first one here, arrived or not.";
    bytes: Total, "bytes", "Bytes that arrived, duplicates not counted.";
    missing: Gauge, "datagrams", "Datagrams missing now.";
    naks_sent: Total, "numbers", "Numbers asked for, each as often as it was.";
    recovered: Total, "datagrams", "Missing datagrams that came by retransmission.";
    given_up: Total, "datagrams", "Datagrams given up.";
    duplicates: Total, "datagrams", "Datagrams that were not missing any more.";
    silent_ns: Gauge, "ns", "How long the source was not heard.";
});

/// A topic of such a session.
pub static STREAM: NamedTable = named!("messaging_stream", "stream" {
    begun: Gauge, "number", "The number with which the stream began.";
    delivered: Total, "messages", "Topic numbers delivered, each fragment by itself.";
    lost: Total, "messages", "Topic numbers told as lost.";
    losses: Total, "events", "Loss events.";
});

/// A source.
pub static SOURCE: NamedTable = named!("messaging_source", "source" {
    next: Gauge, "number", "The number of its next message.";
    blocked: Total, "calls", "Sends refused because there was no room.";
});
