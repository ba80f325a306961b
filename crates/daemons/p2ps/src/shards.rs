//! What the threads of a server with several shards have in common, and how they describe themselves as one.

use std::sync::Arc;

use counters::Registry;
use daemon::{Described, OrderError, Query, Status, StatusError, Wish};
use market::ServiceNames;
use market::p2ps::ServerConfig;
use serde_json::{Value, json};
use server::{Exchange, Seat};

use crate::{P2psConfig, drain, ledger, trace};

/// The shards of a server.
pub struct Shards {
    config: P2psConfig,
    count: u32,
    /// Copies share what is counted of classes of users.
    core: ServerConfig,
    rssl: Arc<Exchange>,
    websocket: Arc<Exchange>,
}

/// One of them.
pub struct Shard {
    pub(crate) config: P2psConfig,
    pub(crate) core: ServerConfig,
    pub(crate) number: u32,
    /// How many there are.
    pub(crate) count: u32,
    /// Its places at the ports, if there are several.
    pub(crate) rssl: Option<Seat>,
    pub(crate) websocket: Option<Seat>,
}

impl Shards {
    /// So many as the configuration says.
    #[must_use]
    pub fn new(config: &P2psConfig) -> Shards {
        let shards = config.shard_count();
        let (count, config) = (shards as usize, config.of_shard());
        Shards {
            count: shards,
            // The relay is the only source distributor of a shard.
            core: ServerConfig {
                kept_images_max: Some(config.shard_images_max as usize),
                hot: ServiceNames::default(),
                ..config.core()
            },
            rssl: Exchange::new(count, config.rssl.connections_per_address_max as usize),
            websocket: Exchange::new(count, config.websocket.connections_per_address_max as usize),
            config,
        }
    }

    /// The shard of a number, from 0 on. The first one has the listening sockets.
    #[must_use]
    pub fn shard(&self, number: u32) -> Shard {
        let place = number as usize;
        Shard {
            config: self.config.clone(),
            core: self.core.clone(),
            number,
            count: self.count,
            rssl: Some(Seat::new(&self.rssl, place)),
            websocket: Some(Seat::new(&self.websocket, place)),
        }
    }
}

impl Shard {
    /// A server that is all there is.
    pub(crate) fn alone(config: &P2psConfig) -> Shard {
        let (config, core) = (config.clone(), config.core());
        Shard { config, core, number: 0, count: 1, rssl: None, websocket: None }
    }

    /// The labels of what it counts, behind `labels`.
    pub(crate) fn labelled<R>(
        &self,
        labels: &[(&str, &str)],
        use_labels: impl FnOnce(&[(&str, &str)]) -> R,
    ) -> R {
        if self.rssl.is_none() {
            return use_labels(labels);
        }
        let number = self.number.to_string();
        use_labels(&[labels, &[("shard", number.as_str())]].concat())
    }

    /// Where what only one thread of a process may count is counted.
    pub(crate) fn once(&self, registry: &Registry) -> Registry {
        if self.number == 0 { registry.clone() } else { Registry::default() }
    }

    /// What is added to the numbers of its clients, so that no other shard has them.
    pub(crate) fn first_id(&self) -> u64 {
        u64::from(self.number) << 32
    }
}

/// One description of a relay and its shards.
#[must_use]
pub fn describe_as_one(relay: Status, shards: Vec<Status>) -> Described {
    let mut threads = vec![relay.thread("p2ps")];
    threads.extend(shards.iter().enumerate().map(|(at, status)| status.thread(&format!("p2ps shard {at}"))));
    let (clients_of, relay_too, shards_too) = (shards.clone(), relay.clone(), shards.clone());
    let shards_traced = shards.clone();
    let described = Described::new(
        threads,
        move |query| {
            let query = Query::parse(query, daemon::Parameter::ALL).map_err(StatusError::Query)?;
            let all = Status::ask_all(&shards, &query)?;
            // It has the images of all items, each shard only those that it needs.
            let relay = match query.item() {
                None => relay.read(),
                Some(_) => Status::ask_all(std::slice::from_ref(&relay), &query)?.pop().unwrap_or_default(),
            };
            Ok(merged(&query, relay, all))
        },
        move |order| match order.wish {
            // The upper half of a client's number is that of its shard.
            Wish::Disconnect { client, .. } => {
                let shard = usize::try_from(client >> 32).ok().and_then(|number| clients_of.get(number));
                shard.ok_or(OrderError::NoClient(client))?.order(order)
            }
            Wish::Drain { .. } | Wish::Undrain => Ok(drain::merged(&Status::order_all(&clients_of, &order)?)),
        },
    );
    // First the relay: what it has sent by then, shards have taken, or it is on its way.
    let described = described.and_ledger(move || {
        let relay = relay_too.ask_ledger()?;
        Ok(ledger::merged(relay, &Status::ask_all(&shards_too, &Query::ledger())?))
    });
    described.and_trace(move |query| {
        let query = Query::trace(query).map_err(StatusError::Query)?;
        trace::merged(Status::ask_all(&shards_traced, &query)?)
    })
}

