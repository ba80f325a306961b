//! The way of single items, update by update, for `/trace`.
//!
//! An item is traced from the first question about it until nobody has asked for some seconds. The latest updates are kept,
//! up to a bound; a question gets those that are newer than the last one it has seen.

use std::collections::VecDeque;
use std::time::Duration;

use daemon::{Described, Hop, Query, Status, StatusError};
use market::backbone::HopTimes;
use market::p2ps::{PointToPoint, StampedUpdate};
use rwf::Domain;
use serde_json::{Map, Value, json};
use units::Nanos;

use crate::hops;

/// The answer of a server that is several shards, or one.
pub(crate) fn merged(parts: Vec<Value>) -> Result<Value, StatusError> {
    if parts.iter().any(|part| part["too_many_traces"].is_u64()) {
        return Err(StatusError::TooManyTraces);
    }
    Ok(json!({ "role": "p2ps", "parts": parts }))
}

/// A server without shards as operators see it: with its ledger, and items that can be traced.
#[must_use]
pub fn describe_alone(name: &str, status: Status) -> Described {
    let trace = status.clone();
    Described::with_ledger(name, status).and_trace(move |query| merged(vec![trace.ask_trace(query)?]))
}

/// The items that are traced.
#[derive(Debug, Default)]
pub(crate) struct Traces(Vec<Trace>);

/// An item that is traced.
#[derive(Debug)]
struct Trace {
    service: Option<String>,
    /// The service's, once it is known.
    id: Option<u16>,
    domain: Domain,
    name: String,
    asked_at: Nanos,
    records: VecDeque<Record>,
    /// How many of the last ones are not written yet.
    unwritten: usize,
    /// It has a record of the update that is handled now.
    is_open: bool,
    /// The highest number that a record or an answer had.
    last: u64,
    /// Records that had to go before anybody got them.
    overwritten: u64,
}

/// The way of an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// 0 until somebody gets it. Rises from record to record, and is above the time of the answer before on the host's
    /// monotonic clock: so one number says what a client has seen of all shards.
    pub(crate) number: u64,
    pub(crate) service: u16,
    pub(crate) sequence: u64,
    pub(crate) hops: HopTimes,
    pub(crate) came: u64,
    pub(crate) is_sent: bool,
    pub(crate) written: Option<u64>,
}

const TRACES_MAX: usize = 16;
const RECORDS_MAX: usize = 512;
/// A trace ends when nobody has asked for so long.
const KEPT: Duration = Duration::from_secs(10);
/// Or for so long, if there is no room for another one.
const KEPT_WHEN_FULL: Duration = Duration::from_secs(2);

impl Traces {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An update is handled from here to [`Traces::end`].
    pub(crate) fn begin(&mut self, update: &StampedUpdate<'_>, came: u64) {
        for trace in self.0.iter_mut().filter(|trace| trace.is_of(update)) {
            trace.push(hops::record(update, came));
        }
    }

    /// It is handled. If nothing was sent because of it, it is not written later.
    pub(crate) fn end(&mut self, is_sent: bool) {
        for trace in &mut self.0 {
            if std::mem::take(&mut trace.is_open)
                && let Some(record) = trace.records.back_mut()
            {
                record.is_sent = is_sent;
            }
        }
    }

    /// What was sent has been written to sockets.
    pub(crate) fn written(&mut self, at: u64) {
        for trace in &mut self.0 {
            let fresh = std::mem::take(&mut trace.unwritten);
            trace.records.iter_mut().rev().take(fresh).filter(|record| record.is_sent).for_each(|record| {
                record.written = Some(at);
            });
        }
    }

    /// Answers a question, and goes on with the trace that it is about.
    pub(crate) fn answer(&mut self, now: Nanos, query: &Query, core: &PointToPoint) -> Value {
        self.0.retain(|trace| now < trace.asked_at + KEPT);
        if self.0.len() >= TRACES_MAX {
            self.0.retain(|trace| now < trace.asked_at + KEPT_WHEN_FULL);
        }
        let Some((service, domain, name)) = query.item() else { return Value::Null };
        let domain = Domain(domain);
        let is_it =
            |trace: &Trace| (trace.service.as_deref(), trace.domain, &*trace.name) == (service, domain, name);
        let at = match self.0.iter().position(is_it) {
            Some(at) => at,
            None if self.0.len() >= TRACES_MAX => return json!({ "too_many_traces": TRACES_MAX }),
            None => {
                self.0.push(Trace::new(service, domain, name));
                self.0.len() - 1
            }
        };
        let trace = &mut self.0[at];
        trace.asked_at = now;
        trace.id = core.inspect().services().find(|known| Some(known.name) == service).map(|known| known.id);
        trace.answer(now, query.after().unwrap_or(0), core)
    }
}

