//! The sending side, by its public interface: what it puts into which datagram, when, and what it answers
//! to NAKs.

use counters::table::LbtrmSource;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tickcast_lbt::config::SourceConfig;
use tickcast_lbt::rm::{SendError, Source, TopicId};
use tickcast_lbt::wire::lbmc::{self, Chain, Header, Kind, Message, Messages};
use tickcast_lbt::wire::lbtrm::{Data, Nak, NcfReason, Packet, SessionHeader};
use units::{Nanos, Sqn};

const SESSION: SessionHeader = SessionHeader { ucast_port: 14391, session_id: 0x5eed_1234 };
const NAKER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 29, 3, 21), 45_241);
const MS: Duration = Duration::from_millis(1);

struct Bench {
    source: Source,
    counters: Arc<LbtrmSource>,
    now: Nanos,
}

impl Bench {
    fn new(change: impl FnOnce(&mut SourceConfig)) -> Bench {
        let mut config = SourceConfig {
            data_rate_limit: 0,
            transmission_window_size: 1 << 20,
            maximum_message_size: 1 << 19,
            ..SourceConfig::default()
        };
        change(&mut config);
        let counters = Arc::new(LbtrmSource::default());
        let source = Source::new(&config, SESSION, Nanos::ZERO, counters.clone()).expect("allowed");
        Bench { source, counters, now: Nanos::ZERO }
    }

    fn topic(&mut self, index: u32) -> TopicId {
        self.source.add_topic(self.now, index)
    }

    fn send(&mut self, topic: TopicId, payload: &[u8]) -> Sqn {
        self.source.send(self.now, topic, &[payload]).expect("room")
    }

    /// Sends everything that is ready, datagram by datagram.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(transmit) = self.source.poll_transmit(self.now) {
            let count = transmit.count;
            out.extend(transmit.datagrams().map(<[u8]>::to_vec));
            self.source.sent(self.now, count);
        }
        out
    }

    fn flushed(&mut self) -> Vec<Vec<u8>> {
        self.source.flush();
        self.drain()
    }

    fn nak(&mut self, numbers: &[u32]) {
        let mut out = Vec::new();
        let numbers: Vec<_> = numbers.iter().map(|&n| Sqn(n)).collect();
        Nak::emit(SESSION, &numbers, &mut out);
        self.source.on_datagram(self.now, NAKER, &out).expect("a NAK");
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.source.on_wakeup(self.now);
    }

    /// `count` datagrams of one message each, sent.
    fn send_datagrams(&mut self, topic: TopicId, count: u32) -> Vec<Vec<u8>> {
        (0..count)
            .flat_map(|i| {
                self.send(topic, &i.to_be_bytes());
                self.flushed()
            })
            .collect()
    }
}

fn data(datagram: &[u8]) -> Data<'_> {
    match Packet::parse(datagram) {
        Ok(Packet::Data(data)) => data,
        other => panic!("not DATA: {other:?}"),
    }
}

fn messages(datagram: &[u8]) -> Vec<Message<'_>> {
    Messages::new(data(datagram).messages).map(|m| m.expect("well-formed")).collect()
}

#[test]
fn messages_of_several_topics_share_a_datagram_and_count_from_zero_each() {
    let mut b = Bench::new(|_| {});
    let (one, two) = (b.topic(7), b.topic(9));
    assert_eq!(b.send(one, b"a"), Sqn(0));
    assert_eq!(b.send(two, b"bb"), Sqn(0));
    assert_eq!(b.source.send(b.now, one, &[b"c", b"", b"cc"]), Ok(Sqn(1)));
    assert!(b.drain().is_empty(), "an open datagram waits for the flush");
    let sent = b.flushed();
    assert_eq!(sent.len(), 1);
    let found: Vec<_> = messages(&sent[0]).iter().map(|m| (m.topic_index, m.sqn.0, m.data())).collect();
    assert_eq!(found, [(7, 0, &b"a"[..]), (9, 0, b"bb"), (7, 1, b"ccc")]);
    assert_eq!(b.counters.msgs_sent.get(), 1);
    assert_eq!(b.counters.bytes_sent.get(), sent[0].len() as u64);
    assert_eq!(b.counters.lbm_msgs_sent.get(), 3);
}

