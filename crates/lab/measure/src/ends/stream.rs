//! Messages in one direction.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use net::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::Nanos;

use super::play::{LOOK_EVERY, answer, next, seconds};
use super::{End, Failure, Link, play};
use crate::observer::number;
use crate::{Observed, Observer, Schedule, Summary, stamp, stamp_sent};

/// Sends at the rate of each command, or as fast as it can.
pub(crate) fn send<L: Link>(end: &End, links: &mut [L], commands: &Receiver<Value>) -> Result<(), Failure> {
    let mut message = vec![0; end.size];
    while let Some(command) = next(links, commands)? {
        let (span, now) = (seconds(&command)?, clock::monotonic());
        let mut back = Back::new(end.reflect);
        let (sent, unsent, start) = match (command["rate"].as_f64(), &mut *links) {
            (Some(rate), links) => {
                let is_timed = command["is_timed"].as_bool().unwrap_or(true);
                let gives_up = command["gives_up_ms"].as_u64().map(Duration::from_millis);
                paced(links, &mut message, &Paced { rate, span, is_timed, gives_up }, &mut back)?
            }
            (None, [link]) => (flat_out(link, &mut message, span)?, 0, now),
            (None, links) => return Err(format!("{} links need a rate", links.len()).into()),
        };
        let mut report = sent_report(sent, unsent, start);
        if back.percent > 0 {
            let expected = sent * u64::from(back.percent) / 100;
            links.iter_mut().try_for_each(|link| back.await_rest(link, expected))?;
            report["reflected"] = json!(back.reflected(expected));
        }
        answer(&report);
    }
    Ok(())
}

/// What has come back to a sender of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reflected {
    /// Messages that should have come back, of those that were sent.
    pub expected: u64,
    /// Messages that came back.
    pub came: u64,
    /// Round trips, from when the message was meant to be sent.
    pub round_trips: Summary,
    /// The same from when it was really sent.
    pub naive: Summary,
}

/// Whether the receiver sends back the message of a number: evenly spread, so many percent of all.
fn is_reflected(number: u64, percent: u8) -> bool {
    let share = |number: u64| u128::from(number) * u128::from(percent) / 100;
    share(number + 1) > share(number)
}

/// Messages that come back to the sender.
struct Back {
    percent: u8,
    observer: Observer,
}

impl Back {
    fn new(percent: u8) -> Back {
        Back { percent, observer: Observer::default() }
    }

    /// A turn of a link, which takes what has come back if something is to.
    fn turn<L: Link>(&mut self, link: &mut L) -> Result<(), Failure> {
        if self.percent == 0 {
            return link.turn();
        }
        link.receive(|message| self.observer.time(message, clock::monotonic()))?;
        link.turn_beside_receive()
    }

    /// Until all is back, or nothing more comes for a while.
    fn await_rest<L: Link>(&mut self, link: &mut L, expected: u64) -> Result<(), Failure> {
        let (mut seen, mut since) = (self.observer.received(), clock::monotonic());
        while seen < expected && clock::monotonic() < since.after(QUIET) {
            self.turn(link)?;
            if self.observer.received() != seen {
                (seen, since) = (self.observer.received(), clock::monotonic());
            }
        }
        Ok(())
    }

    fn reflected(&self, expected: u64) -> Reflected {
        let seen = self.observer.observed();
        Reflected { expected, came: seen.received, round_trips: seen.latencies, naive: seen.naive }
    }
}