impl Trace {
    fn new(service: Option<&str>, domain: Domain, name: &str) -> Trace {
        Trace {
            service: service.map(str::to_owned),
            id: None,
            domain,
            name: name.to_owned(),
            asked_at: Nanos::ZERO,
            records: VecDeque::with_capacity(RECORDS_MAX),
            unwritten: 0,
            is_open: false,
            last: 0,
            overwritten: 0,
        }
    }

    fn is_of(&self, update: &StampedUpdate<'_>) -> bool {
        *update.key.name == *self.name.as_bytes()
            && update.key.domain == self.domain
            && update.key.is_plain()
            && (self.service.is_none() || self.id == Some(update.key.service))
    }

    fn push(&mut self, record: Record) {
        if self.records.len() >= RECORDS_MAX {
            let first = self.records.pop_front();
            self.overwritten += u64::from(first.is_some_and(|first| first.number == 0));
        }
        self.records.push_back(record);
        (self.unwritten, self.is_open) = ((self.unwritten + 1).min(RECORDS_MAX), true);
    }

    fn answer(&mut self, now: Nanos, after: u64, core: &PointToPoint) -> Value {
        // All are written or will not be, as the turn has ended.
        for record in self.records.iter_mut().filter(|record| record.number == 0) {
            self.last += 1;
            record.number = self.last;
        }
        let fresh: Vec<Value> = self
            .records
            .iter()
            .filter(|record| record.number > after)
            .map(|record| record.to_json(core))
            .collect();
        // What comes next is newer than this answer, at every shard.
        self.last = self.last.max(now.0);
        let inspection = core.inspect();
        let item = inspection.item(self.service.as_deref(), self.domain, self.name.as_bytes());
        json!({
            "server": core.name(),
            "item": {"service": self.service, "domain": self.domain.0, "name": self.name},
            "service_known": self.service.is_none() || self.id.is_some(),
            "watchers": item.as_ref().map(|item| item.watchers), "updates": item.as_ref().map(|item| item.updates),
            "next": self.last, "overwritten": self.overwritten,
            "records": fresh,
        })
    }
}

