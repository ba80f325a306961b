use crate::counters;

counters! {
    /// All RSSL connections that one thread owns: those of a listener, or of a client.
    ///
    /// "In" and "out" are seen from this side. Every connection ends with exactly one of the `closed_*`
    /// counts.
    struct RsslConnections("rssl") {
        accepted: Total, "connections", "Connections whose handshake was completed.";
        active: Gauge, "connections", "Connections that are past their handshake and not closed.";
        handshakes_v10: Total, "connections", "Handshakes completed with connection version 10.";
        handshakes_v11: Total, "connections", "Handshakes completed with connection version 11.";
        handshakes_v12: Total, "connections", "Handshakes completed with connection version 12.";
        handshakes_v13: Total, "connections", "Handshakes completed with connection version 13.";
        handshakes_v14: Total, "connections", "Handshakes completed with connection version 14.";
        key_exchanges: Total, "connections", "Handshakes in which both sides sent a key.";
        compression_zlib: Total, "connections", "Handshakes that agreed on zlib.";
        compression_lz4: Total, "connections", "Handshakes that agreed on LZ4.";
        compression_forced: Total, "connections", "Connect requests without compression that were answered with one.";
        compression_declined: Total, "connections", "Connect requests that asked for compression and got none.";
        naks_sent: Total, "connections", "Connect requests answered with a connect nak.";
        naks_rcved: Total, "connections", "Connect naks received.";

        bytes_in: Total, "bytes", "Bytes received, handshakes included.";
        bytes_carried_in: Total, "bytes", "Received bytes that had to be copied because a frame came in pieces.";
        frames_in: Total, "frames", "Frames received, pings included.";
        messages_in: Total, "messages", "Messages delivered.";
        pings_in: Total, "frames", "Pings received.";
        packed_frames_in: Total, "frames", "Packed frames received.";
        packed_messages_in: Total, "messages", "Messages delivered out of packed frames.";
        fragments_in: Total, "frames", "Fragments received.";
        fragmented_messages_in: Total, "messages", "Messages delivered that came as fragments.";
        fragments_unknown_in: Total, "frames", "Fragments dropped because no message is open under their id.";
        fragmented_replaced_in: Total, "messages", "Unfinished fragmented messages given up because their id was used again.";

        compressed_frames_in: Total, "frames", "Payloads received compressed.";
        compressed_bytes_in: Total, "bytes", "Bytes of these as they came.";
        expanded_bytes_in: Total, "bytes", "Bytes of these when decompressed.";

        bytes_out: Total, "bytes", "Bytes accepted by the socket, handshakes included.";
        frames_out: Total, "frames", "Frames written, pings included.";
        messages_out: Total, "messages", "Messages written.";
        pings_out: Total, "frames", "Pings written.";
        packed_frames_out: Total, "frames", "Packed frames written.";
        packed_messages_out: Total, "messages", "Messages written into packed frames.";
        fragments_out: Total, "frames", "Fragments written.";
        fragmented_messages_out: Total, "messages", "Messages written as fragments.";
        compressed_frames_out: Total, "frames", "Payloads written compressed.";
        compressed_bytes_out: Total, "bytes", "Bytes of these as they were written.";
        expanded_bytes_out: Total, "bytes", "Bytes of these before compression.";
        split_payloads_out: Total, "frames", "Compressed payloads that had outgrown their frame and went in two.";
        backlog_bytes: Gauge, "bytes", "Bytes written and not yet accepted by a socket, all connections together.";
        backlog_high_water_bytes: Gauge, "bytes", "Most bytes that one connection had waiting for its socket.";
        backlog_refusals: Total, "messages", "Writes refused because a connection's backlog was at its limit.";
        stalls: Total, "wakeups", "Wake-ups that came more than a ping interval late: this side slept, peers are not blamed.";

        closed_disconnected: Total, "connections", "Closed: the peer ended the TCP connection.";
        closed_socket_error: Total, "connections", "Closed: the socket failed.";
        closed_unanswered: Total, "connections", "Closed: the server ended the TCP connection instead of answering the connect request.";
        closed_application: Total, "connections", "Closed: the application on this side wished it.";
        closed_slow_consumer: Total, "connections", "Closed: the peer reads too slowly, its backlog was at its limit.";
        closed_stalled: Total, "connections", "Closed: the peer reads too slowly, the oldest byte for it had waited too long.";
        closed_misuse: Total, "connections", "Closed: the application on this side broke the contract of a call.";
        closed_dropped: Total, "connections", "Closed: the connection was discarded without being closed first.";
        closed_refused_protocol: Total, "connections", "Closed with a connect nak: the protocol type of the request is not served.";
        closed_refused_application: Total, "connections", "Closed with a connect nak: the application refused the request.";
        closed_nak: Total, "connections", "Closed: the server refused the connect request with a connect nak.";
        closed_handshake_timeout: Total, "connections", "Closed: the handshake was not completed in time.";
        closed_silent: Total, "connections", "Closed: nothing was received for the whole ping timeout.";
        closed_http: Total, "connections", "Closed: the peer speaks HTTP (tunnelling or WebSocket) where RSSL is served.";
        closed_handshake_length: Total, "connections", "Closed: a handshake message has an impossible length.";
        closed_handshake_flags: Total, "connections", "Closed: a handshake message has flags that are not allowed there.";
        closed_handshake_field: Total, "connections", "Closed: a field of a handshake message runs past its end.";
        closed_unknown_version: Total, "connections", "Closed: the connection version of a request is not known.";
        closed_ack_version: Total, "connections", "Closed: the version in a connect ack is not the one offered.";
        closed_ack_message_size: Total, "connections", "Closed: the maximum user message size in a connect ack is not usable.";
        closed_ack_ping_timeout: Total, "connections", "Closed: the ping timeout in a connect ack is not usable.";
        closed_ack_compression: Total, "connections", "Closed: a connect ack names an unknown compression.";
        closed_key_exchange: Total, "connections", "Closed: the key exchange cannot be carried through with the numbers sent.";
        closed_frame_length: Total, "connections", "Closed: a frame is shorter than its header or longer than the limit.";
        closed_frame_flags: Total, "connections", "Closed: a frame has a combination of flags that is not allowed.";
        closed_compressed_frame: Total, "connections", "Closed: a frame is compressed though no compression was agreed.";
        closed_corrupt_payload: Total, "connections", "Closed: a compressed payload cannot be decompressed.";
        closed_oversized_payload: Total, "connections", "Closed: a compressed payload holds more than a payload may.";
        closed_continuation: Total, "connections", "Closed: the second part of a compressed payload did not follow the first.";
        closed_empty_frame: Total, "connections", "Closed: a frame other than a ping holds nothing.";
        closed_packed_length: Total, "connections", "Closed: a message in a packed frame runs past the end of the frame.";
        closed_fragment_header: Total, "connections", "Closed: a fragment is shorter than its header.";
        closed_fragment_total: Total, "connections", "Closed: the total length of a fragmented message is zero or above the limit.";
        closed_fragment_overrun: Total, "connections", "Closed: the fragments of a message are longer than its announced total.";
        closed_fragment_count: Total, "connections", "Closed: too many fragmented messages are open at once.";
        closed_fragment_bytes: Total, "connections", "Closed: the fragmented messages open at once announce more bytes than allowed.";
    }
}
