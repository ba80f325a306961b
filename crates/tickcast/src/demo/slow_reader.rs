//! `tickcast demo --slow-reader`: a client that reads for a while and then stands still, and what becomes of it.
//!
//! One thread is both the client and its observer: it reads or does not, and looks at the P2PS's status meanwhile.
//! [`Story`] turns what it sees into lines. It is pure; its tests are a table of looks and lines.

use std::thread;
use std::time::{Duration, Instant};

use client::{Consumer, ConsumerConfig, ConsumerEvent, HostPort, ItemRequestSpec};
use daemon::Described;
use p2ps::P2psConfig;
use rwf::Domain;
use serde_json::Value;

use super::{Thread, lines};
use crate::failure::Failure;
use crate::host::Stop;

/// Its user, by which it is found in status pages.
pub(super) const USER: &str = "slow-reader";
const READS: Duration = Duration::from_secs(10);
const STANDS_STILL: Duration = Duration::from_secs(20);
/// It goes on to stand still until its updates are conflated, and for so long after that.
const STAYS_CONFLATED: Duration = Duration::from_secs(10);
/// But no longer than this: what its sockets hold fills slowly where little comes.
const STANDS_STILL_MAX: Duration = Duration::from_secs(200);
const LOOKS: Duration = Duration::from_millis(250);
/// Longer than it stands still: it sends no pings then.
const PING_TIMEOUT_S: u8 = 250;

/// What it watches of the sample.
const NAMES: [&str; 4] = ["BTCUSDT", "ETHUSDT", "BTCUSDT.PERP", "BTCUSD.PERP"];
const DOMAINS: [Domain; 2] = [Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE];

/// Bounds that a client which stands still reaches within seconds, though the recorded market is quiet.
pub(super) fn configure(p2ps: &mut P2psConfig) {
    p2ps.conflate_above_bytes = 262_144;
    p2ps.conflate_above_ms = 1_000;
    // What waits in sockets is seen by nobody, and must be filled first.
    p2ps.rssl.unsent_max_bytes = 16_384;
    p2ps.rssl.ping_timeout_max_s = PING_TIMEOUT_S;
}

/// Starts the client of the P2PS at a port of this host, which `p2ps` describes.
pub(super) fn start(port: u16, service: &str, p2ps: Described, stop: Stop) -> Result<Thread, Failure> {
    let config = ConsumerConfig {
        hosts: vec![HostPort::new("127.0.0.1", port)],
        user: USER.to_owned(),
        ping_timeout_s: PING_TIMEOUT_S,
        ..ConsumerConfig::default()
    };
    let mut consumer = Consumer::new(&config).map_err(|e| Failure::Run(e.to_string()))?;
    for domain in DOMAINS {
        for name in NAMES {
            let spec = ItemRequestSpec { domain, ..ItemRequestSpec::new(service, name) };
            consumer.subscribe_with(&spec).map_err(|e| Failure::Run(e.to_string()))?;
        }
    }
    let reader = SlowReader { consumer, p2ps, stop, story: Story::default() };
    Ok(thread::Builder::new().name(USER.to_owned()).spawn(move || reader.run())?)
}

struct SlowReader {
    consumer: Consumer,
    p2ps: Described,
    stop: Stop,
    story: Story,
}

impl SlowReader {
    fn run(mut self) -> Result<(), Failure> {
        while !self.stop.is_set() {
            self.spend(true)?;
            self.spend(false)?;
        }
        self.consumer.close();
        Ok(())
    }

    /// Reads for a while, or does not.
    fn spend(&mut self, reads: bool) -> Result<(), Failure> {
        let began = Instant::now();
        let mut conflated_at = None;
        while !self.stop.is_set()
            && !is_over(reads, began.elapsed(), conflated_at.map(|at: Instant| at.elapsed()))
        {
            let look = self.p2ps.ask("").ok().and_then(|status| Look::of(&status, reads));
            if look.is_some_and(|look| look.is_conflated) {
                conflated_at.get_or_insert_with(Instant::now);
            }
            let news = look.map(|look| self.story.next(look)).unwrap_or_default();
            news.iter().try_for_each(|line| say(line))?;
            if reads {
                self.read()?;
            } else {
                self.stop.wait(LOOKS);
            }
        }
        Ok(())
    }