/// The descriptions of shards, put into that of their relay.
fn merged(query: &Query, relay: Value, shards: Vec<Value>) -> Value {
    let count = |shard: &Value, key: &str| shard[key].as_u64().unwrap_or(0);
    let sum = |key: &str| shards.iter().map(|shard| count(shard, key)).sum::<u64>();
    let page = |key: &str| shards.iter().map(|shard| count(&shard["page"], key)).sum::<u64>();
    let (total, looked_at, matched) = (page("total"), page("looked_at"), page("matched"));
    let mut users = shards.first().map_or(Value::Null, |shard| shard["users"].clone());
    let denied = shards.iter().filter_map(|shard| shard["users"]["denied"].as_array()).flatten().cloned();
    users["denied"] = denied.collect();
    let each = |(number, shard): (usize, &Value)| {
        json!({
            "shard": number, "connections": shard["connections"], "items": shard["items"],
            "intake": shard["intake"],
        })
    };
    let mut document = json!({
        "role": "p2ps",
        "services": merged_services(&relay, &shards), "items": relay["items"], "intake": relay["intake"],
        "counts": merged_counts(&relay, &shards),
        "users": users, "hops": merged_hops(&shards),
        "drain": drain::merged(&shards.iter().map(|shard| shard["drain"].clone()).collect::<Vec<Value>>()),
        "connections": sum("connections"), "websocket_connections": sum("websocket_connections"),
        "shards": shards.iter().enumerate().map(each).collect::<Vec<Value>>(),
    });
    if query.busiest() > 0 {
        document["busiest"] = merged_busiest(query.busiest(), &shards);
    }
    if query.item().is_some() {
        document["item"] = merged_item(&relay, &shards);
    }
    let (clients, next) = merged_clients(query, shards);
    document["page"] = json!({"total": total, "looked_at": looked_at, "matched": matched, "next": next});
    document["clients"] = Value::Array(clients);
    document
}

/// The services that clients see, composed ones too, with their ids; and where each comes from, which the relay knows.
fn merged_services(relay: &Value, shards: &[Value]) -> Value {
    let relayed = relay["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(seen) = shards.first().and_then(|shard| shard["services"].as_array()) else {
        return json!(relayed);
    };
    let describe = |service: &Value| {
        let mut service = service.clone();
        if let Some(of_relay) = relayed.iter().find(|known| known["name"] == service["name"]) {
            for key in ["instance", "items", "sequence", "hot"] {
                if let Some(value) = of_relay.get(key) {
                    service[key] = value.clone();
                }
            }
        }
        service
    };
    seen.iter().map(describe).collect()
}

/// What comes in is counted where it comes from the backbone, what goes out where clients are.
fn merged_counts(relay: &Value, shards: &[Value]) -> Value {
    let mut counts = relay["counts"].clone();
    for key in ["updates_out", "updates_conflated"] {
        let of_shards = shards.iter().map(|shard| shard["counts"][key].as_u64().unwrap_or(0));
        counts[key] = json!(of_shards.sum::<u64>());
    }
    counts
}

/// The latencies of each hop: an update counts at each shard that has it.
fn merged_hops(shards: &[Value]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    for hop in shards.iter().filter_map(|shard| shard["hops"].as_array()).flatten() {
        match all.iter_mut().find(|known| known["hop"] == hop["hop"]) {
            None => all.push(hop.clone()),
            Some(known) => {
                add(known, hop, "sum_ns");
                let sums = known["buckets"].as_array_mut().into_iter().flatten();
                for (sum, count) in sums.zip(hop["buckets"].as_array().into_iter().flatten()) {
                    *sum = json!(sum.as_u64().unwrap_or(0) + count.as_u64().unwrap_or(0));
                }
            }
        }
    }
    Value::Array(all)
}

