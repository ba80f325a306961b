use crate::counters;

counters! {
    /// The sending side of TCP sessions.
    struct LbttcpSource("lbttcp_source") {
        num_clients: Gauge, "connections", "Receivers connected.";
        bytes_buffered: Gauge, "bytes", "Bytes that wait for the slowest receiver.";
        clients_refused: Total, "connections", "Receivers refused because there were too many, in all or of one address, or on an error.";
        clients_not_allowed: Total, "connections", "Connections from networks that are not allowed.";
        accepts_failed: Total, "calls", "Connections that the system refused to accept, for want of descriptors or memory; they wait.";
        handshakes_open: Gauge, "connections", "Connections whose TLS handshake is under way.";
        handshakes_timed_out: Total, "connections", "Connections closed because their TLS handshake took too long.";
        handshakes_displaced: Total, "connections", "Connections closed in their TLS handshake because too many others were in theirs.";
        receivers_stopped: Total, "receivers", "Receivers that were passed over because they took nothing while the session waited for them.";
        clients_lost: Total, "connections", "Receivers that have gone.";
        certificate_failures: Total, "connections", "Connections with which TLS was not agreed on: a certificate was missing or not acceptable.";
        lbm_msgs_passed_over: Total, "messages", "LBMC messages that a slow receiver was not sent.";
    }
}

counters! {
    /// The receiving side of TCP sessions.
    struct LbttcpReceiver("lbttcp_receiver") {
        bytes_rcved: Total, "bytes", "Bytes received.";
        sessions_broken: Total, "sessions", "Connections that failed or broke without the end of the session.";
        certificate_failures: Total, "sessions", "Those of them where TLS was not agreed on: a certificate was missing or not acceptable.";
        sessions_malformed: Total, "sessions", "Connections closed because of bytes that are no LBMC messages.";
        queries_answered: Total, "queries", "Answers sent to sources that wait for receivers.";
    }
}
