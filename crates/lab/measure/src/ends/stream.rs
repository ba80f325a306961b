//! Messages in one direction.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use net::clock;
use serde_json::{Value, json};
use units::Nanos;

use super::play::{LOOK_EVERY, answer, next, seconds};
use super::{End, Failure, Link, play};
use crate::{Observed, Observer, Schedule, stamp};

/// Sends at the rate of each command, or as fast as it can.
pub(crate) fn send<L: Link>(end: &End, links: &mut [L], commands: &Receiver<Value>) -> Result<(), Failure> {
    let mut message = vec![0; end.size];
    while let Some(command) = next(links, commands)? {
        let (span, start) = (seconds(&command)?, clock::monotonic());
        let sent = match (command["rate"].as_f64(), &mut *links) {
            (Some(rate), links) => {
                let is_timed = command["is_timed"].as_bool().unwrap_or(true);
                paced(links, &mut message, rate, span, is_timed)?
            }
            (None, [link]) => flat_out(link, &mut message, span)?,
            (None, links) => return Err(format!("{} links need a rate", links.len()).into()),
        };
        answer(&json!({ "sent": sent, "start_ns": start.0 }));
    }
    Ok(())
}

fn flat_out<L: Link>(link: &mut L, message: &mut [u8], span: Duration) -> Result<u64, Failure> {
    let end = clock::monotonic().after(span);
    let mut sent = 0u64;
    // A clock costs as much as a message in shared memory.
    while !sent.is_multiple_of(256) || clock::monotonic() < end {
        stamp(message, UNTIMED, sent);
        play::send(link, message)?;
        sent += 1;
        if sent.is_multiple_of(L::BURST) {
            link.turn()?;
        }
    }
    link.turn()?;
    Ok(sent)
}

/// The time in a message whose latency is not wanted.
const UNTIMED: Nanos = Nanos(0);

/// Each link gets its turn; the messages of each are numbered by themselves.
fn paced<L: Link>(
    links: &mut [L],
    message: &mut [u8],
    rate: f64,
    span: Duration,
    is_timed: bool,
) -> Result<u64, Failure> {
    let (count, width) = ((rate * span.as_secs_f64()) as u64, links.len() as u64);
    let mut schedule = Schedule::new(clock::monotonic().after(Duration::from_millis(10)), rate);
    while schedule.sent() < count {
        let now = clock::monotonic();
        for _ in 0..L::BURST.min(count - schedule.sent()) {
            let number = schedule.sent();
            let Some(intended) = schedule.take_due(now) else { break };
            stamp(message, if is_timed { intended } else { UNTIMED }, number / width);
            play::send(&mut links[(number % width) as usize], message)?;
        }
        links.iter_mut().try_for_each(L::turn)?;
    }
    Ok(count)
}

/// Nothing has come for so long: no more will.
const QUIET: Duration = Duration::from_secs(2);

/// What has come of a run.
struct Taking {
    observers: Vec<Observer>,
    /// When the last of it had come.
    last: Nanos,
    was_empty: bool,
    /// How many there are, once that is known.
    sent: Option<u64>,
    /// Since when.
    told: Nanos,
}

impl Taking {
    fn new(links: usize) -> Taking {
        let observers = vec![Observer::default(); links];
        Taking { observers, last: Nanos(0), was_empty: true, sent: None, told: Nanos(0) }
    }

    fn take<L: Link>(&mut self, links: &mut [L]) -> Result<(), Failure> {
        let mut count = 0;
        for (link, observer) in links.iter_mut().zip(&mut self.observers) {
            count += link.receive(|message| {
                let is_timed = message.first_chunk().is_some_and(|intended| *intended != [0; 8]);
                if is_timed { observer.time(message, clock::monotonic()) } else { observer.count(message) }
            })?;
            link.turn_beside_receive()?;
        }
        if count == 0 && !self.was_empty {
            self.last = clock::monotonic();
        }
        self.was_empty = count == 0;
        Ok(())
    }

    fn is_over(&self) -> bool {
        let settled = || self.observers.iter().map(Observer::settled).sum::<u64>();
        self.was_empty
            && self.sent.is_some_and(|sent| {
                settled() >= sent || clock::monotonic() > self.last.max(self.told).after(QUIET)
            })
    }

    fn report(&self) -> Value {
        let mut all = Observer::default();
        self.observers.iter().for_each(|observer| all.merge(observer));
        report(&all.observed(), self.last)
    }
}

