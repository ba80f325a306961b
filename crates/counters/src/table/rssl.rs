use crate::counters;

counters! {
    /// All RSSL connections of one listener or one client.
    struct RsslConnections("rssl") {
        accepted: Total, "connections", "Connections whose handshake was completed.";
    }
}
