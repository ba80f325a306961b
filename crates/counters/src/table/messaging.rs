use crate::counters;

counters! {
    /// The sockets of one messaging context.
    struct MessagingContext("messaging") {
        datagrams_dropped_by_kernel: Gauge, "datagrams", "Datagrams that the kernel dropped because the socket's buffer was full, as it last said.";
        unknown_datagrams: Total, "datagrams", "Datagrams of sessions that nobody here has subscribed to, or of none.";
        sends_blocked: Total, "calls", "Sends refused because too much waits for the rate limit or the socket.";
        sends_failed: Total, "calls", "System calls that could not send.";
        joins_failed: Total, "calls", "Groups or connections that could not be opened.";
    }
}
