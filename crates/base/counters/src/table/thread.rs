use crate::counters;

counters! {
    /// A thread of a daemon: how much of its time it works. The busy share is `working_ns` of `working_ns + waiting_ns`, as differences between two looks.
    struct Thread("thread") {
        turns: Total, "turns", "Turns of the loop in which something was ready or due.";
        working_ns: Total, "ns", "Time of those turns.";
        waiting_ns: Total, "ns", "Time between them: waiting for sockets and timers, or looking in vain.";
    }
}
