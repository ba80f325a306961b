use crate::counters;

counters! {
    /// The sending side of one LBT-RM transport session.
    struct LbtrmSource("lbtrm_source") {
        msgs_sent: Total, "datagrams", "DATA datagrams sent for the first time.";
        bytes_sent: Total, "bytes", "UDP payload bytes of those datagrams.";
        lbm_msgs_sent: Total, "messages", "LBMC messages and fragments put into datagrams.";
        fragments_sent: Total, "fragments", "Fragments of messages too long for one datagram.";
        txw_msgs: Gauge, "datagrams", "Datagrams in the transmission window.";
        txw_bytes: Gauge, "bytes", "UDP payload bytes in the transmission window.";
        nak_pckts_rcved: Total, "packets", "NAK packets received for this session.";
        naks_rcved: Total, "naks", "Numbers in those packets.";
        naks_ignored: Total, "naks", "Numbers NAKed within the ignore interval of their retransmission.";
        naks_shed: Total, "naks", "Numbers not retransmitted because limit and queue were full.";
        naks_crybaby: Total, "naks", "Numbers passed over: beyond the asker's share while others ask.";
        nak_senders_evicted: Total, "receivers", "Addresses of NAKs forgotten because of others.";
        naks_refused: Total, "naks", "Numbers not retransmitted because retransmission is turned off.";
        naks_rx_delay_ignored: Total, "naks", "Numbers that wait for the retransmission rate limit.";
        naks_outside_window: Total, "naks", "Numbers that are older than the window or were never sent.";
        nak_pckts_unauthentic: Total, "packets", "Packets at the NAK port without a right keyed code.";
        nak_pckts_dropped: Total, "packets", "Packets at the NAK port that are no NAK for this session.";
        rxs_sent: Total, "datagrams", "Retransmissions sent.";
        rx_bytes_sent: Total, "bytes", "UDP payload bytes of retransmissions.";
        rctlr_data_msgs: Gauge, "datagrams", "Datagrams queued behind the data rate limit or the driver.";
        rctlr_rx_msgs: Gauge, "datagrams", "Retransmissions queued behind the retransmission rate limit.";
        rate_bits_per_second: Gauge, "bits/s", "Data rate that congestion control allows; 0 without it.";
        rate_lowered: Total, "times", "Data rate lowered because of congestion.";
        round_trip: Gauge, "ns", "Smoothed time from a session message to the report on it.";
        reports_rcved: Total, "packets", "Reports of receivers for congestion control.";
        reports_passed_over: Total, "packets", "Reports of receivers that do not govern the rate.";
        receivers_too_slow: Total, "receivers", "Receivers left to their losses at the lowest rate.";
        ncfs_sent: Total, "ncfs", "Numbers in NAK confirmations sent.";
        ncfs_dropped: Total, "ncfs", "NAK confirmations not sent because too many were waiting.";
        sms_sent: Total, "packets", "Session messages sent.";
        tsni_sent: Total, "records", "Topic numbers announced.";
        send_would_block: Total, "calls", "Sends refused because the backlog or the window was full.";
    }
}

counters! {
    /// The receiving side of one LBT-RM transport session.
    struct LbtrmReceiver("lbtrm_receiver") {
        msgs_rcved: Total, "datagrams", "DATA datagrams accepted: first copies, original or retransmitted.";
        bytes_rcved: Total, "bytes", "UDP payload bytes of those datagrams.";
        nak_pckts_sent: Total, "packets", "NAK packets sent.";
        naks_sent: Total, "naks", "Numbers in those packets.";
        reports_sent: Total, "packets", "Reports sent for congestion control.";
        queries_answered: Total, "packets", "Answers sent to a source that waits for receivers.";
        lost: Total, "datagrams", "Datagrams found missing; most are recovered later.";
        recovered: Total, "datagrams", "Missing datagrams that arrived by retransmission.";
        out_of_order: Total, "datagrams", "Missing datagrams whose original arrived late.";
        ncfs_ignored: Total, "ncfs", "Numbers confirmed as retransmitted a moment ago.";
        ncfs_shed: Total, "ncfs", "Numbers confirmed as shed.";
        ncfs_rx_delay: Total, "ncfs", "Numbers confirmed as waiting for the retransmission rate limit.";
        ncfs_do_not_retry: Total, "ncfs", "Numbers confirmed as never to be retransmitted.";
        ncfs_unknown: Total, "ncfs", "Numbers confirmed for a reason that is not known.";
        nak_stm_min: Gauge, "ns", "Shortest time from detection to repair; 0 before the first.";
        nak_stm_mean: Gauge, "ns", "Exponentially weighted mean time from detection to repair.";
        nak_stm_max: Gauge, "ns", "Longest time from detection to repair.";
        nak_tx_min: Gauge, "naks", "Fewest NAKs it took to repair a loss.";
        nak_tx_mean_thousandths: Gauge, "naks/1000", "Exponentially weighted mean of NAKs a repair took.";
        nak_tx_max: Gauge, "naks", "Most NAKs it took to repair a loss.";
        duplicate_data: Total, "datagrams", "Datagrams that had arrived or been given up before.";
        before_start: Total, "datagrams", "Datagrams from before this receiver's first one, or of a run of the source that is over.";
        unrecovered_txw: Total, "datagrams", "Given up: older than the source's window.";
        unrecovered_tmo: Total, "datagrams", "Given up: the NAK generation interval ran out.";
        unrecovered_ncf: Total, "datagrams", "Given up: the source will not retransmit.";
        unrecovered_bound: Total, "datagrams", "Given up: a bound on gaps, numbers or held data was reached.";
        unrecovered_end: Total, "datagrams", "Given up: the session ended.";
        missing: Gauge, "datagrams", "Datagrams missing now.";
        sms_rcved: Total, "packets", "Session messages received.";
        dgrams_unauthentic: Total, "packets", "Dropped: without a keyed code, or with a wrong one.";
        dgrams_undeciphered: Total, "packets", "Dropped: encrypted with a key that is not known or not right, changed, or replayed.";
        dgrams_not_encrypted: Total, "packets", "Dropped: not encrypted, though there are keys.";
        dgrams_no_payload_key: Total, "packets", "Encrypted, and there are no keys: their numbers were taken, and nothing was delivered.";
        dgrams_dropped_size: Total, "packets", "Dropped: shorter than their headers or counts say.";
        dgrams_dropped_type: Total, "packets", "Dropped: type not known, or not sent by sources.";
        dgrams_dropped_version: Total, "packets", "Dropped: version not known.";
        dgrams_dropped_hdr: Total, "packets", "Dropped: LBMC messages malformed, or option headers.";
        dgrams_dropped_other: Total, "packets", "Dropped: another session, numbers that contradict or jump.";
    }
}