    /// Reads until the next look.
    fn read(&mut self) -> Result<(), Failure> {
        let (mut told, until) = (Vec::new(), Instant::now() + LOOKS);
        let mut on_event = |event: ConsumerEvent<'_>| match event {
            ConsumerEvent::LoginStatus(state) => {
                told.push(format!("it is told: {}", String::from_utf8_lossy(state.text)));
            }
            ConsumerEvent::Disconnected { reason, .. } => told.push(format!("it is disconnected: {reason}")),
            _ => {}
        };
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !self.stop.is_set()
        {
            self.consumer.dispatch(left, &mut on_event).map_err(|e| Failure::Run(e.to_string()))?;
        }
        told.iter().try_for_each(|text| say(text))
    }
}

/// Whether it has read, or stood still, long enough: for so long, and conflated for so long.
fn is_over(reads: bool, lasted: Duration, conflated: Option<Duration>) -> bool {
    let is_seen = conflated.is_some_and(|conflated| conflated >= STAYS_CONFLATED);
    if reads { lasted >= READS } else { lasted >= STANDS_STILL && is_seen || lasted >= STANDS_STILL_MAX }
}

fn say(text: &str) -> Result<(), Failure> {
    lines::say(&format!("slow reader: {text}")).map_err(Failure::Output)
}

/// How the P2PS serves the client, and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    reads: bool,
    is_conflated: bool,
    backlog_bytes: u64,
    changed_streams: u64,
    updates_conflated: u64,
    /// Other clients, and those of them that are sent every update.
    others: usize,
    others_tick: usize,
}

impl Look {
    /// `None`: the client is not there.
    fn of(status: &Value, reads: bool) -> Option<Look> {
        let clients = status["clients"].as_array()?;
        let (own, others): (Vec<&Value>, Vec<&Value>) =
            clients.iter().partition(|client| client["user"] == USER);
        let own = own.first()?;
        let number = |key: &str| own[key].as_u64().unwrap_or(0);
        Some(Look {
            reads,
            is_conflated: own["step"] == "conflated",
            backlog_bytes: number("backlog_bytes"),
            changed_streams: number("changed_streams"),
            updates_conflated: number("updates_conflated"),
            others: others.len(),
            others_tick: others.iter().filter(|client| client["step"] == "tick").count(),
        })
    }

    fn of_others(&self) -> String {
        match (self.others, self.others_tick) {
            (0, _) => "No other client is connected".to_owned(),
            (1, 1) => "The other client is sent every update".to_owned(),
            (all, tick) if all == tick => format!("The other {all} clients are sent every update"),
            (all, tick) => format!("Of {all} other clients {tick} are sent every update"),
        }
    }
}

/// What was seen last, and how many updates had been left out when the client stood still.
#[derive(Debug, Default)]
struct Story {
    last: Option<Look>,
    conflated_before: u64,
    /// It is said already that its socket is full.
    is_full: bool,
}

