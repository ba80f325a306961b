//! A month of virtual time for the timers of LBT-RU: session messages, acknowledgements, connecting again.

use crate::bench::{Bench, MS, address};
use crate::payloads;
use crate::support::Event;
use std::time::Duration;
use tickcast_lbt::delivery::EndReason;
use units::Nanos;

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn a_connection_that_says_little_for_a_month_stands_and_repairs_in_time_and_then_ends_at_both_ends() {
    let mut b = Bench::new(|c| {
        c.session.sm_maximum_interval = Duration::from_secs(10);
        c.client_activity_timeout = Duration::from_secs(60);
    });
    b.add_receiver(|c| {
        c.acknowledgement_interval = Duration::from_secs(10);
        c.session.activity_timeout = Duration::from_secs(60);
    });
    b.run(MS, |_, _| true);
    assert_eq!(b.source.clients().count(), 1);
    let mut sent = 0u32;
    for day in 0..30u32 {
        for at in [Duration::from_secs(1), DAY / 2, DAY - Duration::from_secs(1)] {
            let next = Nanos::ZERO + DAY * day + at;
            b.run(next.since(b.now), |_, _| true);
            b.sent.clear();
            // One in the middle is lost, or the last.
            for lost in [false, true, sent.is_multiple_of(2), true] {
                b.publish(&sent.to_be_bytes());
                b.pass(|_, _| !lost);
                sent += 1;
            }
            b.run(MS * 900, |_, _| true);
            let events = b.ends[0].log.take();
            assert_eq!(payloads(&events), (sent - 4..sent).collect::<Vec<_>>(), "day {day}: {events:?}");
            assert!(
                !events.iter().any(|e| matches!(e, Event::Lost { .. } | Event::End { .. })),
                "{events:?}"
            );
        }
    }
    assert_eq!(b.source.clients().map(|client| client.address).collect::<Vec<_>>(), [address(0)]);
    // Nothing passes any more.
    let end = b.now + Duration::from_secs(61);
    let mut receiver = b.ends.remove(0);
    b.run(Duration::from_secs(61), |_, _| false);
    assert_eq!(b.source.clients().count(), 0);
    while receiver.receiver.next_wakeup() <= end {
        let now = receiver.receiver.next_wakeup();
        receiver.receiver.on_wakeup(now, &mut receiver.log);
        while receiver.receiver.poll_transmit(now).is_some() {}
    }
    let is_end = |e: &Event| matches!(e, Event::End { reason: EndReason::TimedOut, .. });
    assert!(receiver.log.take().iter().any(is_end));
}
