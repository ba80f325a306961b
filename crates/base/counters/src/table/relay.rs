use crate::counters;

counters! {
    /// A unicast resolver: relays topic resolution between its clients.
    struct LbmrRelay("lbmr_relay") {
        clients: Gauge, "clients", "Clients heard from lately.";
        clients_registered: Total, "clients", "Clients heard from for the first time, or again after they had expired.";
        clients_expired: Total, "clients", "Clients forgotten because nothing was heard from them.";
        clients_refused: Total, "packets", "Keep-alives of clients not taken because of the bound on them.";
        clients_not_admitted: Total, "packets", "Datagrams from networks or ports that are not admitted.";
        keepalives_rcved: Total, "packets", "Keep-alives received from clients.";
        keepalives_sent: Total, "packets", "Keep-alives handed out for clients.";
        tr_dgrams_rcved: Total, "packets", "Datagrams received.";
        tr_bytes_rcved: Total, "bytes", "UDP payload bytes of those datagrams.";
        tr_dgrams_dropped_malformed: Total, "packets", "Datagrams dropped as malformed.";
        tr_dgrams_unauthentic: Total, "packets", "Datagrams dropped because their keyed code is missing or wrong, or its key is not known.";
        tr_dgrams_stale: Total, "packets", "Datagrams dropped because they were signed too long ago or in the future: replays, or clocks that do not agree.";
        tr_dgrams_dropped_type: Total, "packets", "Datagrams dropped because their type is not relayed.";
        tr_dgrams_dropped_unknown: Total, "packets", "Datagrams dropped because their sender is no client.";
        tr_dgrams_dropped_rate: Total, "packets", "Datagrams dropped because their sender sent too much.";
        tr_dgrams_relayed: Total, "packets", "Datagrams relayed to at least one client.";
        tr_dgrams_sent: Total, "packets", "Copies of them handed out.";
        tr_bytes_sent: Total, "bytes", "UDP payload bytes of those copies.";
        tr_dgrams_held_back: Total, "packets", "Copies left out because the client's or the relay's rate was used up.";
    }
}

counters! {
    /// The socket of a unicast resolver.
    struct ResolverSocket("resolver_socket") {
        dgrams_dropped_network: Total, "packets", "Datagrams dropped because their sender is in no network of clients.";
        dgrams_dropped_by_kernel: Total, "packets", "Datagrams dropped by the kernel: the socket's buffer was full.";
        sends_failed: Total, "packets", "Copies that the socket did not take.";
        receives_failed: Total, "calls", "System calls that could not receive: the socket is broken.";
    }
}
