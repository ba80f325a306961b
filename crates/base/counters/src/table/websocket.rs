use crate::counters;

counters! {
    /// All WebSocket connections that one thread owns: those of a listener, or of a client.
    ///
    /// "In" and "out" are seen from this side. Every connection ends with exactly one of the `closed_*` counts.
    struct WebSocketConnections("websocket") {
        accepted: Total, "connections", "Connections whose upgrade was completed.";
        active: Gauge, "connections", "Connections that are past their upgrade and not closed.";
        compressed_connections: Total, "connections", "Upgrades that agreed on permessage-deflate.";
        upgrades_refused: Total, "connections", "Upgrade requests answered with an HTTP error.";
        origins_refused: Total, "connections", "Those among them that would have been a login by cookie from a page of another origin.";

        bytes_in: Total, "bytes", "Bytes received, upgrades included.";
        frames_in: Total, "frames", "Frames received.";
        messages_in: Total, "messages", "Messages delivered.";
        fragments_in: Total, "frames", "Frames received that are part of a message only.";
        compressed_messages_in: Total, "messages", "Messages delivered that came compressed.";
        pings_in: Total, "frames", "Ping frames received.";
        pongs_in: Total, "frames", "Pong frames received.";

        bytes_out: Total, "bytes", "Bytes accepted by the socket, upgrades included.";
        frames_out: Total, "frames", "Frames written.";
        messages_out: Total, "messages", "Messages written.";
        pings_out: Total, "messages", "Pings of the protocol above written because nothing came or nothing went.";
        pongs_out: Total, "frames", "Pong frames written.";
        backlog_bytes: Gauge, "bytes", "Bytes written and not yet accepted by a socket, all connections together.";
        backlog_high_water_bytes: Gauge, "bytes", "Most bytes that one connection had waiting for its socket.";
        backlog_refusals: Total, "messages", "Writes refused because a connection's backlog was at its limit.";
        stalls: Total, "wakeups", "Wake-ups that came more than a ping interval late: this side slept, peers are not blamed.";

        closed_by_peer: Total, "connections", "Closed: the peer sent a close frame.";
        closed_disconnected: Total, "connections", "Closed: the peer ended the TCP connection without a close frame.";
        closed_socket_error: Total, "connections", "Closed: the socket failed.";
        closed_application: Total, "connections", "Closed: the application on this side wished it.";
        closed_slow_consumer: Total, "connections", "Closed: the peer reads too slowly, its backlog was at its limit.";
        closed_stalled: Total, "connections", "Closed: the peer reads too slowly, the oldest byte for it had waited too long.";
        closed_misuse: Total, "connections", "Closed: the application on this side sent before the upgrade was complete.";
        closed_dropped: Total, "connections", "Closed: the connection was discarded without being closed first.";
        closed_refused: Total, "connections", "Closed: the upgrade was answered with an HTTP error, by this side or the peer.";
        closed_handshake_timeout: Total, "connections", "Closed: the upgrade was not completed in time.";
        closed_silent: Total, "connections", "Closed: nothing was received for the whole ping timeout.";
        closed_not_http: Total, "connections", "Closed: the peer does not speak HTTP.";
        closed_upgrade: Total, "connections", "Closed: the head of the upgrade, or the answer to it, is malformed.";
        closed_frame: Total, "connections", "Closed: a frame that is not allowed.";
        closed_utf8: Total, "connections", "Closed: text that is not UTF-8.";
        closed_deflate: Total, "connections", "Closed: compressed data that cannot be decompressed.";
        closed_message_length: Total, "connections", "Closed: a message longer than allowed.";
    }
}

counters! {
    /// What becomes of messages between the core of a point-to-point server and its WebSocket clients.
    struct JsonClients("json") {
        messages_written: Total, "messages", "Messages made into JSON, each once for all clients that get it.";
        messages_unwritable: Total, "messages", "Messages that cannot be made into JSON: clients are told so in their place.";
        streams_suspected: Total, "streams", "Streams made suspect because an update cannot be made into JSON.";
        streams_restored: Total, "streams", "Those that an image has made good again.";
        streams_closed: Total, "streams", "Streams closed because their data cannot be made into JSON.";
        messages_read: Total, "messages", "JSON messages of clients made into RWF.";
        messages_refused: Total, "messages", "JSON messages of clients answered with an error.";
        ids_in_use: Total, "messages", "Those among them that name the id of a stream of another domain.";
        unknown_services: Total, "messages", "Requests of clients that name a service that there is not.";
        pings_in: Total, "messages", "JSON pings of clients answered.";
        errors_in: Total, "messages", "Errors with which clients answered a message.";
    }
}