/// What a sender answers that began at `start` and has just sent its last message.
#[must_use]
pub fn sent_report(sent: u64, unsent: u64, start: Nanos) -> Value {
    let took = clock::monotonic().since(start).as_nanos() as u64;
    json!({ "sent": sent, "unsent": unsent, "start_ns": start.0, "took_ns": took })
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

/// A run at a rate.
struct Paced {
    /// Messages a second, of all links together.
    rate: f64,
    span: Duration,
    is_timed: bool,
    /// How far behind its times it ends.
    gives_up: Option<Duration>,
}

/// Each link gets its turn; the messages of each are numbered by themselves. Returns how many were sent, how many more there
/// should have been, and when the first one was meant to be sent.
fn paced<L: Link>(
    links: &mut [L],
    message: &mut [u8],
    run: &Paced,
    back: &mut Back,
) -> Result<(u64, u64, Nanos), Failure> {
    let (count, width) = ((run.rate * run.span.as_secs_f64()) as u64, links.len() as u64);
    let start = clock::monotonic().after(Duration::from_millis(10));
    let mut schedule = Schedule::new(start, run.rate);
    while schedule.sent() < count {
        let now = clock::monotonic();
        if run.gives_up.is_some_and(|limit| now > schedule.next().after(limit)) {
            break;
        }
        for _ in 0..L::BURST.min(count - schedule.sent()) {
            let number = schedule.sent();
            let Some(intended) = schedule.take_due(now) else { break };
            stamp(message, if run.is_timed { intended } else { UNTIMED }, number / width);
            if run.is_timed {
                stamp_sent(message, clock::monotonic());
            }
            play::send(&mut links[(number % width) as usize], message)?;
        }
        links.iter_mut().try_for_each(|link| back.turn(link))?;
    }
    Ok((schedule.sent(), count - schedule.sent(), start))
}

/// Nothing has come for so long: no more will.
const QUIET: Duration = Duration::from_secs(2);

/// What has come of a run.
struct Taking {
    observers: Vec<Observer>,
    /// When the last of it had come.
    last: Nanos,
    was_empty: bool,
    /// Percent of the messages that are sent back.
    reflect: u8,
    /// Those that have just come and are to be sent back, one behind the other.
    to_reflect: Vec<u8>,
    /// How many there are, once that is known.
    sent: Option<u64>,
    /// Since when.
    told: Nanos,
}

impl Taking {
    fn new(links: usize, reflect: u8) -> Taking {
        Taking {
            observers: vec![Observer::default(); links],
            last: Nanos(0),
            was_empty: true,
            reflect,
            to_reflect: Vec::new(),
            sent: None,
            told: Nanos(0),
        }
    }

    fn take<L: Link>(&mut self, links: &mut [L]) -> Result<(), Failure> {
        let mut count = 0;
        let (reflect, back) = (self.reflect, &mut self.to_reflect);
        for (link, observer) in links.iter_mut().zip(&mut self.observers) {
            let mut size = 0;
            count += link.receive(|message| {
                if reflect > 0 && number(message).is_some_and(|number| is_reflected(number, reflect)) {
                    size = message.len();
                    back.extend_from_slice(message);
                }
                let is_timed = message.first_chunk().is_some_and(|intended| *intended != [0; 8]);
                if is_timed { observer.time(message, clock::monotonic()) } else { observer.count(message) }
            })?;
            link.turn_beside_receive()?;
            if size > 0 {
                back.chunks_exact(size).try_for_each(|message| play::send_or_drop(link, message))?;
                back.clear();
            }
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
pub(crate) fn receive<L: Link>(
    end: &End,
    links: &mut [L],
    commands: &Receiver<Value>,
) -> Result<(), Failure> {
    let (mut taking, mut turns) = (Taking::new(links.len(), end.reflect), 0u32);
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
            taking = Taking::new(links.len(), end.reflect);
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

    use super::super::link::Yielding;
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
        let run = Paced { rate: 50_000.0, span: SPAN, is_timed: true, gives_up: None };
        let (sent, unsent, _) =
            paced(&mut links, &mut [0; 64], &run, &mut Back::new(0)).expect("a loop breaks never");
        assert_eq!((sent, unsent), (100, 0));
        assert_eq!(links.each_ref().map(|link| link.messages.len()), [34, 33, 33]);
        let mut taking = Taking::new(3, 0);
        taking.take(&mut links).expect("a loop breaks never");
        taking.sent = Some(sent);
        assert!(!taking.is_over(), "something has just come");
        taking.take(&mut links).expect("a loop breaks never");
        assert!(taking.is_over());
        let report = taking.report();
        let number = |key: &str| report[key].as_u64().expect(key);
        assert_eq!((number("received"), number("missing"), number("disordered")), (100, 0, 0));
        assert_eq!((&report["latencies"]["count"], &report["naive"]["count"]), (&json!(100), &json!(100)));
    }

    #[test]
    fn a_sender_that_cannot_keep_up_gives_up_and_says_how_many_are_missing() {
        // Nothing sends so many in any time that it has.
        let run = Paced { rate: 1e15, span: SPAN, is_timed: true, gives_up: Some(Duration::ZERO) };
        let (sent, unsent, _) = paced(&mut [Loop::default()], &mut [0; 64], &run, &mut Back::new(0))
            .expect("a loop breaks never");
        assert!(unsent > 0 && sent + unsent == 2_000_000_000_000, "{sent} {unsent}");
    }

    #[test]
    fn a_share_of_the_messages_comes_back_and_is_timed_there_and_back() {
        for percent in [0, 1, 7, 50, 100] {
            let share = (0..1_000).filter(|number| is_reflected(*number, percent)).count();
            assert_eq!(share, 10 * usize::from(percent));
        }
        // The sender's messages, as the receiver gets them.
        let run = Paced { rate: 50_000.0, span: SPAN, is_timed: true, gives_up: None };
        let mut there = [Outward::default()];
        let mut back = Back::new(10);
        let (sent, ..) = paced(&mut there, &mut [0; 64], &run, &mut back).expect("it breaks never");
        let mut far = [Loop { messages: std::mem::take(&mut there[0].0.messages) }];
        let mut taking = Taking::new(1, 10);
        taking.take(&mut far).expect("a loop breaks never");
        assert_eq!((sent, far[0].messages.len()), (100, 10));
        back.await_rest(&mut far[0], 10).expect("a loop breaks never");
        let reflected = back.reflected(10);
        assert_eq!((reflected.came, reflected.round_trips.count, reflected.naive.count), (10, 10, 10));
    }

    /// A link on which nothing comes back by itself.
    #[derive(Default)]
    struct Outward(Loop);

    impl Link for Outward {
        fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
            self.0.send(message)
        }

        fn receive(&mut self, _: impl FnMut(&[u8])) -> Result<usize, Failure> {
            Ok(0)
        }
    }

    #[test]
    fn links_that_yield_carry_the_same() {
        let (mut link, run) =
            (Loop::default(), Paced { rate: 50_000.0, span: SPAN, is_timed: true, gives_up: None });
        let mut yielding = [Yielding(&mut link)];
        let (sent, ..) =
            paced(&mut yielding, &mut [0; 64], &run, &mut Back::new(0)).expect("a loop breaks never");
        let mut taking = Taking::new(1, 0);
        taking.take(&mut yielding).expect("a loop breaks never");
        taking.take(&mut yielding).expect("a loop breaks never");
        assert_eq!((sent, &taking.report()["received"]), (100, &json!(100)));
    }

    #[test]
    fn messages_without_a_time_are_counted_and_not_timed() {
        let mut links = [Loop::default()];
        let sent = flat_out(&mut links[0], &mut [0; 16], SPAN).expect("a loop breaks never");
        let mut taking = Taking::new(1, 0);
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
        let run = Paced { rate: 500_000.0, span: SPAN, is_timed: true, gives_up: None };
        let (sent, ..) =
            paced(&mut near, &mut [0; 64], &run, &mut Back::new(0)).expect("a loop breaks never");
        let mut taking = Taking::new(1, 0);
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