/// Takes the messages of one run after the other.
pub(crate) fn receive<L: Link>(links: &mut [L], commands: &Receiver<Value>) -> Result<(), Failure> {
    let (mut taking, mut turns) = (Taking::new(links.len()), 0u32);
    loop {
        taking.take(links)?;
        turns = turns.wrapping_add(1);
        if !turns.is_multiple_of(LOOK_EVERY) {
            continue;
        }
        match commands.try_recv() {
            Ok(command) => {
                taking.sent = command["sent"].as_u64();
                taking.told = clock::monotonic();
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {}
        }
        if taking.is_over() {
            answer(&taking.report());
            taking = Taking::new(links.len());
        }
    }
}

/// What a receiver answers: what it has observed, and when the last of it had come.
#[must_use]
pub fn report(observed: &Observed, last: Nanos) -> Value {
    let mut report = json!(observed);
    report["last_ns"] = json!(last.0);
    report
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::observing::Observing;
    use super::*;

    /// A link to itself.
    #[derive(Default)]
    struct Loop {
        messages: VecDeque<Vec<u8>>,
    }

    impl Link for Loop {
        fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
            self.messages.push_back(message.to_vec());
            Ok(true)
        }

        fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
            let count = self.messages.len();
            self.messages.drain(..).for_each(|message| handle(&message));
            Ok(count)
        }
    }

    const SPAN: Duration = Duration::from_millis(2);

    #[test]
    fn several_links_take_turns_and_each_is_observed_by_itself() {
        let mut links = [Loop::default(), Loop::default(), Loop::default()];
        let sent = paced(&mut links, &mut [0; 64], 50_000.0, SPAN, true).expect("a loop breaks never");
        assert_eq!(sent, 100);
        assert_eq!(links.each_ref().map(|link| link.messages.len()), [34, 33, 33]);
        let mut taking = Taking::new(3);
        taking.take(&mut links).expect("a loop breaks never");
        taking.sent = Some(sent);
        assert!(!taking.is_over(), "something has just come");
        taking.take(&mut links).expect("a loop breaks never");
        assert!(taking.is_over());
        let report = taking.report();
        let number = |key: &str| report[key].as_u64().expect(key);
        assert_eq!((number("received"), number("missing"), number("disordered")), (100, 0, 0));
        assert_eq!(report["latencies"]["count"], 100);
    }

    #[test]
    fn messages_without_a_time_are_counted_and_not_timed() {
        let mut links = [Loop::default()];
        let sent = flat_out(&mut links[0], &mut [0; 16], SPAN).expect("a loop breaks never");
        let mut taking = Taking::new(1);
        taking.take(&mut links).expect("a loop breaks never");
        assert!(sent > 0 && sent.is_multiple_of(256));
        assert_eq!(taking.observers[0].settled(), sent);
        assert_eq!(taking.report()["latencies"]["count"], 0);
    }

    /// One queue with two ends.
    #[derive(Clone, Default)]
    struct Shared(std::rc::Rc<std::cell::RefCell<Loop>>, u64);

    impl Link for Shared {
        fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
            // Every third attempt finds no room.
            self.1 += 1;
            if self.1.is_multiple_of(3) { Ok(false) } else { self.0.borrow_mut().send(message) }
        }

        fn receive(&mut self, handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
            self.0.borrow_mut().receive(handle)
        }
    }

    #[test]
    fn files_of_observations_agree_with_what_the_ends_say() {
        let folder = testkit::Folder::new();
        let observe =
            super::super::Observe { folder: folder.to_owned(), name: "run-1".to_owned(), capacity: 10_000 };
        let words = |role: &str| {
            let text =
                format!("{role} --path udp --size 64 --datagram 1472 --mode x --port 4000 --pairs 1 --cpu 1");
            End::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).expect("all words are there")
        };
        let mut one = Shared::default();
        let mut other = one.clone();
        let mut near =
            Observing::links(&words("stream"), &observe, std::slice::from_mut(&mut one)).expect("memory");
        let mut far =
            Observing::links(&words("receiver"), &observe, std::slice::from_mut(&mut other)).expect("memory");
        let sent = paced(&mut near, &mut [0; 64], 500_000.0, SPAN, true).expect("a loop breaks never");
        let mut taking = Taking::new(1);
        taking.take(&mut far).expect("a loop breaks never");
        near[0].write().and_then(|()| far[0].write()).expect("a writable place");
        let (report, files) = (taking.report(), [false, true].map(|is_far| observe.file(is_far, 0)));
        let analysis = crate::analysis::analyse(&files, &crate::analysis::Options::default(), |_| ());
        let analysis = analysis.expect("files as they were written");
        let found = &analysis.pairs[0];
        assert_eq!((&*found.from, &*found.to), ("sender", "receiver"));
        assert_eq!(
            (found.sent, found.matched, found.lost),
            (sent, report["received"].as_u64().expect("a number"), 0)
        );
        assert_eq!((found.duplicates_from, found.duplicates_to, found.reordered), (0, 0, 0));
        // Each message was sent after its intended time, and taken down at the receiver before it was timed. The table keeps
        // three digits.
        let latency = found.latency.as_ref().expect("one host");
        let mean = report["latencies"]["mean_ns"].as_f64().expect("a number");
        let off = found.error_ns.expect("one host") as f64;
        assert!(
            latency.mean_ns > 0.0 && latency.mean_ns <= mean * 1.001 + off + 1.0,
            "{} {mean}",
            latency.mean_ns
        );
    }
}
