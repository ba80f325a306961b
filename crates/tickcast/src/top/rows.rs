//! What is shown of several daemons: their last answers, with rates by difference to the answers before.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::hops::HopRow;
use super::look::{Busy, Client, Drain, Look, Role, ThreadTime};

/// A daemon, by its address.
#[derive(Clone, Debug, Default)]
pub(super) struct Daemon {
    pub(super) address: String,
    /// The last two answers, the newest one first.
    pub(super) looks: Vec<Look>,
    /// Why the last question has no answer.
    pub(super) reason: Option<String>,
    /// How old the newest answer is, in seconds.
    pub(super) age_s: u64,
}

impl Daemon {
    /// It has answered.
    pub(super) fn take(&mut self, look: Look) {
        // One that was started again counts from zero.
        let goes_on = |before: &Look| {
            before.process.monotonic_ns < look.process.monotonic_ns
                && before.process.uptime_ms <= look.process.uptime_ms
        };
        if !self.looks.first().is_some_and(goes_on) {
            self.looks.clear();
        }
        self.looks.insert(0, look);
        self.looks.truncate(2);
        (self.reason, self.age_s) = (None, 0);
    }
}

/// A line of each table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) daemons: Vec<DaemonRow>,
    pub(super) services: Vec<ServiceRow>,
    pub(super) clients: Vec<ClientRow>,
    pub(super) items: Vec<ItemRow>,
    pub(super) hops: Vec<HopRow>,
    /// Clients that match the filter, and all; whether some were not looked at.
    pub(super) matched: u64,
    pub(super) total: u64,
    pub(super) is_part: bool,
    /// Some daemon does not know its busiest items yet.
    pub(super) awaits_items: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DaemonRow {
    pub(super) address: String,
    pub(super) role: String,
    /// Why there is no answer; empty if there is one.
    pub(super) reason: String,
    pub(super) age_s: u64,
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    pub(super) items: Option<u64>,
    pub(super) connections: u64,
    pub(super) in_per_s: Option<f64>,
    pub(super) out_per_s: Option<f64>,
    pub(super) lost: Option<u64>,
    /// If it is drained.
    pub(super) drain: Option<Drain>,
    /// Each thread with its busy share, of one.
    pub(super) threads: Vec<(String, Option<f64>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServiceRow {
    pub(super) address: String,
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) source: String,
    pub(super) items: Option<u64>,
    pub(super) messages_per_s: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClientRow {
    /// The place of its daemon.
    pub(super) daemon: usize,
    pub(super) address: String,
    pub(super) client: Client,
    pub(super) messages_per_s: Option<f64>,
    pub(super) conflated_per_s: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ItemRow {
    pub(super) daemon: usize,
    pub(super) address: String,
    pub(super) role: String,
    pub(super) item: Busy,
}

/// In which order clients are listed. Daemons send those with the longest backlogs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Backlog,
    Rate,
    Conflated,
    User,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Backlog => Sort::Rate,
            Sort::Rate => Sort::Conflated,
            Sort::Conflated => Sort::User,
            Sort::User => Sort::Backlog,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Backlog => "backlog",
            Sort::Rate => "messages/s",
            Sort::Conflated => "conflated",
            Sort::User => "user",
        }
    }
}

impl Rows {
    pub(super) fn of(daemons: &[Daemon], sort: Sort) -> Rows {
        let mut rows = Rows::default();
        for (place, daemon) in daemons.iter().enumerate() {
            rows.add(place, daemon);
        }
        // Stable: equal ones stay in the order of daemons and ids.
        let rate = |rate: Option<f64>| rate.unwrap_or(0.0);
        rows.clients.sort_by(|a, b| match sort {
            Sort::Backlog => b.client.backlog_bytes.cmp(&a.client.backlog_bytes),
            Sort::Rate => rate(b.messages_per_s).total_cmp(&rate(a.messages_per_s)),
            Sort::Conflated => b.client.conflated.cmp(&a.client.conflated),
            Sort::User => a.client.user.cmp(&b.client.user),
        });
        rows.items.sort_by(|a, b| b.item.per_second.total_cmp(&a.item.per_second));
        rows
    }