#[test]
fn a_datagram_goes_out_before_the_message_that_does_not_fit() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    for _ in 0..20 {
        b.send(topic, &[7; 64]);
    }
    let sent = b.drain();
    assert_eq!(sent.len(), 1, "nineteen fit, the twentieth opened the next");
    assert_eq!(sent[0].len(), 20 + 19 * 76);
    assert_eq!(messages(&b.flushed()[0]).len(), 1);
}

#[test]
fn a_message_of_exactly_the_room_left_fits_and_one_byte_more_does_not() {
    for (len, datagrams) in [(1440, 1), (1441, 2)] {
        let mut b = Bench::new(|_| {});
        let topic = b.topic(1);
        b.send(topic, &vec![1; len]);
        assert_eq!(b.flushed().len(), datagrams, "{len}");
    }
}

#[test]
fn what_is_sent_meanwhile_leaves_a_datagram_that_is_full_to_the_last_byte_alone() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send(topic, b"first");
    b.send(topic, &[1; 1440]);
    assert_eq!(messages(&b.drain()[0]).len(), 1, "the second has closed the first's");
    b.send(topic, b"third");
    let sent: Vec<_> = b
        .flushed()
        .iter()
        .flat_map(|d| messages(d)[..].iter().map(|m| m.sqn.0).collect::<Vec<_>>())
        .collect();
    assert_eq!(sent, [1, 2]);
}

#[test]
fn the_batch_length_closes_a_datagram_with_the_message_that_reaches_it() {
    let mut b = Bench::new(|c| c.implicit_batching_minimum_length = 200);
    let topic = b.topic(1);
    b.send(topic, &[1; 100]);
    assert!(b.drain().is_empty());
    b.send(topic, &[2; 100]);
    assert_eq!(b.drain().len(), 1);
    let mut b = Bench::new(|c| c.implicit_batching_minimum_length = 1);
    let topic = b.topic(1);
    b.send(topic, b"x");
    assert_eq!(b.drain().len(), 1, "batching is off");
}

#[test]
fn the_batch_interval_closes_a_datagram_when_its_oldest_message_has_waited() {
    let mut b = Bench::new(|c| c.implicit_batching_interval = MS);
    let topic = b.topic(1);
    b.send(topic, b"x");
    let due = b.now + MS;
    assert_eq!(b.source.next_wakeup(), due);
    b.advance(MS / 2);
    b.send(topic, b"y");
    assert_eq!(b.source.next_wakeup(), due, "the oldest counts");
    b.advance(MS / 2);
    assert_eq!(messages(&b.drain()[0]).len(), 2);
}

#[test]
fn an_explicit_batch_is_closed_by_a_full_datagram_or_a_flush_and_by_nothing_else() {
    let mut b = Bench::new(|c| {
        c.implicit_batching_minimum_length = 1;
        c.implicit_batching_interval = MS;
    });
    let (topic, silent) = (b.topic(1), b.topic(2));
    b.send(silent, b"once");
    assert_eq!(b.drain().len(), 1, "implicit batching is off");
    b.source.hold(true);
    b.send(topic, &[1; 100]);
    for _ in 0..10_000 {
        b.advance(MS);
    }
    let sent = b.drain();
    assert!(!sent.is_empty() && sent.iter().all(|d| !matches!(Packet::parse(d), Ok(Packet::Data(_)))));
    assert_eq!(b.counters.tsni_sent.get(), 0, "a silent topic of the session waits");
    for _ in 0..11 {
        b.send(topic, &[1; 100]);
    }
    assert!(b.drain().is_empty());
    b.send(topic, &[1; 100]);
    assert_eq!(b.drain().len(), 1, "twelve fit");
    assert_eq!(messages(&b.flushed()[0]).len(), 1);
    b.send(topic, b"x");
    b.source.hold(false);
    assert!(b.source.next_wakeup() <= b.now + MS, "what is left is subject to the timer again");
    b.advance(MS);
    assert!(messages(&b.drain()[0]).iter().any(|m| m.data() == b"x"));
    b.send(topic, b"y");
    assert_eq!(messages(&b.drain()[0])[0].data(), b"y");
}

