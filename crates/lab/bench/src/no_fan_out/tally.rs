//! What the last end of a system has seen: every update is counted, and its number compared with the one before it.

use std::time::Duration;

use measure::Latencies;
use net::clock;
use serde_json::{Value, json};
use units::Nanos;

use crate::BenchError;
use crate::every::{Every, TimeEvery};
use crate::process::{self, START_LIMIT, answer};
use crate::update::Stamps;

/// One of so many updates is timed, unless another number is given.
pub(super) const TIME_EVERY: u32 = 64;

/// The items of a sink, and what has come of them in the present run.
pub(super) struct Tally {
    /// The number of the last update of each item.
    last: Vec<u64>,
    /// Whether each item has an image and can be trusted, and how many can.
    live: Vec<bool>,
    live_count: usize,
    times: Every,
    seen: Seen,
}

/// Of the present run.
#[derive(Default)]
struct Seen {
    received: u64,
    /// By the numbers of the updates: some are missing in front of one, or in front of an image.
    lost: u64,
    /// Not behind the one before.
    disordered: u64,
    /// Updates that stand for several.
    conflated: u64,
    /// Items that were in doubt, or were given a new image, while updates came.
    interrupted: u64,
    /// What has no stamps, or belongs to no item.
    unreadable: u64,
    /// Messages that the backbone's own numbers say are missing.
    gaps: u64,
    /// The run that has ended, and how late its end came.
    ended: Option<(u8, u64)>,
    latencies: Latencies,
}

impl Tally {
    pub(super) fn new(items: u32) -> Tally {
        let items = items as usize;
        let (last, live, times) = (vec![0; items], vec![false; items], Every::new(TIME_EVERY));
        Tally { last, live, live_count: 0, times, seen: Seen::default() }
    }

    /// The same with another share of updates that are timed.
    pub(super) fn timing(mut self, every: TimeEvery) -> Tally {
        self.times = Every::new(every.or(TIME_EVERY));
        self
    }

    #[inline]
    pub(super) fn on_update(&mut self, item: u32, payload: &[u8], is_conflated: bool) {
        let (Some(stamps), Some(last)) = (Stamps::of(payload), self.last.get_mut(item as usize)) else {
            self.seen.unreadable += 1;
            return;
        };
        let seen = &mut self.seen;
        if stamps.ends_run != 0 {
            seen.ended = Some((stamps.ends_run, age_ns(stamps.intended)));
            return;
        }
        seen.received += 1;
        seen.conflated += u64::from(is_conflated);
        if self.times.is_due() {
            seen.latencies.record(age_ns(stamps.intended));
        }
        if stamps.number <= *last {
            seen.disordered += 1;
            return;
        }
        seen.lost += stamps.number - *last - 1;
        *last = stamps.number;
    }

    /// An image, which has in it what was published before.
    pub(super) fn on_image(&mut self, item: u32, payload: &[u8]) {
        let (Some(stamps), Some(last)) = (Stamps::of(payload), self.last.get_mut(item as usize)) else {
            self.seen.unreadable += 1;
            return;
        };
        let (seen, at) = (&mut self.seen, item as usize);
        if self.live[at] {
            seen.interrupted += 1;
        } else {
            self.live[at] = true;
            self.live_count += 1;
        }
        seen.lost += stamps.number.saturating_sub(*last);
        *last = stamps.number.max(*last);
    }

    /// An item is in doubt until its next image.
    pub(super) fn on_doubt(&mut self, item: u32) {
        self.seen.interrupted += 1;
        if let Some(live) = self.live.get_mut(item as usize)
            && std::mem::take(live)
        {
            self.live_count -= 1;
        }
    }

    /// The item is as before, and can be trusted.
    pub(super) fn on_trust(&mut self, item: u32) {
        self.seen.interrupted += 1;
        if let Some(live) = self.live.get_mut(item as usize)
            && !std::mem::replace(live, true)
        {
            self.live_count += 1;
        }
    }

    /// Something that belongs to no item.
    pub(super) fn on_unreadable(&mut self) {
        self.seen.unreadable += 1;
    }

    /// So many messages are missing by the backbone's own numbers.
    pub(super) fn on_gap(&mut self, messages: u64) {
        self.seen.gaps += messages;
    }

    /// What the run came to; the next one begins.
    fn take(&mut self, run: u8) -> Value {
        let seen = std::mem::take(&mut self.seen);
        json!({
            "run": run, "received": seen.received, "lost": seen.lost, "disordered": seen.disordered,
            "conflated": seen.conflated, "interrupted": seen.interrupted, "unreadable": seen.unreadable,
            "gaps": seen.gaps, "last_ns": seen.ended.filter(|(of, _)| *of == run).map(|(_, ns)| ns),
            "latencies": seen.latencies.spread(),
        })
    }
}

fn age_ns(intended: Nanos) -> u64 {
    clock::monotonic().since(intended).as_nanos() as u64
}

/// The last end of a system.
pub(super) trait Sink {
    /// Takes what has come, waiting for at most `timeout`.
    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError>;
    fn tally(&mut self) -> &mut Tally;
}

