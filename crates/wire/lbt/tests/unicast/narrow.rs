//! Congestion control of LBT-RU, with a link that takes less than the source would send.

use crate::bench::{Bench, SOURCE, address};
use crate::pcap::{self, Capture};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;
use tickcast_lbt::config::{CongestionControl, LbtruSourceConfig};
use units::Nanos;

const STEP: Duration = Duration::from_micros(50);
/// 80 Mbit/s.
const LINK_BYTES_PER_STEP: usize = 500;
const QUEUE_BYTES: usize = 100_000;
const DELAY: Duration = Duration::from_millis(1);

/// All clients behind one link with a queue that drops what it cannot hold.
struct Narrow {
    b: Bench,
    queue: VecDeque<(SocketAddrV4, Vec<u8>)>,
    queued: usize,
    credit: usize,
    down: VecDeque<(Nanos, SocketAddrV4, Vec<u8>)>,
    up: VecDeque<(Nanos, SocketAddrV4, Vec<u8>)>,
    passed: u64,
    dropped: u64,
    capture: Capture,
}

impl Narrow {
    fn new(clients: usize, control: CongestionControl) -> Narrow {
        let mut b = Bench::new(|c: &mut LbtruSourceConfig| {
            c.session.data_rate_limit = 400_000_000;
            c.session.retransmit_rate_limit = 80_000_000;
            c.session.congestion_control = control;
            c.session.transmission_window_size = 8 << 20;
        });
        b.add_receivers(clients);
        let (queue, down, up) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let capture = Capture::new();
        Narrow { b, queue, queued: 0, credit: 0, down, up, passed: 0, dropped: 0, capture }
    }

    fn run(&mut self, span: Duration) {
        let end = self.b.now + span;
        while self.b.now < end {
            self.step();
            self.b.now += STEP;
        }
    }

    fn step(&mut self) {
        let now = self.b.now;
        while self.up.front().is_some_and(|u| u.0 <= now) {
            let (_, from, datagram) = self.up.pop_front().expect("looked at before");
            let _ = self.b.source.on_datagram(now, from, &datagram);
        }
        while self.b.source.send(now, self.b.topic, &[&[7; 1_200]]).is_ok() {}
        self.b.source.flush();
        self.b.source.on_wakeup(now);
        for (to, datagram) in self.b.drained() {
            self.capture.udp(now, SOURCE, to, &datagram);
            if self.queued + datagram.len() > QUEUE_BYTES {
                self.dropped += 1;
            } else {
                self.queued += datagram.len();
                self.queue.push_back((to, datagram));
            }
        }
        self.credit = (self.credit + LINK_BYTES_PER_STEP).min(2_000);
        while self.queue.front().is_some_and(|(_, d)| d.len() <= self.credit) {
            let (to, datagram) = self.queue.pop_front().expect("looked at before");
            self.credit -= datagram.len();
            self.queued -= datagram.len();
            self.passed += datagram.len() as u64;
            self.down.push_back((now + DELAY, to, datagram));
        }
        while self.down.front().is_some_and(|d| d.0 <= now) {
            let (_, to, datagram) = self.down.pop_front().expect("looked at before");
            for end in self.b.ends.iter_mut().filter(|e| e.address == to) {
                let _ = end.receiver.on_datagram(now, SOURCE, &datagram, &mut end.log);
            }
        }
        for end in &mut self.b.ends {
            end.receiver.on_wakeup(now, &mut end.log);
            while let Some(feedback) = end.receiver.poll_transmit(now) {
                self.capture.udp(now, end.address, SOURCE, feedback.datagram);
                self.up.push_back((now + DELAY, end.address, feedback.datagram.to_vec()));
            }
        }
    }
}

#[test]
fn congestion_control_finds_the_rate_of_a_narrow_link() {
    for clients in [1, 3] {
        let maximum_round_trip = Duration::ZERO;
        let minimum_rate = 1_000_000;
        let mut link = Narrow::new(clients, CongestionControl::Adaptive { minimum_rate, maximum_round_trip });
        link.run(Duration::from_secs(3));
        let passed = link.passed;
        link.run(Duration::from_secs(2));
        let used = (link.passed - passed) as f64 / (2.0 * 10_000_000.0);
        let sent = link.b.counters.session.msgs_sent.get() + link.b.counters.session.rxs_sent.get();
        assert!(used > 0.85, "{clients} clients use {used:.3} of the link");
        assert!(link.dropped * 20 < sent, "{} of {sent} datagrams were dropped", link.dropped);
        for end in &link.b.ends {
            let c = &end.counters.session;
            assert_eq!(c.unrecovered_tmo.get() + c.unrecovered_txw.get(), 0);
            assert!(!end.receiver.has_ended());
        }
        assert_eq!(link.b.source.clients().count(), clients);
        let c = &link.b.counters.session;
        assert!(c.reports_rcved.get() > 0 && c.rate_lowered.get() > 0, "{c:?}");
        let rate = c.rate_bits_per_second.get() * clients as u64;
        assert!((30_000_000..160_000_000).contains(&rate), "{rate} bit/s for all");
    }
}

#[test]
fn pulses_and_reports_are_what_the_dissectors_expect() {
    let control = CongestionControl::Adaptive { minimum_rate: 1_000_000, maximum_round_trip: Duration::ZERO };
    let mut link = Narrow::new(2, control);
    link.run(Duration::from_millis(1_200));
    let reports = link.b.ends.iter().map(|e| e.counters.session.reports_sent.get()).sum::<u64>();
    assert!(reports > 0 && link.b.counters.session.sms_sent.get() > 2);
    assert!(link.b.source.clients().any(|c| c.address == address(1)));
    let path = link.capture.write("unicast-congestion.pcap");
    pcap::judge(&path, &["--require", "lbtru.SM=3", "--require", "lbtru.NAK=1"]);
}
