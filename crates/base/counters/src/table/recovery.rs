use crate::counters;

counters! {
    /// Messages retained by a context's sources, and the requests for them.
    struct LbmRetention("lbm_retention") {
        retained_msgs: Gauge, "messages", "Messages and fragments that can be sent again.";
        retained_bytes: Gauge, "bytes", "Bytes of those messages with their headers.";
        msgs_retained: Total, "messages", "Messages and fragments taken into retention.";
        msgs_not_retained: Total, "messages", "Messages longer than the whole retention of their topic.";
        dropped_size: Total, "messages", "Dropped because newer ones needed their bytes.";
        dropped_count: Total, "messages", "Dropped because of the bound on their number.";
        dropped_age: Total, "messages", "Dropped because they were too old.";
        clients: Gauge, "connections", "Connections that may ask.";
        clients_refused: Total, "connections", "Connections not taken because of the bound on them.";
        info_requests_rcved: Total, "requests", "Questions which messages are retained.";
        requests_rcved: Total, "requests", "Requests for a message.";
        requests_unavailable: Total, "requests", "Requests for messages that are not retained.";
        requests_refused: Total, "requests", "Requests dropped because too many of the connection waited.";
        msgs_ignored: Total, "messages", "Messages of connections that are no request.";
        rxs_sent: Total, "messages", "Messages and fragments sent again.";
        rx_bytes_sent: Total, "bytes", "Bytes of those with their headers.";
    }
}

counters! {
    /// Late join and off-transport recovery of the topics of one transport session.
    struct LbmRecovery("lbm_recovery") {
        topics: Gauge, "topics", "Topics watched over.";
        topics_recovering: Gauge, "topics", "Topics that wait for messages asked for.";
        info_requests_sent: Total, "requests", "Questions which messages are retained, repeated ones included.";
        requests_sent: Total, "requests", "Requests for a message, the first for each.";
        requests_repeated: Total, "requests", "Requests sent again because no answer came.";
        connections_failed: Total, "connections", "Connections to request ports that were refused, or broke while something was asked for.";
        rxs_rcved: Total, "messages", "Messages and fragments received that were asked for.";
        rxs_unexpected: Total, "messages", "Messages and answers received that nobody waits for.";
        late_join_msgs: Total, "messages", "Whole messages delivered that were sent before the topic was joined.";
        otr_msgs: Total, "messages", "Whole messages delivered that the transport had given up.";
        duplicates: Total, "messages", "Live messages left out because they come by request, or came.";
        before_start: Total, "messages", "Fragments left out whose message begins before what is retained.";
        msgs_held: Total, "messages", "Live messages held until what precedes them has come.";
        msgs_not_held: Total, "messages", "Live messages left out for want of room, to be asked for later.";
        hold_bytes: Gauge, "bytes", "Bytes of live messages held now.";
        hold_bytes_max: Gauge, "bytes", "Most bytes of live messages held at once.";
        unavailable: Total, "messages", "Numbers lost: no longer retained by the source.";
        given_up: Total, "messages", "Numbers lost: no answer within the time, or the connection is gone.";
        lost_events: Total, "events", "Loss events delivered.";
        msgs_lost: Total, "messages", "Topic numbers in those events.";
        fragments_unrecoverably_lost: Total, "fragments", "Fragments whose message cannot be completed.";
    }
}

counters! {
    /// Hot failover: one stream made of the streams of several sources.
    struct HotFailover("hot_failover") {
        msgs_rcved: Total, "messages", "Messages of all sources.";
        msgs_delivered: Total, "messages", "Messages delivered: the first copies.";
        duplicates: Total, "messages", "Later copies, and numbers that were reported lost before.";
        msgs_without_number: Total, "messages", "Messages left out because they carry no number.";
        msgs_refused: Total, "messages", "Messages left out because their number is too far from the others.";
        sources: Gauge, "sources", "Sources heard now.";
        sources_refused: Total, "sources", "Sources not taken because of the bound on them.";
        msgs_held: Total, "messages", "Messages held because a number before them may still come.";
        held_now: Gauge, "messages", "Messages held now.";
        hold_bytes: Gauge, "bytes", "Bytes of messages held now.";
        hold_bytes_max: Gauge, "bytes", "Most bytes of messages held at once.";
        numbers_not_sent: Total, "messages", "Numbers that no source has used.";
        lost_events: Total, "events", "Loss events delivered.";
        numbers_lost: Total, "messages", "Numbers in those events.";
        gaps_timed_out: Total, "gaps", "Gaps that were waited for until the time was over.";
        gaps_bound: Total, "gaps", "Gaps given up because too much was held.";
    }
}
