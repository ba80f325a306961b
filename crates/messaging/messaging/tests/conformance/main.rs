//! One suite over all transports: what an application may rely on whatever carries its messages.
//!
//! Every case is a function of the transport; real sockets on the loopback interface, no namespaces, no
//! rights.

mod cases;
mod closing;
#[path = "../common/mod.rs"]
mod common;
mod failover;
mod late_join;
mod party;
mod receivers;
mod requests;
mod topics;

use party::{World, certified, encrypted};
use tickcast_messaging::Transport;

/// Runs the cases over each transport, each run a test of its own.
macro_rules! conformance {
    (transports { $( $transport:ident = $choice:expr ),+ $(,)? } cases $cases:tt) => {
        $( conformance!(@one $transport = $choice; $cases); )+
    };
    (@one $transport:ident = $choice:expr; { $( $case:path as $name:ident ),+ $(,)? }) => {
        mod $transport {
            use super::*;
            $(
                #[test]
                fn $name() {
                    $case(&World::new($choice));
                }
            )+
        }
    };
}

conformance! {
    transports {
        lbtrm = Transport::LbtRm,
        tcp = Transport::Tcp,
        tcp_with_certificates = certified(Transport::Tcp),
        lbtipc = Transport::LbtIpc,
        lbtru = Transport::LbtRu,
        lbtrm_encrypted = encrypted(Transport::LbtRm),
        lbtru_encrypted = encrypted(Transport::LbtRu),
    }
    cases {
    cases::sizes as messages_of_any_size_arrive_in_order_whole_and_once,
    cases::huge as a_message_of_64_mib_arrives_whole,
    cases::too_long as a_message_above_the_limit_is_refused_with_the_limit,
    cases::late as a_late_receiver_begins_with_the_next_message,
    cases::two_sources as two_sources_of_a_topic_are_two_streams_each_in_order,
    cases::several_contexts as every_receiving_context_gets_everything,
    cases::several_receivers as receivers_of_one_topic_in_one_context_are_each_told_everything,
    cases::ends as the_end_of_a_source_is_told_and_a_new_one_is_found,
    cases::dies as a_source_that_dies_leaves_its_streams_with_a_tail_that_nobody_knows,
    cases::blocks as a_full_session_refuses_loses_nothing_and_wakes_the_source,
    cases::claims as a_claim_is_a_message_when_committed_and_nothing_when_dropped,
    cases::batches as an_explicit_batch_is_marked_at_both_ends,
    cases::held as an_explicit_batch_is_held_until_its_end_or_a_full_datagram,
    cases::arrival as order_of_arrival_delivers_the_same_where_nothing_is_lost,
    cases::deleted_source as a_deleted_source_sends_no_more,
    receivers::first_message as who_waits_for_receivers_loses_no_message_to_them,
    receivers::nobody as waiting_for_receivers_that_do_not_come_is_no_error,
    receivers::come_and_go as receivers_that_come_and_go_are_counted,
    receivers::embedded as a_thread_waits_for_receivers_of_a_context_that_another_drives,
    closing::dropped as what_was_sent_arrives_or_is_told_lost_when_the_context_is_dropped_at_once,
    closing::busy as a_receiver_that_is_busy_while_its_source_closes_gets_everything_or_is_told,
    closing::backlog as closing_sends_what_waits_for_the_rate_limit,
    closing::without_linger as what_a_context_that_is_closed_without_linger_gives_up_is_told_at_both_ends,
    closing::deleted_without_linger as what_a_deleted_source_gives_up_is_told_at_both_ends,
    closing::deleted as what_a_source_sent_before_it_was_deleted_arrives_or_is_told_lost,
    closing::drained as draining_waits_until_everything_has_left,
    closing::waiting as a_send_that_waits_goes_on_when_there_is_room,
    closing::stopped as what_went_through_the_rings_arrives_when_the_thread_is_stopped_at_once,
    topics::prefix as a_prefix_receiver_hears_every_topic_that_begins_so,
    topics::pattern as a_pattern_receiver_hears_every_topic_in_which_it_is_found,
    topics::thousands as thousands_of_topics_share_a_session,
    topics::unsubscribe as a_deleted_receiver_hears_no_more_and_others_go_on,
    topics::uninteresting as topics_that_nobody_wants_are_not_delivered,
    requests::answered as a_request_is_answered_any_number_of_times,
    requests::cancelled as a_cancelled_request_is_answered_in_vain,
    requests::peer_gone as a_request_ends_when_the_one_who_answered_is_gone,
    failover::first_copies as of_two_sources_with_hot_failover_the_first_copy_of_each_message_is_heard,
    failover::killed as a_source_killed_at_any_moment_leaves_no_gap_and_nothing_twice_to_hot_failover,
    failover::lossy as what_one_source_lost_comes_from_the_other_and_what_both_lost_is_told_once,
    failover::late as a_source_that_comes_late_or_ends_does_not_disturb_hot_failover,
    failover::bound as a_hot_failover_receiver_hears_no_more_sources_than_it_may,
    }
}

conformance! {
    transports {
        lbtrm_retained = Transport::LbtRm,
        lbtru_retained = Transport::LbtRu,
        lbtrm_encrypted_retained = encrypted(certified(Transport::LbtRm)),
        lbtru_encrypted_retained = encrypted(certified(Transport::LbtRu)),
    }
    cases {
    late_join::beyond_the_transport as what_the_transport_gave_up_is_recovered_from_the_source,
    }
}

conformance! {
    transports {
        tcp_source_paced = Transport::Tcp,
        tcp_source_paced_with_certificates = certified(Transport::Tcp),
        lbtipc_source_paced = Transport::LbtIpc,
    }
    cases {
    late_join::passed_over as what_a_receiver_was_passed_over_with_is_recovered_from_the_source,
    }
}

conformance! {
    transports {
        lbtrm_late_join = Transport::LbtRm,
        lbtru_late_join = Transport::LbtRu,
        lbtru_late_join_with_certificates = certified(Transport::LbtRu),
        lbtrm_encrypted_late_join = encrypted(certified(Transport::LbtRm)),
        lbtru_encrypted_late_join = encrypted(certified(Transport::LbtRu)),
        tcp_late_join = Transport::Tcp,
        lbtipc_late_join = Transport::LbtIpc,
    }
    cases {
    late_join::everything as a_late_joiner_gets_everything_retained_and_then_the_live_stream_once_in_order,
    late_join::bound as a_late_joiner_begins_with_the_oldest_message_retained,
    late_join::unwanted as who_wants_no_late_join_begins_with_the_next_message,
    late_join::source_dies as when_the_source_dies_a_late_joiner_is_told_what_it_lost_and_of_the_end,
    late_join::idle as a_connection_that_nothing_is_asked_over_is_closed,
    late_join::ends_silent as a_late_joiner_is_told_where_a_session_ends_that_was_silent,
    }
}
