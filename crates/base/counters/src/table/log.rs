use crate::counters;

counters! {
    /// The log of a daemon.
    struct Log("log") {
        lines_written: Total, "lines", "Lines written to standard error or to the file.";
        lines_lost: Total, "lines", "Lines lost: the queue was full, or they could not be written.";
        lines_suppressed: Total, "lines", "Lines left out because the same place in the program had logged too many (log.repeats_max).";
        reloads: Total, "reloads", "SIGHUPs that put a configuration in force.";
        reload_failures: Total, "reloads", "SIGHUPs whose configuration or file cannot be used; what was in force stays.";
    }
}
