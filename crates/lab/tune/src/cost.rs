//! What settings cost on this machine, each measured within a second. The machine is left as it was.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::time::Duration;

use measure::{Jitter, Latencies};
use net::{CpusAwake, affinity, clock, pages};
use rustix::net::sockopt;
use rustix::thread::set_current_timer_slack;

use crate::finding::{Cost, Finding};

/// What was measured, by the topic's name; or why it was not.
pub type Costs = BTreeMap<&'static str, Result<Cost, String>>;

type Measurement = fn() -> io::Result<Cost>;

const MEASUREMENTS: [(&str, Measurement); 7] = [
    ("c-states", awake),
    ("realtime", realtime),
    ("timer-slack", slack),
    ("thp", huge_pages),
    ("rmem_max", burst),
    ("clock-source", clock_reading),
    ("isolcpus", jitter),
];

/// Measures them all, in some three seconds, and puts each beside its finding. `progress` is told what is measured.
pub fn measure_costs(findings: &mut [Finding], mut progress: impl FnMut(&str)) {
    let costs: Costs = MEASUREMENTS
        .iter()
        .map(|(name, measure)| {
            progress(name);
            (*name, measure().map_err(|error| error.to_string()))
        })
        .collect();
    for finding in findings {
        finding.cost = costs.get(finding.name).cloned();
    }
}

/// Wake-ups of one kind and of the other, in turns, so that what the machine does meanwhile meets both.
const TURNS: usize = 4;
const WAKE_UPS: usize = 60;
/// Long enough for the CPU to fall asleep.
const PAUSE: Duration = Duration::from_millis(2);

/// Median time from a send to the moment when a thread that blocks for it runs, microseconds: as it is, and with `tuned` in
/// the thread that blocks.
fn wake_ups<T>(tuned: impl Fn() -> io::Result<T> + Sync) -> io::Result<(f64, f64)> {
    let mut medians = [Latencies::default(), Latencies::default()];
    for turn in 0..2 * TURNS {
        let is_tuned = turn % 2 == 1;
        let receiver = UdpSocket::bind(("127.0.0.1", 0))?;
        // A datagram that is lost ends the measurement, and not the program.
        receiver.set_read_timeout(Some(Duration::from_secs(2)))?;
        let sender = UdpSocket::bind(("127.0.0.1", 0))?;
        sender.connect(receiver.local_addr()?)?;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| -> io::Result<Vec<u64>> {
                let _held = if is_tuned { Some(tuned()?) } else { None };
                let mut took = Vec::with_capacity(WAKE_UPS);
                let mut sent = [0; 8];
                for _ in 0..WAKE_UPS {
                    receiver.recv(&mut sent)?;
                    took.push(clock::monotonic().0.saturating_sub(u64::from_ne_bytes(sent)));
                }
                Ok(took)
            });
            for _ in 0..WAKE_UPS {
                std::thread::sleep(PAUSE);
                sender.send(&clock::monotonic().0.to_ne_bytes())?;
            }
            let took =
                waiter.join().map_err(|_| io::Error::other("the thread that waits has panicked"))??;
            took.into_iter().for_each(|ns| medians[usize::from(is_tuned)].record(ns));
            Ok::<(), io::Error>(())
        })?;
    }
    let [now, tuned] = medians.map(|latencies| latencies.summary().p50_ns as f64 / 1e3);
    Ok((now, tuned))
}

fn awake() -> io::Result<Cost> {
    let (now, tuned) = wake_ups(CpusAwake::hold)?;
    let what = format!(
        "a thread that blocks wakes up, median of {}; then with the CPUs held awake",
        TURNS * WAKE_UPS
    );
    Ok(Cost { what, now, tuned: Some(tuned), unit: "us" })
}

fn realtime() -> io::Result<Cost> {
    let (now, tuned) = wake_ups(|| affinity::set_realtime_priority(1))?;
    let what = format!("a thread that blocks wakes up, median of {}; then with SCHED_FIFO", TURNS * WAKE_UPS);
    Ok(Cost { what, now, tuned: Some(tuned), unit: "us" })
}

const SLEEPS: usize = 100;
const SLEEP: Duration = Duration::from_micros(200);

fn slack() -> io::Result<Cost> {
    // On a thread of its own, with which the slack goes.
    let measure = || -> io::Result<Cost> {
        let mut late = [Latencies::default(), Latencies::default()];
        for turn in 0..2 * TURNS {
            // None is what the thread has begun with.
            set_current_timer_slack(if turn % 2 == 1 { NonZeroU64::new(1) } else { None })?;
            for _ in 0..SLEEPS {
                let from = clock::monotonic();
                std::thread::sleep(SLEEP);
                let took = clock::monotonic().0 - from.0;
                late[turn % 2].record(took.saturating_sub(SLEEP.as_nanos() as u64));
            }
        }
        let [now, tuned] = late.map(|latencies| latencies.summary().p50_ns as f64 / 1e3);
        let what =
            format!("a sleep of 200 us ends late, median of {}; then with a slack of 1 ns", TURNS * SLEEPS);
        Ok(Cost { what, now, tuned: Some(tuned), unit: "us" })
    };
    std::thread::spawn(measure).join().map_err(|_| io::Error::other("the thread that sleeps has panicked"))?
}

