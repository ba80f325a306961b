use crate::counters;

counters! {
    /// Streams and links of the backbone over NATS.
    struct NatsCarrier("nats") {
        packets_sent: Total, "packets", "Packets given to the thread of NATS; one carries several messages where they come together.";
        bytes_sent: Total, "bytes", "Bytes of those packets.";
        packets_rcved: Total, "packets", "Packets taken from the thread of NATS.";
        bytes_rcved: Total, "bytes", "Bytes of those packets.";
        packets_unconnected: Total, "packets", "Packets dropped because no server of NATS was connected.";
        packets_malformed: Total, "packets", "Packets dropped because they cannot be read, or do not belong to their subject.";
        packets_lost: Total, "packets", "Packets of streams that have not come, by the numbers of those that have.";
        packets_late: Total, "packets", "Packets of streams dropped because they, or later ones, had come before.";
        jetstream_holes: Total, "holes", "Jumps in the numbers of a stream, with `backbone.nats.jetstream.stream`; several at a time in one stream are one.";
        jetstream_holes_given_up: Total, "holes", "Of those, the ones of which something was not fetched in time and is told as a gap.";
        jetstream_holes_too_large: Total, "holes", "Times that a hole was not waited for, or no longer, because of a bound on packets or bytes.";
        jetstream_packets_recovered: Total, "packets", "Packets of streams that were missing and came from JetStream.";
        jetstream_requests: Total, "requests", "Requests to JetStream.";
        jetstream_requests_unanswered: Total, "requests", "Requests that JetStream did not answer in time; they are made again while it is waited for.";
        jetstream_requests_refused: Total, "requests", "Requests that JetStream refused, or answered with what was not asked.";
        jetstream_held_bytes: Gauge, "bytes", "Bytes of packets that wait for packets before them, with what keeps them.";
        sources: Gauge, "streams", "Streams that are heard, one for each instance and topic.";
        sources_refused: Total, "packets", "Packets of further streams, dropped because of the bound on them.";
        links_opened: Total, "links", "Links opened.";
        links_closed: Total, "links", "Links closed or broken.";
        links_overfull: Total, "links", "Links that ended because all of them held more than `backbone.nats.links_waiting_bytes`, each the fullest of them.";
        links_refused: Total, "links", "Links not accepted because of the bound on them.";
    }
}

counters! {
    /// The connection to servers of NATS, of its thread.
    struct NatsConnection("nats_connection") {
        connected: Gauge, "connections", "1 while a server is connected.";
        connects: Total, "connections", "Times that a server was connected, the first one included.";
        errors: Total, "errors", "Connections that failed, and errors that servers have reported.";
        packets_unread: Total, "packets", "Packets dropped because the thread of the data had not taken those before.";
        packets_refused: Total, "packets", "Packets that the client of NATS did not take: it had lost its server.";
    }
}