#[test]
fn equal_datagrams_are_handed_out_as_one_run_that_may_be_sent_in_part() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    for _ in 0..19 * 100 + 5 {
        b.send(topic, &[7; 64]);
    }
    b.source.flush();
    let run = b.source.poll_transmit(b.now).expect("ready");
    assert_eq!((run.segment_len, run.count), (1464, 44), "as many as 65,507 bytes hold");
    assert_eq!(run.bytes.len(), 1464 * 44);
    b.source.sent(b.now, 10);
    let run = b.source.poll_transmit(b.now).expect("the rest");
    assert_eq!(data(run.bytes).sqn, Sqn(10));
    let rest = b.drain();
    assert_eq!(rest.len(), 91);
    assert_eq!(rest[90].len(), 20 + 5 * 76, "the last of a run may be shorter");
    let numbers: Vec<_> = rest.iter().map(|d| data(d).sqn.0).collect();
    assert_eq!(numbers, (10..101).collect::<Vec<_>>());
}

#[test]
fn what_was_not_sent_is_handed_out_again() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send(topic, b"x");
    b.source.flush();
    let first = b.source.poll_transmit(b.now).expect("ready").bytes.to_vec();
    b.source.sent(b.now, 0);
    assert_eq!(b.source.poll_transmit(b.now).expect("ready").bytes, first);
    assert_eq!(b.counters.msgs_sent.get(), 0);
}

#[test]
fn a_long_message_is_cut_into_fragments_with_a_number_each() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send(topic, b"before");
    let whole: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
    let (head, tail) = whole.split_at(1);
    assert_eq!(b.source.send(b.now, topic, &[head, tail]), Ok(Sqn(3)), "the last fragment's");
    assert_eq!(b.send(topic, b"after"), Sqn(4));
    let sent = b.flushed();
    assert_eq!(sent.len(), 4);
    let mut joined = Vec::new();
    for (i, datagram) in sent[1..].iter().enumerate() {
        let message = messages(datagram)[0];
        assert_eq!(message.sqn, Sqn(1 + i as u32));
        assert_eq!(message.headers.frag(), Some((Sqn(1), joined.len() as u32, 3000)));
        joined.extend_from_slice(message.data());
    }
    assert_eq!(joined, whole);
    assert_eq!(messages(&sent[3])[1].data(), b"after", "the last fragment's datagram is filled up");
    assert_eq!(b.counters.fragments_sent.get(), 3);
}

#[test]
fn headers_travel_with_a_message_or_with_its_first_fragment() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    let request =
        Header::Request { flags: 0, transport: 0, index: 77, port: 14391, ip: [10, 0, 0, 1].into() };
    let mut chain = Chain::default();
    chain.push(&request);
    b.source.send_with(b.now, topic, &chain, &[b"ask"]).expect("room");
    b.source.send_with(b.now, topic, &chain, &[&[1; 2000]]).expect("room");
    let sent = b.flushed();
    let whole = messages(&sent[0])[0];
    assert_eq!((whole.headers.iter().collect::<Vec<_>>(), whole.data()), (vec![request], &b"ask"[..]));
    let first = messages(&sent[1])[0];
    assert_eq!(first.headers.iter().nth(1), Some(request));
    let second = messages(&sent[2])[0];
    assert_eq!(second.headers.iter().count(), 1);
    assert_eq!(first.data().len() + second.data().len(), 2000);
}

#[test]
fn a_claim_is_written_in_place_and_leaves_nothing_if_it_is_dropped() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.source.claim(b.now, topic, 4).expect("room").payload().fill(9);
    let mut claim = b.source.claim(b.now, topic, 2).expect("room");
    claim.payload().copy_from_slice(b"ok");
    assert_eq!(claim.commit(), Sqn(0));
    let sent = b.flushed();
    assert_eq!(messages(&sent[0]).iter().map(|m| m.data()).collect::<Vec<_>>(), [b"ok"]);
    let max = b.source.claim_max();
    let refused = b.source.claim(b.now, topic, max + 1).map(drop);
    assert_eq!(refused, Err(SendError::TooLong { bytes: 1441, max: 1440 }));
}

#[test]
fn sends_are_refused_whole_while_the_backlog_is_full() {
    let mut b = Bench::new(|c| c.transport_session_maximum_buffer = 10_000);
    let topic = b.topic(1);
    let mut taken = 0;
    while b.source.send(b.now, topic, &[&[1; 1000]]).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 10, "each alone in its datagram of 1,032 bytes");
    assert_eq!(b.source.send(b.now, topic, &[&[1; 5000]]), Err(SendError::WouldBlock));
    assert_eq!(b.source.claim(b.now, topic, 10).map(drop), Err(SendError::WouldBlock));
    assert_eq!(b.source.next_sqn(topic), Some(Sqn(taken)), "nothing of them was taken");
    assert_eq!((b.counters.send_would_block.get(), b.source.is_blocked()), (3, true));
    assert_eq!(b.drain().len(), taken as usize);
    assert!(!b.source.is_blocked());
    assert_eq!(b.send(topic, b"again"), Sqn(taken));
}