/// How long a sink waits for messages before it looks for orders.
const LOOK_UP: Duration = Duration::from_millis(10);

/// Takes what comes, and obeys. `{"settle": true}` is answered when all items can be trusted, and what has come by then is
/// forgotten. `{"report": RUN, "within_ms": MS}` is answered with what has come since, when the end of the run has come
/// or it has not by then.
pub(super) fn serve(mut sink: impl Sink) -> Result<(), BenchError> {
    let commands = process::commands();
    loop {
        match commands.try_recv() {
            Ok(command) => obey(&mut sink, &command)?,
            Err(std::sync::mpsc::TryRecvError::Empty) => sink.turn(LOOK_UP)?,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

fn obey(sink: &mut impl Sink, command: &Value) -> Result<(), BenchError> {
    let begun = clock::monotonic();
    if command["settle"].as_bool() == Some(true) {
        while sink.tally().live_count < sink.tally().live.len() {
            sink.turn(LOOK_UP)?;
            if clock::monotonic() > begun.after(START_LIMIT) {
                let (count, of) = (sink.tally().live_count, sink.tally().live.len());
                return Err(BenchError::new(format!(
                    "{count} of {of} images have come within {START_LIMIT:?}"
                )));
            }
        }
        sink.tally().seen = Seen::default();
        answer(&json!({ "settled": true }));
        return Ok(());
    }
    let (Some(run), Some(within)) = (command["report"].as_u64(), command["within_ms"].as_u64()) else {
        return Err(BenchError::new(format!("not an order: {command}")));
    };
    let (run, until) = (run as u8, begun.after(Duration::from_millis(within)));
    while sink.tally().seen.ended.is_none_or(|(of, _)| of != run) && clock::monotonic() < until {
        sink.turn(LOOK_UP)?;
    }
    answer(&sink.tally().take(run));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::write_numbered;

    fn payload(ends_run: u8, number: u64) -> Vec<u8> {
        let stamps = Stamps { intended: clock::monotonic(), ends_run, number };
        rwf::encode_to_vec(|w| write_numbered(w, 1, stamps)).expect("it fits")
    }

    fn told(tally: &mut Tally, run: u8, what: &[&str]) -> Vec<u64> {
        let told = tally.take(run);
        what.iter().map(|key| told[key].as_u64().expect("a number")).collect()
    }

    const ALL: [&str; 7] =
        ["received", "lost", "disordered", "conflated", "interrupted", "unreadable", "gaps"];

    #[test]
    fn updates_in_order_are_counted_and_nothing_else() {
        let mut tally = Tally::new(2);
        tally.on_image(0, &payload(0, 7));
        tally.on_image(1, &payload(0, 0));
        assert_eq!(tally.live_count, 2);
        tally.seen = Seen::default();
        for number in 1..=3 {
            tally.on_update(0, &payload(0, 7 + number), false);
            tally.on_update(1, &payload(0, number), false);
        }
        tally.on_update(0, &payload(9, 10), false);
        assert!(tally.seen.ended.is_some());
        assert_eq!(told(&mut tally, 9, &ALL), [6, 0, 0, 0, 0, 0, 0]);
        // The next run goes on with the numbers of this one.
        tally.on_update(0, &payload(0, 11), false);
        assert_eq!(told(&mut tally, 10, &ALL), [1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_fault_is_counted_as_what_it_is() {
        let mut tally = Tally::new(1);
        tally.on_image(0, &payload(0, 0));
        tally.seen = Seen::default();
        tally.on_update(0, &payload(0, 4), false);
        assert_eq!(told(&mut tally, 1, &["received", "lost"]), [1, 3]);
        tally.on_update(0, &payload(0, 4), false);
        tally.on_update(0, &payload(0, 2), true);
        assert_eq!(told(&mut tally, 1, &["disordered", "conflated", "lost"]), [2, 1, 0]);
        // An image stands for what it has in it.
        tally.on_doubt(0);
        assert_eq!(tally.live_count, 0);
        tally.on_image(0, &payload(0, 9));
        assert_eq!((tally.live_count, told(&mut tally, 1, &["lost", "interrupted"])), (1, vec![5, 1]));
        tally.on_image(0, &payload(0, 9));
        tally.on_update(1, &payload(0, 1), false);
        tally.on_update(0, b"no update", false);
        tally.on_unreadable();
        tally.on_gap(6);
        assert_eq!(told(&mut tally, 1, &ALL), [0, 0, 0, 0, 1, 3, 6]);
        tally.on_doubt(0);
        tally.on_trust(0);
        assert_eq!((tally.live_count, told(&mut tally, 1, &["interrupted"])), (1, vec![2]));
    }

    #[test]
    fn the_end_of_another_run_is_none_of_this_one() {
        let mut tally = Tally::new(1);
        tally.on_update(0, &payload(3, 0), false);
        assert!(tally.take(4)["last_ns"].is_null());
        tally.on_update(0, &payload(4, 0), false);
        assert!(tally.take(4)["last_ns"].is_u64());
    }
}