/// The busiest items of all shards. One that is among the busiest of all is among the busiest of each shard that watches
/// it, so nothing is missing; each shard looks by itself, so of the rates the highest counts.
fn merged_busiest(count: usize, shards: &[Value]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    // Until all know theirs, an order would be wrong.
    let Some(lists) = shards.iter().map(|shard| shard["busiest"].as_array()).collect::<Option<Vec<_>>>()
    else {
        return Value::Null;
    };
    let same =
        |one: &Value, other: &Value| ["service", "domain", "name"].iter().all(|key| one[key] == other[key]);
    for item in lists.into_iter().flatten() {
        match all.iter_mut().find(|known| same(known, item)) {
            None => all.push(item.clone()),
            Some(known) => {
                let rate = |item: &Value| item["updates_per_second"].as_f64().unwrap_or(0.0);
                known["updates_per_second"] = json!(rate(known).max(rate(item)));
                add(known, item, "watchers");
            }
        }
    }
    let rate = |item: &Value| item["updates_per_second"].as_f64().unwrap_or(0.0);
    all.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    all.truncate(count);
    Value::Array(all)
}

/// An item as the relay sees it, which has its image, with the watchers that it has at the shards.
fn merged_item(relay: &Value, shards: &[Value]) -> Value {
    let known = shards.iter().map(|shard| &shard["item"]).filter(|item| !item.is_null());
    let mut item = relay["item"].clone();
    if !item.is_null() {
        item["watchers"] = json!(0);
        known.for_each(|other| add(&mut item, other, "watchers"));
    }
    item
}

fn add(to: &mut Value, other: &Value, key: &str) {
    to[key] = json!(to[key].as_u64().unwrap_or(0) + other[key].as_u64().unwrap_or(0));
}

