use crate::counters;

counters! {
    /// The sockets of one messaging context.
    struct MessagingContext("messaging") {
        datagrams_dropped_by_kernel: Total, "datagrams", "Datagrams that the kernel dropped because a socket's buffer was full, at the last look.";
        unknown_datagrams: Total, "datagrams", "Datagrams of sessions that nobody here has subscribed to, or of none.";
        sends_blocked: Total, "calls", "Sends refused because too much waits for the rate limit or the socket.";
        sends_dropped: Total, "messages", "Messages of other threads' sources that no transport could ever take.";
        sends_failed: Total, "calls", "System calls that could not send.";
        sockets_without_offload: Gauge, "sockets", "Sockets that send each datagram by a system call of its own, because the kernel has refused to cut runs of them.";
        receives_failed: Total, "calls", "System calls that could not receive: a socket is broken, or its interface is gone.";
        requests_open: Gauge, "requests", "Requests that may still be answered.";
        responses_unknown: Total, "messages", "Answers to requests that are over, or that nobody here has sent.";
        handshakes_failed: Total, "connections", "Connections to the request port that ended before TLS was agreed on.";
        certificate_failures: Total, "connections", "Direct connections that ended because a certificate was missing or not acceptable.";
        security_reloads: Total, "reloads", "Changed files of keys or certificates that were read again and put in force.";
        security_reload_failures: Total, "reloads", "Changed files of keys or certificates that cannot be used; those before stay in force.";
        answer_connections_failed: Total, "connections", "Connections for answers that were refused, or broke with answers that had not left.";
        clients_not_allowed: Total, "datagrams", "Datagrams for sessions of reliable unicast from networks that are not allowed.";
        request_accepts_failed: Total, "calls", "Connections to the request port that the system refused to accept, for want of descriptors or memory; they wait.";
        request_connections_not_allowed: Total, "connections", "Connections to the request port from networks that are not allowed.";
        request_connections_refused: Total, "connections", "Connections to the request port refused because there were too many, in all or of one address, or on an error.";
        request_connections_displaced: Total, "connections", "Connections to the request port that had said nothing and were closed to make room for others.";
        request_connections_silent: Total, "connections", "Connections to the request port closed because nothing whole came in time.";
        request_connections_idle: Total, "connections", "Connections to the request port closed because they were not used for long.";
        request_messages_overdue: Total, "connections", "Direct connections closed because a message did not go on.";
        request_buffers_exceeded: Total, "connections", "Direct connections closed because all together held too much of messages that were not whole.";
        request_connections_unread: Total, "connections", "Direct connections closed because too much waited for their peers.";
        ipc_sessions_broken: Total, "sessions", "Sessions of shared memory whose source died, dropped this receiver, or wrote nonsense.";
        ipc_opens_denied: Total, "sessions", "Attempts to open sessions of shared memory that this user may not open or must not trust.";
        ipc_bells_failed: Total, "sessions", "Sessions of shared memory that cannot wake this context, which looks at them every millisecond instead.";
        ipc_names_lost: Total, "sessions", "Sessions of shared memory whose file somebody has removed: receivers that have it open go on, others cannot open it until the source is made anew.";
        receiver_queries_sent: Total, "packets", "Queries to receivers of sources that were waited for, once for all receivers of a session.";
        receiver_answers_rcved: Total, "packets", "Answers to them, each of one receiver.";
        receiver_answers_unasked: Total, "packets", "Answers to no query of late; they are dropped.";
        receiver_answers_refused: Total, "packets", "Answers of receivers that were not counted because a session has too many.";
        ipc_queries_answered: Total, "queries", "Answers given in shared memory to sources that wait for receivers.";
        late_turns: Total, "turns", "Turns that came more than 0.2 s after they were due: the process was stopped, or its thread had no CPU.";
        joins_failed: Total, "calls", "Groups or connections that could not be opened.";
        descriptors_exhausted: Total, "calls", "Those of them for want of descriptors or memory; they are tried again.";
        sessions_not_allowed: Total, "sources", "Advertised sources that are where none can be, or is allowed.";
        sessions_waiting: Gauge, "sources", "Advertised sources that wait until their session may be opened.";
        sessions_refused: Total, "sources", "Advertised sources that could not even wait; they are heard of again when they are advertised again.";
        sessions_displaced: Total, "sessions", "Sessions without a sign of life that were closed to make room for others.";
        connects_timed_out: Total, "sessions", "TCP sessions to which no connection was made in time.";
    }
}

counters! {
    /// The queue of events between the thread of a context and the one that dispatches them.
    struct EventQueue("event_queue") {
        events: Total, "events", "Events put into the queue.";
        depth_bytes: Gauge, "bytes", "Bytes in the queue when the last event was put in.";
        depth_bytes_max: Gauge, "bytes", "Most bytes there were.";
        waits_for_room: Total, "events", "Events for which the context's thread had to wait, because the queue was full.";
        events_dropped: Total, "events", "Events dropped because the context was stopped, or nobody dispatches any more.";
    }
}