    fn add(&mut self, place: usize, daemon: &Daemon) {
        let (reason, age_s) = (daemon.reason.clone().unwrap_or_default(), daemon.age_s);
        let Some(look) = daemon.looks.first() else {
            let reason = if reason.is_empty() { "not asked yet".to_owned() } else { reason };
            let address = daemon.address.clone();
            return self.daemons.push(DaemonRow { address, reason, age_s, ..DaemonRow::default() });
        };
        let before = daemon.looks.get(1);
        for role in &look.roles {
            let same = |before: &'_ &Role| before.role == role.role;
            let between = Between {
                before: before.and_then(|before| before.roles.iter().find(same)),
                seconds: before.map_or(0.0, |before| {
                    look.process.monotonic_ns.saturating_sub(before.process.monotonic_ns) as f64 / 1e9
                }),
            };
            let is_first = self.daemons.iter().all(|row| row.address != daemon.address);
            self.daemons.push(DaemonRow {
                address: daemon.address.clone(),
                role: role.role.clone(),
                reason: reason.clone(),
                age_s,
                version: look.process.version.clone(),
                uptime_ms: look.process.uptime_ms,
                items: role.items,
                connections: role.page.1,
                in_per_s: between.count(role, "updates_in"),
                out_per_s: ["updates_out", "stream_messages_out"]
                    .iter()
                    .find_map(|name| between.count(role, name)),
                lost: role.counts.get("messages_lost").copied(),
                drain: role.drain.clone(),
                // They are the process's, whatever its roles.
                threads: if is_first { busy_shares(look, before) } else { Vec::new() },
            });
            self.add_role(place, daemon, role, &between);
        }
    }

    fn add_role(&mut self, place: usize, daemon: &Daemon, role: &Role, between: &Between<'_>) {
        let address = &daemon.address;
        for service in &role.services {
            let same = |before: &'_ &super::look::Service| {
                before.name == service.name && before.source == service.source
            };
            let before =
                between.before.and_then(|role| role.services.iter().find(same)).and_then(|s| s.sequence);
            self.services.push(ServiceRow {
                address: address.clone(),
                name: service.name.clone(),
                up: service.up,
                source: service.source.clone(),
                items: service.items,
                messages_per_s: between.rate(before, service.sequence),
            });
        }
        if role.role == "p2ps" {
            let known = between.before.map(|role| &role.clients[..]).unwrap_or_default();
            // An id is given again to another connection.
            let known: HashMap<(u64, &str), &Client> = known.iter().map(|c| ((c.id, &*c.peer), c)).collect();
            for client in &role.clients {
                let before = known.get(&(client.id, &*client.peer));
                self.clients.push(ClientRow {
                    daemon: place,
                    address: address.clone(),
                    client: client.clone(),
                    messages_per_s: between.rate(before.and_then(|c| c.messages), client.messages),
                    conflated_per_s: between.rate(before.map(|c| c.conflated), Some(client.conflated)),
                });
            }
            self.matched += role.page.0;
            self.total += role.page.1;
            self.is_part |= role.page.2;
        }
        if matches!(&*role.role, "p2ps" | "source-distributor") {
            self.awaits_items |= role.busiest.is_none();
        }
        for hop in between.before.into_iter().flat_map(|_| &role.hops) {
            let before =
                between.before.and_then(|role| role.hops.iter().find(|before| before.hop == hop.hop));
            self.hops.push(HopRow::of(address, role, hop, before));
        }
        for item in role.busiest.iter().flatten() {
            let (address, role) = (address.clone(), role.role.clone());
            self.items.push(ItemRow { daemon: place, address, role, item: item.clone() });
        }
    }

    /// The same for programs.
    pub(super) fn to_json(&self) -> Value {
        let daemon = |row: &DaemonRow| {
            let thread = |(name, share): &(String, Option<f64>)| json!({"name": name, "busy_share": share.map(rounded)});
            json!({
                "address": row.address, "answers": row.reason.is_empty(),
                "reason": (!row.reason.is_empty()).then_some(&row.reason), "role": row.role, "version": row.version,
                "uptime_ms": row.uptime_ms, "items": row.items, "connections": row.connections,
                "in_per_second": row.in_per_s.map(rounded), "out_per_second": row.out_per_s.map(rounded), "lost": row.lost,
                "threads": row.threads.iter().map(thread).collect::<Vec<Value>>(),
                "drain": row.drain.as_ref().map(|drain| json!({
                    "state": drain.state, "connections_left": drain.left, "moved": drain.moved, "ends_in_ms": drain.ends_in_ms,
                })),
            })
        };
        let service = |row: &ServiceRow| {
            json!({
                "address": row.address, "name": row.name, "up": row.up, "source": row.source, "items": row.items,
                "messages_per_second": row.messages_per_s.map(rounded),
            })
        };
        let client = |row: &ClientRow| {
            let c = &row.client;
            json!({
                "address": row.address, "id": c.id, "user": c.user, "application": c.application, "peer": c.peer,
                "protocol": c.protocol, "state": c.state, "step": c.step, "streams": c.streams,
                "backlog_bytes": c.backlog_bytes, "messages_per_second": row.messages_per_s.map(rounded),
                "updates_conflated": c.conflated, "changed_streams": c.changed, "conflated_per_second": row.conflated_per_s.map(rounded),
            })
        };
        let item = |row: &ItemRow| {
            let i = &row.item;
            json!({
                "address": row.address, "role": row.role, "service": i.service, "domain": i.domain, "name": i.name,
                "updates_per_second": rounded(i.per_second), "watchers": i.watchers,
            })
        };
        json!({
            "hops": self.hops.iter().map(HopRow::to_json).collect::<Vec<Value>>(),
            "daemons": self.daemons.iter().map(daemon).collect::<Vec<Value>>(),
            "services": self.services.iter().map(service).collect::<Vec<Value>>(),
            "clients": self.clients.iter().map(client).collect::<Vec<Value>>(),
            "clients_matched": self.matched, "clients_total": self.total,
            "items": self.items.iter().map(item).collect::<Vec<Value>>(),
        })
    }
}