const TOUCHED_BYTES: usize = 32 << 20;
const PAGE_BYTES: usize = 4_096;

fn huge_pages() -> io::Result<Cost> {
    let touch = |is_huge: bool| -> io::Result<f64> {
        // Not in memory yet: the kernel hands out zeros when they are touched.
        let mut memory = vec![0_u8; TOUCHED_BYTES];
        pages::prefer_huge(&mut memory, is_huge)?;
        let from = clock::monotonic();
        memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        let took = clock::monotonic().0 - from.0;
        std::hint::black_box(&memory);
        Ok(took as f64 / (TOUCHED_BYTES / PAGE_BYTES) as f64)
    };
    let (now, tuned) = (touch(false)?, touch(true)?);
    let what = "memory is touched for the first time, mean of 4 KiB in 32 MiB; then in huge pages".to_owned();
    Ok(Cost { what, now, tuned: Some(tuned), unit: "ns" })
}

const BURST: usize = 4_000;
const DATAGRAM_BYTES: usize = 1_472;
/// What is asked for: the default of lbtrm.receiver_socket_buffer_bytes.
const BUFFER_BYTES: usize = 8 << 20;

fn burst() -> io::Result<Cost> {
    let lost = |is_forced: bool| -> io::Result<f64> {
        let receiver = UdpSocket::bind(("127.0.0.1", 0))?;
        match is_forced {
            true => sockopt::set_socket_recv_buffer_size_force(&receiver, BUFFER_BYTES)?,
            false => sockopt::set_socket_recv_buffer_size(&receiver, BUFFER_BYTES)?,
        }
        receiver.set_nonblocking(true)?;
        let sender = UdpSocket::bind(("127.0.0.1", 0))?;
        sender.connect(receiver.local_addr()?)?;
        let datagram = [0; DATAGRAM_BYTES];
        for _ in 0..BURST {
            sender.send(&datagram)?;
        }
        let mut room = [0; DATAGRAM_BYTES];
        let came = (0..BURST).take_while(|_| receiver.recv(&mut room).is_ok()).count();
        Ok((BURST - came) as f64 * 100.0 / BURST as f64)
    };
    let now = lost(false)?;
    let what = format!(
        "of a burst of {BURST} datagrams of {DATAGRAM_BYTES} bytes lost before it is read, with the buffer that is granted; \
         then with 8 MiB"
    );
    // Only root may have more than is granted.
    Ok(Cost { what, now, tuned: lost(true).ok(), unit: "%" })
}

const READINGS: u32 = 200_000;

fn clock_reading() -> io::Result<Cost> {
    let from = clock::monotonic();
    (0..READINGS).for_each(|_| {
        std::hint::black_box(clock::monotonic());
    });
    let now = (clock::monotonic().0 - from.0) as f64 / f64::from(READINGS);
    Ok(Cost { what: format!("a reading of the clock, mean of {READINGS}"), now, tuned: None, unit: "ns" })
}

const WATCHED_NS: u64 = 500_000_000;

fn jitter() -> io::Result<Cost> {
    let mut jitter = Jitter::default();
    let mut before = clock::monotonic();
    while jitter.watched_ns < WATCHED_NS {
        let now = clock::monotonic();
        jitter.record(now.0 - before.0);
        before = now;
    }
    let what = format!("the longest time for which a thread that only spins stood still; {jitter}");
    Ok(Cost { what, now: jitter.longest_ns as f64 / 1e3, tuned: None, unit: "us" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_a_topic_and_has_a_figure_or_a_reason() {
        let mut findings = crate::judge(&crate::Facts::read(&crate::Tree::at(std::path::Path::new("/"))));
        let mut told = Vec::new();
        measure_costs(&mut findings, |name| told.push(name.to_owned()));
        for name in &told {
            assert!(crate::topic(name).is_some(), "{name}");
        }
        let costs: Vec<_> = findings.iter().filter_map(|finding| finding.cost.as_ref()).collect();
        assert_eq!(costs.len(), told.len());
        for cost in costs {
            match cost {
                Ok(cost) => assert!(cost.now >= 0.0 && cost.now.is_finite() && !cost.what.is_empty()),
                Err(why) => assert!(!why.is_empty()),
            }
        }
    }
}