impl Story {
    /// What has changed, in words.
    fn next(&mut self, look: Look) -> Vec<String> {
        let mut news = Vec::new();
        let before = self.last.replace(look);
        let did_read = before.is_some_and(|before| before.reads);
        let was = before.unwrap_or_default();
        match (before.is_some(), did_read, look.reads) {
            (false, ..) => news.push("reads, and is sent every update".to_owned()),
            (true, true, false) => {
                self.conflated_before = look.updates_conflated;
                self.is_full = false;
                news.push("stands still".to_owned());
            }
            (true, false, true) => news.push(format!(
                "reads again. {} items have changed meanwhile, and {} bytes wait",
                look.changed_streams.max(was.changed_streams),
                was.backlog_bytes
            )),
            _ => {}
        }
        let is_full = look.backlog_bytes > 0 && !look.reads && !look.is_conflated;
        if is_full && !std::mem::replace(&mut self.is_full, true) {
            news.push("its socket is full; what comes waits in the P2PS".to_owned());
        }
        if look.is_conflated && !was.is_conflated {
            news.push(format!(
                "updates are conflated: {} bytes wait, and no more are added. {}",
                look.backlog_bytes,
                look.of_others()
            ));
        }
        if was.is_conflated && !look.is_conflated {
            let missed = look.updates_conflated.saturating_sub(self.conflated_before);
            news.push(format!(
                "every update is sent again. {missed} updates were left out; the newest values stood for them. {}",
                look.of_others()
            ));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_change_is_a_line_and_nothing_else_is() {
        let reads = Look { reads: true, others: 2, others_tick: 2, ..Look::default() };
        let still = Look { reads: false, ..reads };
        let waits = Look { backlog_bytes: 70_000, ..still };
        let conflated = Look { is_conflated: true, changed_streams: 5, ..waits };
        let more = Look { changed_streams: 8, ..conflated };
        let again = Look { reads: true, ..more };
        let served = Look { backlog_bytes: 0, changed_streams: 0, updates_conflated: 4_321, ..again };
        let up = Look { is_conflated: false, others_tick: 1, ..served };
        let mut story = Story::default();
        let table = [
            (reads, "reads, and is sent every update"),
            (reads, ""),
            (still, "stands still"),
            (still, ""),
            (waits, "its socket is full; what comes waits in the P2PS"),
            (still, ""),
            (waits, ""),
            (
                conflated,
                "updates are conflated: 70000 bytes wait, and no more are added. The other 2 clients are sent every update",
            ),
            (more, ""),
            (again, "reads again. 8 items have changed meanwhile, and 70000 bytes wait"),
            (served, ""),
            (
                up,
                "every update is sent again. 4321 updates were left out; the newest values stood for them. Of 2 other clients 1 are sent every update",
            ),
            (up, ""),
            (Look { reads: false, ..up }, "stands still"),
        ];
        for (at, (look, line)) in table.into_iter().enumerate() {
            assert_eq!(story.next(look).join("\n"), line, "{at}");
        }
        assert_eq!(story.conflated_before, 4_321);
    }

    #[test]
    fn the_client_is_found_among_others_in_the_status() {
        let other = |step: &str| json!({"user": "me", "step": step});
        let own = json!({
            "user": USER, "step": "conflated", "backlog_bytes": 7, "changed_streams": 3, "updates_conflated": 9,
        });
        let look = Look::of(&json!({"clients": [other("tick"), own, other("conflated")]}), false);
        let expected = Look {
            reads: false,
            is_conflated: true,
            backlog_bytes: 7,
            changed_streams: 3,
            updates_conflated: 9,
            others: 2,
            others_tick: 1,
        };
        assert_eq!(look, Some(expected));
        assert_eq!(Look::of(&json!({"clients": [other("tick")]}), false), None);
        assert_eq!(Look::of(&Value::Null, true), None);
    }

    #[test]
    fn it_stands_still_until_that_is_seen() {
        let still = |lasted, conflated: Option<u64>| {
            is_over(false, Duration::from_secs(lasted), conflated.map(Duration::from_secs))
        };
        assert_eq!((still(19, Some(15)), still(20, Some(10)), still(20, Some(9))), (false, true, false));
        assert_eq!((still(199, None), still(200, None)), (false, true));
        let reads = |lasted| is_over(true, Duration::from_secs(lasted), None);
        assert_eq!((reads(9), reads(10)), (false, true));
    }

    #[test]
    fn others_are_counted_in_words() {
        let of = |others, others_tick| Look { others, others_tick, ..Look::default() }.of_others();
        assert_eq!(of(0, 0), "No other client is connected");
        assert_eq!(of(1, 1), "The other client is sent every update");
        assert_eq!(of(3, 3), "The other 3 clients are sent every update");
        assert_eq!(of(1, 0), "Of 1 other clients 0 are sent every update");
    }
}