counters! {
    /// The two networks, A and B, that carry the LBT-RM sessions of one context.
    struct LbtrmNetworks("lbtrm_networks") {
        a_dgrams_rcved: Total, "packets", "Packets of sessions with two networks that came on network A.";
        b_dgrams_rcved: Total, "packets", "The same on network B.";
        a_first_copies: Total, "datagrams", "DATA datagrams of which network A brought the first copy.";
        b_first_copies: Total, "datagrams", "The same on network B.";
        second_copies: Total, "datagrams", "DATA datagrams that had come on either network, or been given up, before.";
        a_gaps_filled: Total, "datagrams", "Missing datagrams, as network B had shown, whose original came on network A.";
        b_gaps_filled: Total, "datagrams", "Missing datagrams, as network A had shown, whose original came on network B.";
        a_feedback_sent: Total, "packets", "NAKs and reports sent on network A.";
        b_feedback_sent: Total, "packets", "The same on network B.";
        a_silent: Gauge, "sessions", "Sessions that are heard on network B and not on network A.";
        b_silent: Gauge, "sessions", "Sessions that are heard on network A and not on network B.";
        a_silences: Total, "times", "Times that a session fell silent on network A.";
        b_silences: Total, "times", "The same on network B.";
        a_copies_dropped: Total, "datagrams", "Datagrams sent on network B alone: the socket of network A failed or took no more.";
        b_copies_dropped: Total, "datagrams", "Datagrams sent on network A alone, likewise.";
        connections_moved: Total, "connections", "Connections of the application that were tried on the other network before they stood.";
        answers_moved: Total, "connections", "Connections for answers that went on on the other network.";
        recoveries_moved: Total, "connections", "Connections for late join and recovery that went on on the other network.";
    }
}

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

counters! {
    /// The sending side of TCP sessions.
    struct LbttcpSource("lbttcp_source") {
        num_clients: Gauge, "connections", "Receivers connected.";
        bytes_buffered: Gauge, "bytes", "Bytes that wait for the slowest receiver.";
        clients_refused: Total, "connections", "Receivers refused because there were too many, in all or of one address, or on an error.";
        clients_not_allowed: Total, "connections", "Connections from networks that are not allowed.";
        accepts_failed: Total, "calls", "Connections that the system refused to accept, for want of descriptors or memory; they wait.";
        handshakes_open: Gauge, "connections", "Connections whose TLS handshake is under way.";
        handshakes_timed_out: Total, "connections", "Connections closed because their TLS handshake took too long.";
        handshakes_displaced: Total, "connections", "Connections closed in their TLS handshake because too many others were in theirs.";
        receivers_stopped: Total, "receivers", "Receivers that were passed over because they took nothing while the session waited for them.";
        clients_lost: Total, "connections", "Receivers that have gone.";
        certificate_failures: Total, "connections", "Connections with which TLS was not agreed on: a certificate was missing or not acceptable.";
        lbm_msgs_passed_over: Total, "messages", "LBMC messages that a slow receiver was not sent.";
    }
}

counters! {
    /// The receiving side of TCP sessions.
    struct LbttcpReceiver("lbttcp_receiver") {
        bytes_rcved: Total, "bytes", "Bytes received.";
        sessions_broken: Total, "sessions", "Connections that failed or broke without the end of the session.";
        certificate_failures: Total, "sessions", "Those of them where TLS was not agreed on: a certificate was missing or not acceptable.";
        sessions_malformed: Total, "sessions", "Connections closed because of bytes that are no LBMC messages.";
        queries_answered: Total, "queries", "Answers sent to sources that wait for receivers.";
    }
}