/// Three digits are enough for people, and for programs that read what is for people.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Two answers of a role.
struct Between<'a> {
    before: Option<&'a Role>,
    seconds: f64,
}

impl Between<'_> {
    fn count(&self, role: &Role, name: &str) -> Option<f64> {
        self.rate(self.before?.counts.get(name).copied(), role.counts.get(name).copied())
    }

    fn rate(&self, before: Option<u64>, now: Option<u64>) -> Option<f64> {
        (self.seconds > 0.0).then_some(())?;
        Some(now?.checked_sub(before?)? as f64 / self.seconds)
    }
}

fn busy_shares(look: &Look, before: Option<&Look>) -> Vec<(String, Option<f64>)> {
    let share = |now: &ThreadTime| {
        let before = before?.process.threads.iter().find(|before| before.name == now.name)?;
        let working = now.working_ns.checked_sub(before.working_ns)? as f64;
        let all = working + now.waiting_ns.checked_sub(before.waiting_ns)? as f64;
        (all > 0.0).then_some(working / all)
    };
    look.process.threads.iter().map(|thread| (thread.name.clone(), share(thread))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two answers a second apart of a P2PS with two threads, and one that does not answer.
    pub(in crate::top) fn daemons() -> Vec<Daemon> {
        let mut p2ps = Daemon { address: "localhost:14082".to_owned(), ..Daemon::default() };
        p2ps.take(Look::parse(p2ps_at(0).to_string().as_bytes()).expect("it is one"));
        p2ps.take(Look::parse(p2ps_at(1).to_string().as_bytes()).expect("it is one"));
        let reason = Some("connection refused: no admin port is open there".to_owned());
        vec![p2ps, Daemon { address: "backup:14082".to_owned(), reason, ..Daemon::default() }]
    }

    /// What it says after so many seconds.
    pub(in crate::top) fn p2ps_at(second: u64) -> Value {
        let client = |id: u64, user: &str, backlog: u64, messages: u64, conflated: u64| {
            let step = if conflated > 0 { "conflated" } else { "tick" };
            json!({
                "id": id, "user": user, "application": "viewer", "peer": format!("10.0.0.{id}:4000"), "protocol": "rssl",
                "state": "open", "step": step, "streams": 12, "backlog_bytes": backlog, "updates_conflated": conflated, "changed_streams": conflated / 30,
                "connection": {"sent": {"messages": messages}},
            })
        };
        let busy = |name: &str, rate: f64| json!({"service": "BINANCE", "domain": 6, "name": name, "updates_per_second": rate, "watchers": 2});
        let thread = |name: &str, working: u64| json!({"name": name, "working_ns": working, "waiting_ns": 1_000_000_000 * (1 + second) - working});
        json!({
            "role": "p2ps", "items": 24, "page": {"total": 20, "matched": 20, "looked_at": 20, "next": null},
            "counts": {"updates_in": 1_000 + 500 * second, "updates_out": 2_000 + 1_500 * second, "messages_lost": 3},
            "services": [{"name": "BINANCE", "up": true, "instance": "00f1", "items": 24, "sequence": 100 + 510 * second}],
            "clients": [
                client(7, "frozen", 5_242_880, 40, 90 + 30 * second), client(1, "desk-1", 10, 10 + 250 * second, 0),
                client(2, "desk-2", 0, 10 + 750 * second, 0),
            ],
            "busiest": [busy("BTCUSDT", 321.5), busy("ETHUSDT", 90.0)],
            "process": {
                "version": "0.1.0", "uptime_ms": 93_784_000 + 1_000 * second, "disconnects": true,
                "monotonic_ns": 5_000_000_000_u64 + 1_000_000_000 * second,
                "threads": [thread("p2ps", 250_000_000 * second), thread("p2ps shard 0", 900_000_000 * second)],
            },
        })
    }

    #[test]
    fn rates_and_shares_are_differences_over_the_daemons_own_clock() {
        let rows = Rows::of(&daemons(), Sort::Backlog);
        let p2ps = &rows.daemons[0];
        assert_eq!((p2ps.in_per_s, p2ps.out_per_s, p2ps.lost), (Some(500.0), Some(1500.0), Some(3)));
        assert_eq!(p2ps.threads, [("p2ps".to_owned(), Some(0.25)), ("p2ps shard 0".to_owned(), Some(0.9))]);
        assert_eq!(rows.services[0].messages_per_s, Some(510.0));
        let clients: Vec<(&str, Option<f64>, Option<f64>)> = rows
            .clients
            .iter()
            .map(|row| (&*row.client.user, row.messages_per_s, row.conflated_per_s))
            .collect();
        let expected = [
            ("frozen", Some(0.0), Some(30.0)),
            ("desk-1", Some(250.0), Some(0.0)),
            ("desk-2", Some(750.0), Some(0.0)),
        ];
        assert_eq!(clients, expected);
        assert!(rows.daemons[1].reason.starts_with("connection refused"));
    }

    #[test]
    fn clients_are_listed_in_the_order_that_is_wanted() {
        let first = |sort| Rows::of(&daemons(), sort).clients[0].client.user.clone();
        assert_eq!(
            [Sort::Backlog, Sort::Rate, Sort::Conflated, Sort::User].map(first),
            ["frozen", "desk-2", "frozen", "desk-1"]
        );
        assert_eq!(Sort::Backlog.next().next().next().next(), Sort::Backlog);
    }

    #[test]
    fn a_daemon_that_was_started_again_has_no_rates_until_it_has_answered_twice() {
        let mut daemon = daemons().remove(0);
        let mut again = p2ps_at(2);
        again["process"]["uptime_ms"] = json!(5);
        daemon.take(Look::parse(again.to_string().as_bytes()).expect("it is one"));
        let rows = Rows::of(&[daemon], Sort::Backlog);
        assert_eq!((rows.daemons[0].in_per_s, rows.clients[0].messages_per_s), (None, None));
    }

    #[test]
    fn another_connection_with_the_same_id_has_no_rate_of_the_one_before() {
        let mut daemon = daemons().remove(0);
        let mut next = p2ps_at(2);
        next["clients"][1]["peer"] = json!("10.9.9.9:1");
        daemon.take(Look::parse(next.to_string().as_bytes()).expect("it is one"));
        let rows = Rows::of(&[daemon], Sort::Backlog);
        let rates: Vec<Option<f64>> = rows.clients.iter().map(|row| row.messages_per_s).collect();
        assert_eq!(rates, [Some(0.0), None, Some(750.0)]);
    }

    #[test]
    fn programs_get_the_same() {
        let json = Rows::of(&daemons(), Sort::Backlog).to_json();
        assert_eq!(json["daemons"][0]["threads"][1], json!({"name": "p2ps shard 0", "busy_share": 0.9}));
        assert_eq!(json["daemons"][1]["answers"], json!(false));
        assert_eq!(json["clients"][0]["step"], json!("conflated"));
        assert_eq!(json["items"][0]["name"], json!("BTCUSDT"));
    }
}
