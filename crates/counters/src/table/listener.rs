use crate::counters;

counters! {
    /// A port that accepts connections: what happens to those that never become one, or never log in.
    struct Listener("listener") {
        turned_away: Total, "connections", "Closed unheard: too many connections beyond the limit were being refused already.";
        accept_failures: Total, "calls", "Refusals of the system to give a connection, most likely for want of descriptors.";
        address_full: Total, "connections", "Closed unheard: their address had as many connections as it may.";
        tls_handshakes: Total, "connections", "TLS handshakes completed.";
        tls_unfinished: Total, "connections", "Closed before their TLS handshake was complete, for whatever reason.";
        tls_reloads: Total, "files", "Certificates that were read again because their files had changed.";
        tls_reload_failures: Total, "files", "Changed certificates that could not be used; the old ones stayed.";
        logins_overdue: Total, "connections", "Closed: nobody had logged in in time. They count as closed_application, too.";
    }
}