/// The clients of shards in the order that is asked for, and where the next page begins. Numbers of clients rise from
/// shard to shard, so that a shard that has more to show ends the page.
fn merged_clients(query: &Query, shards: Vec<Value>) -> (Vec<Value>, Value) {
    let (mut clients, mut next) = (Vec::new(), Value::Null);
    for mut shard in shards {
        if let Value::Array(more) = shard["clients"].take() {
            clients.extend(more);
        }
        next = shard["page"]["next"].take();
        if !next.is_null() {
            break;
        }
    }
    if query.is_by_backlog() {
        // Stable: equal ones stay in the order of their ids.
        let backlog = |client: &Value| client["backlog_bytes"].as_u64().unwrap_or(0);
        clients.sort_by_key(|client| std::cmp::Reverse(backlog(client)));
        clients.truncate(query.limit());
    } else if clients.len() > query.limit() {
        clients.truncate(query.limit());
        next = clients.last().map_or(Value::Null, |last| last["id"].clone());
    }
    (clients, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(number: u64, backlogs: &[u64], next: Option<u64>) -> Value {
        let client = |(at, backlog): (usize, &u64)| json!({"id": (number << 32) + at as u64, "backlog_bytes": backlog});
        let clients: Vec<Value> = backlogs.iter().enumerate().map(client).collect();
        let count = clients.len();
        json!({
            "connections": count, "websocket_connections": 1, "items": 5, "users": {"listed": 3, "denied": [{"user": number.to_string()}]}, "clients": clients,
            "page": {"total": count, "looked_at": count, "matched": count, "next": next},
        })
    }

    #[test]
    fn who_was_denied_at_any_shard_is_shown() {
        let query = Query::default();
        let all = merged(&query, json!({}), vec![shard(0, &[], None), shard(1, &[], None)]);
        assert_eq!(all["users"], json!({"listed": 3, "denied": [{"user": "0"}, {"user": "1"}]}));
    }

    fn page(text: &str, shards: Vec<Value>) -> (Vec<u64>, Value, Value) {
        let query = Query::parse(text, daemon::Parameter::ALL).expect("it is allowed");
        let relay = json!({"items": 7, "services": [{"name": "A", "up": true}]});
        let all = merged(&query, relay, shards);
        let ids = all["clients"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|client| client["id"].as_u64().expect("a number"));
        (ids.collect(), all["page"].clone(), all["items"].clone())
    }

    #[test]
    fn shards_are_described_as_one_server() {
        let (ids, page, items) = page("", vec![shard(0, &[3, 1], None), shard(1, &[2], None)]);
        assert_eq!((ids, items), (vec![0, 1, 1 << 32], json!(7)));
        assert_eq!(page, json!({"total": 3, "looked_at": 3, "matched": 3, "next": null}));
    }

    #[test]
    fn services_are_those_that_clients_see_and_come_from_where_the_relay_has_them() {
        let relay = json!({"services": [
            {"id": 9, "name": "A", "up": true, "instance": "ab", "items": 7, "sequence": 30},
            {"id": 8, "name": "NEW", "up": true, "instance": "ab"},
        ]});
        let of_shard = json!({"services": [
            {"id": 2, "name": "A", "up": true, "instance": "cd", "items": 3, "sequence": 5},
            {"id": 3, "name": "ALL", "up": true, "instance": null, "items": 0, "sequence": null},
        ]});
        assert_eq!(
            merged_services(&relay, &[of_shard.clone(), of_shard.clone()]),
            json!([
                {"id": 2, "name": "A", "up": true, "instance": "ab", "items": 7, "sequence": 30},
                of_shard["services"][1],
            ])
        );
        assert_eq!(merged_services(&relay, &[json!({})]), relay["services"]);
    }

    #[test]
    fn items_and_counts_of_shards_are_put_together() {
        let busy = |name: &str, rate: f64, watchers: u64| json!({"service": "A", "domain": 6, "name": name, "updates_per_second": rate, "watchers": watchers});
        let of_shard = |number: u64, items: Value, item: Value| {
            let mut shard = shard(number, &[], None);
            shard["busiest"] = items;
            shard["item"] = item;
            shard["counts"] = json!({"updates_in": 5, "updates_out": 10, "updates_conflated": number});
            shard
        };
        let query = Query::parse("busiest=2&item=X", daemon::Parameter::ALL).expect("it is allowed");
        let relay = json!({
            "counts": {"updates_in": 7, "updates_out": 20, "messages_lost": 3},
            "item": {"name": "X", "image": ["22"], "watchers": 2},
        });
        let first =
            of_shard(0, json!([busy("X", 9.0, 1), busy("Y", 2.0, 4)]), json!({"name": "X", "watchers": 1}));
        let second =
            of_shard(1, json!([busy("Z", 9.5, 1), busy("X", 10.0, 2)]), json!({"name": "X", "watchers": 2}));
        let all = merged(&query, relay.clone(), vec![first.clone(), second]);
        assert_eq!(all["busiest"], json!([busy("X", 10.0, 3), busy("Z", 9.5, 1)]));
        assert_eq!(all["item"], json!({"name": "X", "image": ["22"], "watchers": 3}));
        let counts = json!({"updates_in": 7, "updates_out": 20, "updates_conflated": 1, "messages_lost": 3});
        assert_eq!(all["counts"], counts);
        let unknown = merged(&query, relay, vec![first, of_shard(1, Value::Null, Value::Null)]);
        assert_eq!((&unknown["busiest"], &unknown["item"]["watchers"]), (&Value::Null, &json!(1)));
        let nobodys = merged(&query, json!({"counts": {}, "item": null}), vec![shard(0, &[], None)]);
        assert_eq!(nobodys["item"], Value::Null);
    }

    #[test]
    fn latencies_of_hops_are_the_sums_of_shards() {
        let hop =
            |name: &str, buckets: [u64; 3], sum: u64| json!({"hop": name, "buckets": buckets, "sum_ns": sum});
        let first = json!({"hops": [hop("backbone", [1, 2, 0], 5)]});
        let second = json!({"hops": [hop("backbone", [0, 1, 7], 9), hop("p2ps", [1, 0, 0], 1)]});
        let all = merged_hops(&[first, json!({}), second]);
        assert_eq!(all, json!([hop("backbone", [1, 3, 7], 14), hop("p2ps", [1, 0, 0], 1)]));
    }

    #[test]
    fn a_page_ends_where_a_shard_has_more_or_where_it_is_full() {
        let (ids, first, _) = page("limit=2", vec![shard(0, &[0, 0], Some(1)), shard(1, &[0], None)]);
        assert_eq!((ids, &first["next"]), (vec![0, 1], &json!(1)));
        let (ids, second, _) = page("limit=2", vec![shard(0, &[0], None), shard(1, &[0, 0], None)]);
        assert_eq!((ids, &second["next"]), (vec![0, 1 << 32], &json!(1_u64 << 32)));
        let (ids, third, _) =
            page("limit=2&sort=backlog", vec![shard(0, &[5, 1], None), shard(1, &[2, 9], None)]);
        assert_eq!((ids, &third["next"]), (vec![(1 << 32) + 1, 0], &Value::Null));
    }
}
