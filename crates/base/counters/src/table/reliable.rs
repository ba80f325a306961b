//! What LBT-RM and LBT-RU count alike, each under names of its own.

use crate::counters;

counters! {
    /// The sending side of one LBT-RM transport session; of one of LBT-RU under names that begin with `lbtru_source`.
    struct ReliableSource(LBTRM "lbtrm_source", LBTRU "lbtru_source") {
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
    /// The receiving side of one LBT-RM transport session; of one of LBT-RU under names that begin with `lbtru_receiver`.
    struct ReliableReceiver(LBTRM "lbtrm_receiver", LBTRU "lbtru_receiver") {
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
