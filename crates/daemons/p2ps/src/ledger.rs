//! The ledger as `/ledger` shows it: what became of each update of the backbone, and of each that clients were due.

use std::collections::BTreeMap;

use market::p2ps::relay::Relay;
use market::p2ps::{ClientLedger, LostRange, PointToPoint, ServiceLedger, StreamCounts, StreamLedger};
use serde_json::{Map, Value, json};

/// Streams of one service that are listed; there is one for each source distributor that publishes it.
const STREAMS_LISTED_MAX: usize = 64;

/// A document of one hop: this server, which is all there is.
pub(crate) fn describe(core: &PointToPoint) -> Value {
    json!({ "hops": [{ "role": "p2ps", "name": core.name(), "services": services(core) }] })
}

/// What a relay knows; its clients are the shards.
pub(crate) fn describe_relay(relay: &Relay) -> Value {
    let (instance, published) = relay.published();
    let published: Map<String, Value> =
        published.map(|(name, last)| (name.to_owned(), json!(last))).collect();
    json!({
        "name": relay.core().name(),
        "instance": format!("{instance:016x}"),
        "published": published,
        "services": services(relay.core()),
    })
}

fn services(core: &PointToPoint) -> Vec<Value> {
    // The first account is that of services beyond the most that are told apart.
    let is_shown = |service: &ServiceLedger<'_>| !service.service.is_empty() || service.counts().numbers > 0;
    core.ledger().filter(is_shown).map(|service| describe_service(&service)).collect()
}

fn describe_service(service: &ServiceLedger<'_>) -> Value {
    let (listed, others) = service.streams.split_at(service.streams.len().min(STREAMS_LISTED_MAX));
    let mut ended = service.ended;
    others.iter().for_each(|stream| ended += stream.counts);
    let taken = service.taken;
    let mut streams_ended = describe_counts(&ended);
    streams_ended["lost_ranges"] = service.ended_lost.iter().map(describe_range).collect();
    json!({
        "service": service.service,
        "streams": listed.iter().map(describe_stream).collect::<Vec<Value>>(),
        "streams_ended": streams_ended,
        "taken": {
            "applied": taken.applied, "in_images": taken.in_images, "unwatched": taken.unwatched,
            "unusable": taken.unusable, "others": taken.others,
        },
        "clients": describe_clients(&service.clients),
    })
}

fn describe_stream(stream: &StreamLedger) -> Value {
    let mut described = describe_counts(&stream.counts);
    described["instance"] = json!(stream.instance.map(|instance| format!("{instance:016x}")));
    described["followed"] = json!(stream.is_followed);
    described["first"] = json!(stream.first);
    described["last"] = json!((stream.first + stream.counts.numbers).saturating_sub(1));
    described["lost_ranges"] = stream.lost.iter().map(describe_range).collect();
    described
}

fn describe_counts(counts: &StreamCounts) -> Value {
    json!({
        "numbers": counts.numbers,
        "received": counts.received,
        "lost": counts.lost,
        "standby": counts.standby,
        "behind_gaps": counts.behind_gaps,
        "dropped_behind_gaps": counts.dropped_behind_gaps,
    })
}

fn describe_range(range: &LostRange) -> Value {
    json!({"instance": format!("{:016x}", range.instance), "first": range.first, "last": range.last})
}

fn describe_clients(clients: &ClientLedger) -> Value {
    json!({
        "due": clients.due,
        "delivered": clients.delivered,
        "conflated": clients.conflated,
        "in_images": clients.in_images,
        "outside_views": clients.outside_views,
        "unusable": clients.unusable,
        "ended": clients.ended,
        "waiting": clients.waiting,
    })
}

/// The ledgers of shards, put into that of their relay: what clients were due is the sum over the shards.
pub(crate) fn merged(mut relay: Value, shards: &[Value]) -> Value {
    let mut sums: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for service in shards.iter().flat_map(|shard| array(&shard["hops"][0]["services"])) {
        let name = service["service"].as_str().unwrap_or_default();
        let sum = sums.entry(name.to_owned()).or_default();
        for (what, count) in service["clients"].as_object().into_iter().flatten() {
            let before = sum.get(what).and_then(Value::as_u64).unwrap_or(0);
            sum.insert(what.clone(), json!(before + count.as_u64().unwrap_or(0)));
        }
    }
    let published = relay["published"].take();
    let mut services = relay["services"].take();
    for service in services.as_array_mut().into_iter().flatten() {
        let name = service["service"].as_str().unwrap_or_default().to_owned();
        service["to_shards"] = service["clients"].take();
        service["to_shards"]["sequence"] = published.get(&name).cloned().unwrap_or_default();
        service["clients"] = match sums.remove(&name) {
            Some(sum) => Value::Object(sum),
            None => describe_clients(&ClientLedger::default()),
        };
    }
    let each = |(number, shard): (usize, &Value)| json!({ "shard": number, "services": shard["hops"][0]["services"] });
    json!({ "hops": [{
        "role": "p2ps", "name": relay["name"], "relay": relay["instance"], "services": services,
        "shards": shards.iter().enumerate().map(each).collect::<Vec<Value>>(),
    }] })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_were_due_is_the_sum_over_the_shards() {
        let service = |due: u64, delivered: u64| {
            let clients = ClientLedger { due, delivered, ..ClientLedger::default() };
            json!({"service": "A", "clients": describe_clients(&clients)})
        };
        let shard = |due, delivered| json!({"hops": [{"services": [service(due, delivered)]}]});
        let relay = json!({
            "name": "p", "instance": "ab", "published": {"A": 9}, "services": [service(4, 4), {"service": "B"}],
        });
        let document = merged(relay, &[shard(5, 5), shard(7, 6)]);
        let hop = &document["hops"][0];
        let (a, b) = (&hop["services"][0], &hop["services"][1]);
        assert_eq!((&a["clients"]["due"], &a["clients"]["delivered"]), (&json!(12), &json!(11)));
        assert_eq!((&a["to_shards"]["due"], &a["to_shards"]["sequence"]), (&json!(4), &json!(9)));
        assert_eq!((&b["clients"]["due"], &hop["relay"]), (&json!(0), &json!("ab")));
        assert_eq!(
            (&hop["shards"][1]["shard"], &hop["shards"][1]["services"][0]["clients"]["due"]),
            (&json!(1), &json!(7))
        );
    }
}
