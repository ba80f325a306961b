//! What `tickcast sub` counts: messages, bytes, loss, and how long test messages took.

use std::fmt;
use std::time::Duration;

use measure::{Latencies, Summary};
use messaging::{Message, StreamId};
use net::clock;
use serde_json::{Value, json};
use units::{Nanos, Sqn};

use super::stamp::{Stamp, clock_id};

/// Counts of some span of time.
#[derive(Default)]
struct Span {
    messages: u64,
    bytes: u64,
    recovered: u64,
    lost: u64,
    disordered: u64,
    latencies: Latencies,
}

/// Counts of the second that runs, and of the whole run.
pub(super) struct Statistics {
    clock: u64,
    second: Span,
    total: Span,
    second_begun: Nanos,
    /// When the first message came.
    begun: Option<Nanos>,
    last: Nanos,
    /// The stream that was heard last, and its number.
    heard: Option<(StreamId, Sqn)>,
}

/// What a span came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    messages: u64,
    bytes: u64,
    recovered: u64,
    lost: u64,
    disordered: u64,
    seconds: f64,
    latency: Option<Summary>,
}

impl Statistics {
    pub(super) fn new(now: Nanos) -> Statistics {
        Statistics {
            clock: clock_id(),
            second: Span::default(),
            total: Span::default(),
            second_begun: now,
            begun: None,
            last: now,
            heard: None,
        }
    }

    /// Messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.total.messages + self.second.messages
    }

    /// Messages so far that will not come.
    pub(super) fn lost(&self) -> u64 {
        self.total.lost + self.second.lost
    }

    /// Counts a message; returns how long it took, if it can be known.
    pub(super) fn on_message(&mut self, message: &Message<'_>) -> Option<Duration> {
        let span = &mut self.second;
        span.messages += 1;
        span.bytes += message.payload.len() as u64;
        span.recovered += u64::from(message.recovered);
        let is_behind =
            |(stream, sqn): (StreamId, Sqn)| stream == message.stream && !sqn.precedes(message.sqn);
        span.disordered += u64::from(self.heard.is_some_and(is_behind));
        self.heard = Some((message.stream, message.sqn));
        let stamp = Stamp::read(message.payload).filter(|s| s.clock == self.clock && s.clock != 0);
        let now = if stamp.is_some() || self.begun.is_none() { clock::monotonic() } else { self.last };
        self.begun.get_or_insert(now);
        self.last = now;
        let took = now.since(stamp?.at);
        self.second.latencies.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        Some(took)
    }

    pub(super) fn on_loss(&mut self, count: u64) {
        self.second.lost += count;
    }

    /// Ends a second, if it is over.
    pub(super) fn take_second(&mut self, now: Nanos) -> Option<Figures> {
        let span = now.since(self.second_begun);
        (span >= Duration::from_secs(1)).then(|| self.end_second(now, span))
    }

    fn end_second(&mut self, now: Nanos, span: Duration) -> Figures {
        self.second_begun = now;
        let figures = self.second.figures(span);
        let Span { messages, bytes, recovered, lost, disordered, latencies } = &mut self.second;
        self.total.messages += std::mem::take(messages);
        self.total.bytes += std::mem::take(bytes);
        self.total.recovered += std::mem::take(recovered);
        self.total.lost += std::mem::take(lost);
        self.total.disordered += std::mem::take(disordered);
        self.total.latencies.merge(latencies);
        latencies.clear();
        figures
    }

    /// The whole run, from its first message on.
    pub(super) fn take_total(&mut self, now: Nanos) -> Figures {
        self.end_second(now, Duration::ZERO);
        self.total.figures(now.since(self.begun.unwrap_or(now)))
    }
}

impl Span {
    fn figures(&self, span: Duration) -> Figures {
        Figures {
            messages: self.messages,
            bytes: self.bytes,
            recovered: self.recovered,
            lost: self.lost,
            disordered: self.disordered,
            seconds: span.as_secs_f64(),
            latency: (self.latencies.count() > 0).then(|| self.latencies.summary()),
        }
    }
}

impl Figures {
    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// As an object with the event's name.
    pub(super) fn json(&self, event: &str) -> Value {
        let latency = self.latency.as_ref().map(|l| {
            json!({
                "p50_ns": l.p50_ns, "p99_ns": l.p99_ns, "p999_ns": l.p999_ns, "max_ns": l.max_ns,
                "count": l.count,
            })
        });
        json!({
            "ev": event, "messages": self.messages, "bytes": self.bytes, "recovered": self.recovered,
            "lost": self.lost, "disordered": self.disordered, "seconds": self.seconds, "messages_per_second": self.per_second(self.messages),
            "latency": latency,
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, megabytes) = (self.per_second(self.messages), self.per_second(self.bytes) / 1e6);
        write!(f, "{} messages, {rate:.0} a second, {megabytes:.3} MB/s", self.messages)?;
        write!(f, ", {} recovered, {} lost", self.recovered, self.lost)?;
        if self.disordered > 0 {
            write!(f, ", {} out of order or twice", self.disordered)?;
        }
        let Some(latency) = &self.latency else { return Ok(()) };
        let us = |ns: u64| ns as f64 / 1e3;
        let Summary { p50_ns, p99_ns, p999_ns, max_ns, .. } = *latency;
        let (p50, p99, p999, max) = (us(p50_ns), us(p99_ns), us(p999_ns), us(max_ns));
        write!(f, ", latency p50 {p50:.1} us, p99 {p99:.1}, p99.9 {p999:.1}, max {max:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(ns: u64) -> Nanos {
        Nanos(ns * 1_000_000_000)
    }

    #[test]
    fn a_second_ends_when_it_is_over_and_the_total_keeps_it() {
        let mut statistics = Statistics::new(second(10));
        statistics.on_loss(3);
        assert_eq!(statistics.take_second(Nanos(10_999_999_999)), None);
        let figures = statistics.take_second(second(12)).expect("it is over");
        assert_eq!((figures.lost, figures.seconds), (3, 2.0));
        statistics.on_loss(4);
        assert_eq!(statistics.lost(), 7);
        assert_eq!(statistics.take_total(second(13)).lost, 7);
    }

    #[test]
    fn without_time_there_is_no_rate() {
        let figures = Statistics::new(second(1)).take_total(second(1));
        let line = "0 messages, 0 a second, 0.000 MB/s, 0 recovered, 0 lost";
        assert_eq!(figures.to_string(), line);
        assert_eq!(figures.json("total")["messages_per_second"], 0.0);
    }
}
