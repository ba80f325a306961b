use crate::counters;

counters! {
    /// A port that accepts connections: what happens to those that never become one, or never log in.
    struct Listener("listener") {
        turned_away: Total, "connections", "Closed unheard: too many connections beyond the limit were being refused already.";
        accept_failures: Total, "calls", "Refusals of the system to give a connection, most likely for want of descriptors.";
        descriptors_short: Total, "connections", "Closed unheard: the descriptors left were those that the rest of the process needs.";
        address_full: Total, "connections", "Closed unheard: their address had as many connections as it may.";
        tls_handshakes: Total, "connections", "TLS handshakes completed.";
        tls_unfinished: Total, "connections", "Closed before their TLS handshake was complete, for whatever reason.";
        tls_reloads: Total, "files", "Certificates that were read again because their files had changed.";
        tls_reload_failures: Total, "files", "Changed certificates that could not be used; the old ones stayed.";
        certificate_expires: Gauge, "s since 1970", "When the certificate in use expires; 0 without TLS.";
        backlog_bytes: Gauge, "bytes", "Bytes that wait for the sockets of all connections of the port.";
        backlogs_relieved: Total, "connections", "Closed because all backlogs together were above their limit and theirs were the largest. They count as closed_application, too.";
        output_overflows: Total, "messages", "Messages that a turn of the thread had no room for; the connections that should have had them were closed. They count as closed_application, too.";
        logins_overdue: Total, "connections", "Closed: nobody had logged in in time. They count as closed_application, too.";
    }
}

counters! {
    /// The list of users of a daemon.
    struct UserLists("users") {
        listed: Gauge, "users", "Users in the list in force; 0 also if there is no list and everybody may log in.";
        reloads: Total, "files", "Times that a changed list was put in force.";
        reload_failures: Total, "files", "Changed lists that cannot be used; the one before stayed in force.";
    }
}