#[test]
fn a_message_of_the_largest_size_passes_an_empty_backlog_and_a_longer_one_never() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    let largest = vec![5; 1 << 19];
    for _ in 0..5 {
        b.source.send(b.now, topic, &[&largest]).expect("the backlog is empty");
        let total: usize = b
            .flushed()
            .iter()
            .flat_map(|d| messages(d).iter().map(|m| m.data().len()).collect::<Vec<_>>())
            .sum();
        assert_eq!(total, 1 << 19);
    }
    let refused = SendError::TooLong { bytes: (1 << 19) + 1, max: 1 << 19 };
    assert_eq!(b.source.send(b.now, topic, &[&largest, b"x"]), Err(refused));
}

#[test]
fn the_data_rate_limit_holds_over_any_stretch_and_tells_when_to_go_on() {
    let mut b = Bench::new(|c| {
        c.data_rate_limit = 8_000_000;
        c.retransmit_rate_limit = 1_000_000;
    });
    let topic = b.topic(1);
    let mut bytes = 0;
    while b.now < Nanos::ZERO + MS * 1000 {
        while b.source.send(b.now, topic, &[&[1; 100]]).is_ok() {}
        bytes += b.drain().iter().map(Vec::len).sum::<usize>();
        assert!(bytes as u64 <= 2 * 1472 + b.now.0 / 1000, "a megabyte a second and two datagrams at once");
        let next = b.source.next_wakeup();
        assert!(next > b.now, "nothing more can go out now");
        b.now = next;
    }
    assert!(bytes > 995_000, "the rate is used: {bytes}");
    assert!(b.counters.rctlr_data_msgs.get() > 100);
}

#[test]
fn session_messages_come_from_the_begin_on_and_say_that_nothing_was_sent() {
    let mut b = Bench::new(|_| {});
    b.topic(1);
    let mut sent_ms = Vec::new();
    while sent_ms.len() < 10 {
        b.now = b.source.next_wakeup();
        b.source.on_wakeup(b.now);
        for datagram in b.drain() {
            let Ok(Packet::SessionMessage(sm)) = Packet::parse(&datagram) else { panic!("not an SM") };
            assert_eq!((sm.lead_sqn, sm.trail_sqn), (Sqn(u32::MAX), Sqn(0)), "the window is empty");
            sent_ms.push((b.now - Nanos::ZERO).as_millis());
        }
    }
    assert_eq!(sent_ms, [10, 30, 70, 150, 310, 630, 1270, 2270, 3270, 4270]);
}

#[test]
fn a_session_that_has_sent_nothing_says_that_it_ends() {
    let mut b = Bench::new(|_| {});
    b.topic(1);
    b.source.end(b.now);
    let sent = b.drain();
    assert_eq!((data(&sent[0]).sqn, messages(&sent[0])[0].kind), (Sqn(0), Kind::EndOfTransport));
    assert!(b.source.has_ended());
}

#[test]
fn session_messages_come_after_silence() {
    let mut b = Bench::new(|c| c.transport_topic_sequence_number_info_interval = MS * 10_000);
    let topic = b.topic(1);
    b.send_datagrams(topic, 3);
    let start = b.now;
    let mut sent_ms = Vec::new();
    while b.now < start + MS * 700 {
        b.now = b.source.next_wakeup();
        b.source.on_wakeup(b.now);
        for datagram in b.drain() {
            let Ok(Packet::SessionMessage(sm)) = Packet::parse(&datagram) else { panic!("not an SM") };
            assert_eq!((sm.lead_sqn, sm.trail_sqn, sm.sm_sqn), (Sqn(2), Sqn(0), sent_ms.len() as u32));
            sent_ms.push((b.now - start).as_millis());
        }
    }
    assert_eq!(sent_ms, [10, 30, 70, 150, 310, 630, 1270][..sent_ms.len()]);
    assert_eq!(b.counters.sms_sent.get(), sent_ms.len() as u64);
}

