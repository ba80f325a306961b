use crate::counters;

counters! {
    /// A port that accepts connections: what happens to those that never become one, or never log in.
    struct Listener("listener") {
        turned_away: Total, "connections", "Closed unheard: too many connections beyond the limit were being refused already.";
        accept_failures: Total, "calls", "Refusals of the system to give a connection, most likely for want of descriptors.";
        logins_overdue: Total, "connections", "Closed: nobody had logged in in time. They count as closed_application, too.";
    }
}
