use crate::counters;

counters! {
    /// Delivery of the topics of one transport session.
    struct LbmDelivery("lbm_delivery") {
        lbm_msgs_rcved: Total, "messages", "LBMC messages and fragments of subscribed topics, first copies.";
        lbm_msgs_no_topic_rcved: Total, "messages", "LBMC messages of topics nobody subscribed to.";
        lbm_reqs_rcved: Total, "messages", "Delivered messages that ask for an answer.";
        msgs_delivered: Total, "messages", "Whole messages delivered.";
        bytes_delivered: Total, "bytes", "Payload bytes of those messages.";
        msgs_held: Total, "messages", "Messages held after a gap.";
        before_start: Total, "messages", "Left out: sent, or begun, before the topic was subscribed.";
        duplicates: Total, "messages", "Messages whose number was delivered or lost before.";
        msgs_out_of_reach: Total, "messages", "Messages and announcements not believed, as lost datagrams do not account for the numbers before them: their datagrams are asked for again.";
        lost_events: Total, "events", "Loss events delivered.";
        msgs_lost: Total, "messages", "Topic numbers in those events.";
        fragments_unrecoverably_lost: Total, "fragments", "Fragments whose message cannot be completed.";
        order_map_entries: Gauge, "messages", "Messages held now.";
        order_map_entries_max: Gauge, "messages", "Most messages held at once.";
        hold_bytes: Gauge, "bytes", "Bytes of datagrams held now.";
        hold_bytes_max: Gauge, "bytes", "Most bytes of datagrams held at once.";
        topics: Gauge, "topics", "Topics subscribed.";
    }
}

counters! {
    /// Topic resolution of one context.
    struct LbmrResolver("lbmr_resolver") {
        tr_dgrams_sent: Total, "packets", "Topic resolution datagrams handed out.";
        tr_bytes_sent: Total, "bytes", "UDP payload bytes of those datagrams.";
        tr_dgrams_rcved: Total, "packets", "Topic resolution datagrams received.";
        tr_bytes_rcved: Total, "bytes", "UDP payload bytes of those datagrams.";
        tr_dgrams_dropped_type: Total, "packets", "Datagrams of types that are left alone.";
        tr_dgrams_dropped_malformed: Total, "packets", "Datagrams dropped as malformed.";
        tr_dgrams_unauthentic: Total, "packets", "Datagrams dropped because their keyed code is missing or wrong, or its key is not known.";
        tr_dgrams_stale: Total, "packets", "Datagrams dropped because they were signed too long ago or in the future: replays, or clocks that do not agree.";
        tr_src_topics: Gauge, "topics", "Sources advertised.";
        tr_rcv_topics: Gauge, "topics", "Topics and patterns queried.";
        tr_rcv_unresolved_topics: Gauge, "topics", "Queried topics without a known source.";
        advertisements_sent: Total, "records", "Topic information records sent.";
        queries_sent: Total, "records", "Topic and wildcard queries sent.";
        queries_rcved: Total, "records", "Queries received.";
        queries_answered: Total, "records", "Queries for a topic of ours.";
        patterns_ignored: Total, "records", "Wildcard queries with a pattern that is not understood.";
        patterns_shed: Total, "records", "Wildcard queries not looked at because there were too many.";
        records_rcved: Total, "records", "Topic information records received.";
        records_ignored: Total, "records", "Records of other transports or with names that are not text.";
        records_of_ended: Total, "records", "Records of sessions that had just ended, passed over.";
        sources_known: Gauge, "sources", "Sources in the cache.";
        sources_refused: Total, "sources", "Sources not remembered: the cache was full of others that are wanted.";
        sources_evicted: Total, "sources", "Sources forgotten because others needed the room.";
        topic_sources_evicted: Total, "sources", "Sources forgotten because their topic had too many.";
        sources_expired: Total, "sources", "Sources forgotten because they were not heard of for long.";
        queries_resumed: Total, "records", "Queries begun again because a source was missed.";
        requests_rcved: Total, "packets", "Resolution requests received.";
        requests_deferred: Total, "packets", "Resolution requests that came before an earlier one was done with.";
        keepalives_sent: Total, "packets", "Keep-alives sent to unicast resolvers.";
        keepalives_rcved: Total, "packets", "Keep-alives of unicast resolvers received.";
    }
}

counters! {
    /// The sending side of the sessions of TCP and shared memory.
    struct LbmSource("lbm_source") {
        lbm_msgs_sent: Total, "messages", "LBMC messages and fragments written.";
        bytes_sent: Total, "bytes", "Bytes of those messages, headers included.";
        fragments_sent: Total, "fragments", "Fragments of messages too long for one LBMC message.";
        tsni_sent: Total, "records", "Topic numbers announced.";
        send_would_block: Total, "calls", "Sends refused because there was no room.";
    }
}