#[test]
fn a_silent_topic_is_announced_in_a_datagram_that_is_numbered_like_data() {
    let mut b = Bench::new(|_| {});
    let (one, two) = (b.topic(7), b.topic(9));
    b.topic(11);
    b.send(one, b"x");
    b.send(two, b"y");
    b.send(two, b"z");
    b.flushed();
    b.advance(MS * 1000);
    let sent = b.drain();
    let message = messages(&sent[0])[0];
    let Some(Header::Tsni { records, .. }) = message.headers.iter().next() else { panic!("{message:?}") };
    assert_eq!(records.iter().collect::<Vec<_>>(), [(7, Sqn(0)), (9, Sqn(1))]);
    assert_eq!(data(&sent[0]).sqn, Sqn(1));
    assert_eq!(b.counters.tsni_sent.get(), 2);
}

#[test]
fn the_end_of_a_session_announces_its_topics_and_refuses_further_messages() {
    let mut b = Bench::new(|_| {});
    let topics: Vec<_> = (0..40).map(|i| b.topic(i)).collect();
    topics.iter().for_each(|&t| {
        b.send(t, b"x");
    });
    b.source.end(b.now);
    assert!(!b.source.has_ended(), "not yet sent");
    let sent = b.drain();
    let kinds: Vec<_> = sent[1..].iter().flat_map(|d| messages(d)).map(|m| m.kind).collect();
    assert_eq!(kinds, [Kind::Control, Kind::Control, Kind::EndOfTransport]);
    assert_eq!(b.counters.tsni_sent.get(), 40);
    assert!(b.source.has_ended());
    assert_eq!(b.source.send(b.now, topics[0], &[b"late"]), Err(SendError::Ended));
    b.nak(&[0]);
    assert_eq!(b.drain().len(), 1, "the tail is still retransmitted");
}

#[test]
fn a_session_ends_even_if_the_backlog_is_full_when_it_is_told_to() {
    let mut b = Bench::new(|c| c.transport_session_maximum_buffer = 1_000);
    let topic = b.topic(1);
    while b.source.send(b.now, topic, &[&[1; 1000]]).is_ok() {}
    b.source.end(b.now);
    let before = b.drain().len();
    b.advance(MS);
    let last = b.drain();
    assert_eq!(messages(&last[0]).last().map(|m| m.kind), Some(Kind::EndOfTransport), "{before}");
    assert!(b.source.has_ended());
}

#[test]
fn a_retransmission_repeats_the_payload_with_flag_and_present_trailing_edge() {
    let mut b = Bench::new(|c| {
        c.transmission_window_size = 64 << 10;
        c.maximum_message_size = 16_000;
        c.transport_session_maximum_buffer = 10_000;
    });
    let topic = b.topic(1);
    let sent: Vec<_> = (0..100)
        .flat_map(|_| {
            b.send(topic, &[3; 1400]);
            b.flushed()
        })
        .collect();
    b.nak(&[0, 98, 99, 100]);
    let again = b.drain();
    assert_eq!(again.len(), 2, "0 left the window, 100 was never sent");
    let (first, original) = (data(&again[0]), data(&sent[98]));
    assert_eq!((first.sqn, first.messages), (original.sqn, original.messages));
    assert_eq!((original.flags, first.flags), (0x80, 0xA0));
    assert!(original.trail_sqn.precedes(Sqn(98)) && !first.trail_sqn.precedes(original.trail_sqn));
    assert_eq!(b.counters.naks_outside_window.get(), 2);
    assert_eq!((b.counters.rxs_sent.get(), b.counters.naks_rcved.get()), (2, 4));
    let bytes: usize = again.iter().map(Vec::len).sum();
    assert_eq!(b.counters.rx_bytes_sent.get(), bytes as u64);
}

#[test]
fn consecutive_retransmissions_are_one_run_and_go_before_new_data() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send_datagrams(topic, 10);
    b.send(topic, b"new");
    b.source.flush();
    b.nak(&[2, 3, 4, 7]);
    let run = b.source.poll_transmit(b.now).expect("ready");
    assert_eq!((run.count, data(run.bytes).sqn), (3, Sqn(2)));
    let numbers: Vec<_> = b.drain().iter().map(|d| data(d).sqn.0).collect();
    assert_eq!(numbers, [2, 3, 4, 7, 10]);
}

