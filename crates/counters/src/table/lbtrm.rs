use crate::counters;

counters! {
    /// The sending side of one LBT-RM transport session.
    struct LbtrmSource("lbtrm_source") {
        msgs_sent: Total, "datagrams", "DATA datagrams sent for the first time.";
        bytes_sent: Total, "bytes", "UDP payload bytes of those datagrams.";
    }
}

counters! {
    /// The receiving side of one LBT-RM transport session.
    struct LbtrmReceiver("lbtrm_receiver") {
        msgs_rcved: Total, "datagrams", "DATA datagrams accepted: first copies, original or retransmitted.";
        bytes_rcved: Total, "bytes", "UDP payload bytes of those datagrams.";
    }
}