impl Record {
    fn to_json(self, core: &PointToPoint) -> Value {
        let Record { number, service, sequence, hops, came, written, .. } = self;
        let HopTimes { distributor, relay } = hops;
        // Below zero if clocks differ.
        let between = |from: u64, to: u64| json!((to as i64).wrapping_sub(from as i64));
        let mut taken = Map::new();
        let mut put = |hop: Hop, ns: Value| _ = taken.insert(hop.name().to_owned(), ns);
        put(Hop::SourceDistributor, between(distributor.came, distributor.left));
        put(Hop::Backbone, between(distributor.left, relay.map_or(came, |relay| relay.came)));
        if let Some(relay) = relay {
            put(Hop::Relay, between(relay.came, relay.left));
            put(Hop::ToShard, between(relay.left, came));
        }
        put(Hop::P2ps, written.map_or(Value::Null, |written| between(came, written)));
        put(Hop::Total, written.map_or(Value::Null, |written| between(distributor.came, written)));
        json!({
            "number": number, "service": core.inspect().service_name(service), "sequence": sequence,
            "came_ns": distributor.came, "hops_ns": taken,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daemon::Query;
    use market::ItemKey;
    use market::backbone::Passage;
    use market::p2ps::ServerConfig;
    use rwf::Dictionary;

    use super::*;

    fn core() -> PointToPoint {
        PointToPoint::new(1, ServerConfig::default(), Arc::new(Dictionary::new()), Arc::default())
    }

    fn update(name: &'static str, sequence: u64) -> StampedUpdate<'static> {
        let hops = HopTimes { distributor: Passage { came: 1_000, left: 3_000 }, relay: None };
        StampedUpdate { key: ItemKey::named(7, Domain::MARKET_PRICE, name.as_bytes()), sequence, hops }
    }

    fn query(text: &str) -> Query {
        Query::trace(text).expect("it is allowed")
    }

    /// An update that is sent, or not, and written.
    fn pass(traces: &mut Traces, name: &'static str, sequence: u64, is_sent: bool) {
        traces.begin(&update(name, sequence), 10_000);
        traces.end(is_sent);
        traces.written(40_000);
    }

    fn sequences(answer: &Value) -> Vec<u64> {
        let records = answer["records"].as_array().into_iter().flatten();
        records.filter_map(|record| record["sequence"].as_u64()).collect()
    }

    #[test]
    fn an_item_is_traced_from_the_first_question_on_and_each_update_is_given_once() {
        let (mut traces, core) = (Traces::default(), core());
        let mut now = Nanos(5_000_000_000);
        pass(&mut traces, "A", 1, true);
        let begin = traces.answer(now, &query("item=A"), &core);
        assert_eq!((sequences(&begin), &begin["next"]), (vec![], &json!(now.0)));
        pass(&mut traces, "A", 2, true);
        pass(&mut traces, "B", 3, true);
        pass(&mut traces, "A", 4, false);
        now += Duration::from_millis(250);
        let next = query(&format!("item=A&after={}", begin["next"]));
        let answer = traces.answer(now, &next, &core);
        assert_eq!(sequences(&answer), [2, 4]);
        let hops = |at: usize| answer["records"][at]["hops_ns"].clone();
        assert_eq!(
            hops(0),
            json!({"source_distributor": 2_000, "backbone": 7_000, "p2ps": 30_000, "total": 39_000})
        );
        assert_eq!(
            hops(1),
            json!({"source_distributor": 2_000, "backbone": 7_000, "p2ps": null, "total": null})
        );
        assert_eq!(sequences(&traces.answer(now, &next, &core)), [2, 4], "for who asks the same again");
        pass(&mut traces, "A", 5, true);
        let last = query(&format!("item=A&after={}", answer["next"]));
        assert_eq!(sequences(&traces.answer(now, &last, &core)), [5]);
    }

    #[test]
    fn what_is_kept_of_an_item_is_bounded_and_what_nobody_got_is_counted() {
        let (mut traces, core) = (Traces::default(), core());
        let begin = traces.answer(Nanos(1), &query("item=A"), &core);
        for sequence in 1..=RECORDS_MAX as u64 + 3 {
            traces.begin(&update("A", sequence), 10_000);
            traces.end(true);
        }
        traces.written(40_000);
        let answer = traces.answer(Nanos(2), &query(&format!("item=A&after={}", begin["next"])), &core);
        let expected: Vec<u64> = (4..=RECORDS_MAX as u64 + 3).collect();
        assert_eq!((sequences(&answer), &answer["overwritten"]), (expected, &json!(3)));
        assert!(
            answer["records"]
                .as_array()
                .is_some_and(|all| all.iter().all(|one| one["hops_ns"]["p2ps"].is_u64()))
        );
    }

    #[test]
    fn a_trace_ends_when_nobody_asks_and_there_are_only_so_many() {
        let (mut traces, core) = (Traces::default(), core());
        let now = Nanos(1_000_000_000);
        for at in 0..TRACES_MAX {
            traces.answer(now, &query(&format!("item=A{at}")), &core);
        }
        let refused = traces.answer(now + KEPT_WHEN_FULL / 2, &query("item=B"), &core);
        assert_eq!(merged(vec![refused]), Err(StatusError::TooManyTraces));
        traces.answer(now + KEPT_WHEN_FULL / 2, &query("item=A0"), &core);
        traces.answer(now + KEPT_WHEN_FULL, &query("item=B"), &core);
        let names: Vec<&str> = traces.0.iter().map(|trace| &*trace.name).collect();
        assert_eq!(names, ["A0", "B"], "those that nobody asks for make room");
        traces.answer(now + KEPT_WHEN_FULL / 2 + KEPT, &query("item=B"), &core);
        assert_eq!(traces.0.len(), 1);
    }

    #[test]
    fn a_service_that_is_not_known_has_no_updates() {
        let (mut traces, core) = (Traces::default(), core());
        let answer = traces.answer(Nanos(1), &query("item=A&service=S"), &core);
        pass(&mut traces, "A", 1, true);
        assert_eq!((&answer["service_known"], &answer["watchers"]), (&json!(false), &Value::Null));
        assert_eq!(sequences(&traces.answer(Nanos(2), &query("item=A&service=S"), &core)), [0; 0]);
        let merged = merged(vec![answer]).expect("there is room");
        assert_eq!(merged["parts"].as_array().map(Vec::len), Some(1));
    }
}