/// The numbers of the confirmations in `datagrams`, by reason.
fn ncfs(datagrams: &[Vec<u8>]) -> Vec<(NcfReason, Vec<u32>)> {
    let parsed = datagrams.iter().filter_map(|d| match Packet::parse(d) {
        Ok(Packet::Ncf(ncf)) => Some((ncf.reason, ncf.numbers.iter().map(|n| n.0).collect())),
        _ => None,
    });
    parsed.collect()
}

#[test]
fn within_the_ignore_interval_the_first_nak_is_confirmed_and_the_rest_are_dropped() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send_datagrams(topic, 3);
    b.nak(&[1]);
    assert_eq!(b.drain().len(), 1);
    b.now += MS * 2;
    b.nak(&[1]);
    b.nak(&[1]);
    let answers = b.drain();
    assert_eq!(ncfs(&answers), [(NcfReason::Ignored, vec![1])]);
    assert_eq!(answers.len(), 1, "no retransmission");
    assert_eq!(b.counters.naks_ignored.get(), 2);
    b.now += MS * 3;
    b.nak(&[1]);
    assert_eq!(data(&b.drain()[0]).sqn, Sqn(1), "the interval is over");
    assert_eq!(b.counters.ncfs_sent.get(), 1);
}

#[test]
fn without_retransmission_naks_are_told_not_to_retry_once_an_interval() {
    let mut b = Bench::new(|c| c.retransmit_rate_limit = 0);
    let topic = b.topic(1);
    b.send_datagrams(topic, 3);
    b.nak(&[0, 1]);
    b.nak(&[0, 1]);
    let answers = b.drain();
    assert_eq!(ncfs(&answers), [(NcfReason::DoNotRetry, vec![0, 1])]);
    assert_eq!((b.counters.naks_refused.get(), b.counters.rxs_sent.get()), (4, 0));
}

#[test]
fn confirmations_beyond_what_may_wait_are_dropped_and_counted() {
    let mut b = Bench::new(|c| c.retransmit_rate_limit = 0);
    let topic = b.topic(1);
    b.send_datagrams(topic, 5_000);
    b.nak(&(0..5_000).collect::<Vec<_>>());
    let confirmed: usize = ncfs(&b.drain()).iter().map(|(_, numbers)| numbers.len()).sum();
    assert_eq!((confirmed, b.counters.ncfs_dropped.get()), (4_096, 904));
}

#[test]
fn many_silent_topics_are_announced_over_several_wakeups() {
    let mut b = Bench::new(|_| {});
    for index in 0..2_000 {
        let topic = b.topic(index);
        b.send(topic, b"x");
        b.drain();
    }
    b.flushed();
    b.advance(MS * 1000);
    assert_eq!(b.counters.tsni_sent.get(), 16 * 31, "so many a wake-up");
    assert!(b.source.next_wakeup() <= b.now, "and there is more");
    while b.source.next_wakeup() <= b.now {
        b.advance(Duration::ZERO);
        b.drain();
    }
    assert_eq!(b.counters.tsni_sent.get(), 2_000);
}

#[test]
fn beyond_the_retransmission_rate_naks_are_delayed_and_beyond_the_queue_shed() {
    let mut b = Bench::new(|c| {
        c.retransmit_rate_limit = 800_000;
        c.retransmit_queue_maximum = 4;
    });
    let topic = b.topic(1);
    for _ in 0..10 {
        b.send(topic, &[1; 1440]);
        b.flushed();
    }
    b.nak(&[0, 1, 2, 3, 4, 5]);
    let answers = b.drain();
    let expected = [(NcfReason::RetransmitDelay, vec![2, 3]), (NcfReason::Shed, vec![4, 5])];
    assert_eq!(ncfs(&answers), expected);
    let resent = |answers: &[Vec<u8>]| {
        answers.iter().filter(|d| matches!(Packet::parse(d), Ok(Packet::Data(_)))).count()
    };
    assert_eq!(resent(&answers), 2, "two datagrams are what the bucket holds");
    assert_eq!((b.counters.naks_rx_delay_ignored.get(), b.counters.naks_shed.get()), (2, 2));
    assert_eq!(b.counters.rctlr_rx_msgs.get(), 2);
    b.nak(&[2]);
    assert!(b.drain().is_empty(), "it is queued, and the group was told");
    // 1,472 bytes at 100,000 bytes a second
    b.now += Duration::from_nanos(14_720_000);
    assert_eq!(data(&b.drain()[0]).sqn, Sqn(2), "oldest request first");
    assert_eq!(b.counters.rctlr_rx_msgs.get(), 1);
}

