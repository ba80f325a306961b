use crate::counters;

counters! {
    /// A thread of a daemon: how much of its time it works. The busy share is `working_ns` of `working_ns + waiting_ns`, as differences between two looks.
    struct Thread("thread") {
        turns: Total, "turns", "Turns of the loop in which something was ready or due.";
        working_ns: Total, "ns", "Time of those turns.";
        waiting_ns: Total, "ns", "Time between them: waiting for sockets and timers, or looking in vain.";
        turns_above_1ms: Total, "turns", "Turns that took more than 1 ms: everything else of the thread waited.";
        turns_above_5ms: Total, "turns", "Turns that took more than 5 ms.";
        turns_above_20ms: Total, "turns", "Turns that took more than 20 ms.";
        longest_turn_ns: Gauge, "ns", "The longest turn so far above 0.1 ms, with the time in which the thread had no CPU.";
    }
}
