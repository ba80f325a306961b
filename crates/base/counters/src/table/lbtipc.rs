use crate::counters;

counters! {
    /// The sending side of one shared-memory transport session.
    struct LbtIpcSource("lbtipc_source") {
        msgs_sent: Total, "messages", "Messages committed to the ring.";
        bytes_sent: Total, "bytes", "Bytes of the ring they took, headers and padding included.";
        num_clients: Gauge, "receivers", "Receivers that the source waits for, or wakes.";
        clients_joined: Total, "receivers", "Receivers that took a slot.";
        clients_left: Total, "receivers", "Receivers that gave their slot back, or died.";
        clients_died: Total, "receivers", "Receivers found dead.";
        clients_dropped: Total, "receivers", "Receivers dropped because they had stopped while the source waited for them.";
        send_would_block: Total, "calls", "Claims refused because a receiver had not read what would be overwritten.";
        wakes_sent: Total, "receivers", "Receivers woken.";
        wakes_failed: Total, "receivers", "Receivers that are there and could not be woken: the source may not write to their socket, say.";
        segments_skipped: Total, "segments", "Segments left out because a dropped receiver might have looked at them.";
    }
}

counters! {
    /// The receiving side of one shared-memory transport session.
    struct LbtIpcReceiver("lbtipc_receiver") {
        msgs_rcved: Total, "messages", "Messages handed out.";
        bytes_rcved: Total, "bytes", "Bytes of the ring they took, headers and padding included.";
        lapped: Total, "events", "Times the source has overtaken the receiver.";
        msgs_missed: Total, "messages", "Messages missed thereby, where the number is known.";
        bytes_missed: Total, "bytes", "Bytes of the ring missed thereby, headers and padding included.";
        dropped: Total, "events", "1 when the source has dropped the receiver.";
        bells_lost: Total, "sockets", "Sockets by which the source wakes the receiver whose names somebody has removed; they were made anew.";
        nonsense: Total, "events", "1 when the ring held what no source writes.";
    }
}