#[test]
fn retransmissions_count_into_the_data_rate() {
    let mut b = Bench::new(|c| {
        c.data_rate_limit = 8_000_000;
        c.retransmit_rate_limit = 7_000_000;
        c.rate_interval = MS;
    });
    let topic = b.topic(1);
    b.send(topic, &[1; 1440]);
    b.flushed();
    b.now += MS * 100;
    b.nak(&[0]);
    assert_eq!(b.drain().len(), 1);
    b.send(topic, &[2; 1440]);
    b.send(topic, &[3; 1440]);
    assert_eq!(b.flushed().len(), 1, "one of the two datagrams that the bucket held is spent");
}

#[test]
fn packets_that_are_no_nak_of_this_session_are_counted_and_dropped() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    let sent = b.send_datagrams(topic, 2);
    let mut other = Vec::new();
    Nak::emit(SessionHeader { session_id: 1, ..SESSION }, &[Sqn(0)], &mut other);
    assert!(b.source.on_datagram(b.now, NAKER, &other).is_err());
    assert!(b.source.on_datagram(b.now, NAKER, b"\x03").is_err());
    assert!(b.source.on_datagram(b.now, NAKER, &sent[0]).is_ok(), "well-formed, and not for a source");
    assert!(b.drain().is_empty());
    assert_eq!((b.counters.nak_pckts_dropped.get(), b.counters.nak_pckts_rcved.get()), (3, 0));
}

#[test]
fn numbers_pass_the_wrap() {
    let config = SourceConfig { data_rate_limit: 0, ..SourceConfig::default() };
    let counters = Arc::new(LbtrmSource::default());
    let first = Sqn(u32::MAX - 1);
    let source =
        Source::starting_at(&config, SESSION, first, Nanos::ZERO, counters.clone()).expect("allowed");
    let mut b = Bench { source, counters, now: Nanos::ZERO };
    let topic = b.source.add_topic_at(b.now, 1, Sqn(u32::MAX));
    let sent = b.send_datagrams(topic, 4);
    let numbers: Vec<_> = sent.iter().map(|d| (data(d).sqn.0, messages(d)[0].sqn.0)).collect();
    assert_eq!(numbers, [(u32::MAX - 1, u32::MAX), (u32::MAX, 0), (0, 1), (1, 2)]);
    b.nak(&[u32::MAX, 0]);
    let again: Vec<_> = b.drain().iter().map(|d| data(d).sqn.0).collect();
    assert_eq!(again, [u32::MAX, 0]);
}

#[test]
fn a_removed_topic_takes_no_more_messages() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.source.remove_topic(topic);
    assert_eq!(b.source.send(b.now, topic, &[b"x"]), Err(SendError::UnknownTopic));
    assert_eq!(b.source.claim(b.now, topic, 1).map(drop), Err(SendError::UnknownTopic));
}

#[test]
fn memory_is_what_was_configured_and_does_not_grow_with_traffic() {
    let mut b = Bench::new(|_| {});
    let topic = b.topic(1);
    b.send_datagrams(topic, 10);
    let before = b.source.memory_bytes();
    assert!(before < (1 << 20) + (1 << 19), "{before}");
    for _ in 0..10_000 {
        b.send(topic, &[1; 300]);
        b.drain();
    }
    assert_eq!(b.source.memory_bytes(), before);
    assert!(b.counters.txw_bytes.get() <= 1 << 20);
    assert!(b.counters.txw_msgs.get() > 700);
}

#[test]
fn the_memory_of_topics_counts() {
    let mut b = Bench::new(|_| {});
    let before = b.source.memory_bytes();
    for index in 0..1_000 {
        b.topic(index);
    }
    let each = (b.source.memory_bytes() - before) / 1_000;
    assert!((16..200).contains(&each), "{each}");
}

#[test]
fn every_datagram_is_well_formed_to_its_last_byte() {
    let mut b = Bench::new(|_| {});
    let (one, two) = (b.topic(7), b.topic(9));
    for i in 0..500usize {
        let topic = if i % 3 == 0 { one } else { two };
        b.source.send(b.now, topic, &[&vec![i as u8; (i * 37) % 4000]]).expect("room");
        for datagram in b.drain() {
            assert!(lbmc::check(data(&datagram).messages).is_ok());
        }
    }
}
