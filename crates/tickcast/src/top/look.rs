//! What a daemon's `/status` says, as `top` uses it. Whatever is at the address has written it: what is missing or of
//! another type is left out, lists are bounded, and texts are made fit for a terminal.

use crate::terminal::shown;
use std::collections::BTreeMap;

use counters::table::HopLatency;
use serde_json::Value;

/// Most entries of a list that are looked at.
const ENTRIES_MAX: usize = 1_000;
/// Most characters of a text that is shown.
const TEXT_CHARS_MAX: usize = 128;

/// One answer of a daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) process: Process,
    /// One, or the roles of a demo.
    pub(super) roles: Vec<Role>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    /// The daemon's clock, which rates go by.
    pub(super) monotonic_ns: u64,
    pub(super) disconnects: bool,
    pub(super) threads: Vec<ThreadTime>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ThreadTime {
    pub(super) name: String,
    pub(super) working_ns: u64,
    pub(super) waiting_ns: u64,
    pub(super) silent_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Role {
    pub(super) role: String,
    pub(super) items: Option<u64>,
    /// Connections that match the filter, all of them, whether some were not looked at.
    pub(super) page: (u64, u64, bool),
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) services: Vec<Service>,
    pub(super) clients: Vec<Client>,
    /// `None` until the daemon knows.
    pub(super) busiest: Option<Vec<Busy>>,
    /// Those of which updates with hop stamps have passed.
    pub(super) hops: Vec<HopCounts>,
    /// If it is drained, or was.
    pub(super) drain: Option<Drain>,
}

/// How far the drain of a P2PS is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drain {
    /// As `/status` has it: `draining` or `drained`.
    pub(super) state: String,
    pub(super) left: u64,
    pub(super) moved: u64,
    pub(super) ends_in_ms: u64,
}

/// How many updates took how long over a hop, since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HopCounts {
    pub(super) hop: String,
    pub(super) buckets: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) source: String,
    pub(super) items: Option<u64>,
    pub(super) sequence: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) user: String,
    pub(super) application: String,
    pub(super) peer: String,
    pub(super) protocol: String,
    pub(super) state: String,
    pub(super) step: String,
    pub(super) streams: u64,
    pub(super) backlog_bytes: u64,
    /// Messages sent since it is connected.
    pub(super) messages: Option<u64>,
    pub(super) conflated: u64,
    /// Streams whose newest values wait until it has room.
    pub(super) changed: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Busy {
    pub(super) service: String,
    pub(super) domain: u64,
    pub(super) name: String,
    pub(super) per_second: f64,
    pub(super) watchers: u64,
}

impl Look {
    /// Reads an answer.
    ///
    /// # Errors
    /// It is no description of a daemon.
    pub(super) fn parse(body: &[u8]) -> Result<Look, String> {
        let document: Value =
            serde_json::from_slice(body).map_err(|error| format!("its /status is no JSON: {error}"))?;
        let Some(object) = document.as_object() else {
            return Err("the daemon has not described itself yet".to_owned());
        };
        let alone = [&document];
        let is_one = document["role"].is_string();
        let several = object.values().filter(|value| value["role"].is_string()).take(8);
        let roles: Vec<Role> =
            if is_one { alone.into_iter().map(role).collect() } else { several.map(role).collect() };
        if roles.is_empty() {
            return Err("its /status is not that of a daemon of Tickcast".to_owned());
        }
        Ok(Look { process: process(&document["process"]), roles })
    }
}

fn process(value: &Value) -> Process {
    let thread = |value: &Value| ThreadTime {
        name: text(&value["name"]),
        working_ns: number(&value["working_ns"]),
        waiting_ns: number(&value["waiting_ns"]),
        silent_ms: number(&value["silent_ms"]),
    };
    Process {
        version: text(&value["version"]),
        uptime_ms: number(&value["uptime_ms"]),
        monotonic_ns: number(&value["monotonic_ns"]),
        disconnects: value["disconnects"] == Value::Bool(true),
        threads: list(&value["threads"]).map(thread).collect(),
    }
}

fn role(value: &Value) -> Role {
    let page = &value["page"];
    let counts = value["counts"].as_object().into_iter().flatten().take(64);
    Role {
        role: text(&value["role"]),
        items: value["items"].as_u64(),
        page: (number(&page["matched"]), number(&page["total"]), !page["next"].is_null()),
        counts: counts.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect(),
        services: list(&value["services"]).map(service).collect(),
        clients: list(&value["clients"]).filter_map(client).collect(),
        busiest: value["busiest"].as_array().map(|_| list(&value["busiest"]).map(busy).collect()),
        // Of other buckets it is not known what they stand for.
        hops: list(&value["hops"])
            .map(hop)
            .filter(|hop| hop.buckets.len() == HopLatency::BUCKETS)
            .take(16)
            .collect(),
        drain: drain(&value["drain"]),
    }
}

fn drain(value: &Value) -> Option<Drain> {
    let state = text(&value["state"]);
    matches!(&*state, "draining" | "drained").then(|| Drain {
        state,
        left: number(&value["connections_left"]),
        moved: number(&value["moved"]),
        ends_in_ms: number(&value["ends_in_ms"]),
    })
}

fn hop(value: &Value) -> HopCounts {
    HopCounts { hop: text(&value["hop"]), buckets: list(&value["buckets"]).map(number).collect() }
}

fn service(value: &Value) -> Service {
    Service {
        name: text(&value["name"]),
        up: value["up"] == Value::Bool(true),
        source: text(&value["instance"]),
        items: value["items"].as_u64(),
        sequence: value["sequence"].as_u64(),
    }
}

fn client(value: &Value) -> Option<Client> {
    Some(Client {
        id: value["id"].as_u64()?,
        user: text(&value["user"]),
        application: text(&value["application"]),
        peer: text(&value["peer"]),
        protocol: text(&value["protocol"]),
        state: text(&value["state"]),
        step: text(&value["step"]),
        streams: number(&value["streams"]),
        backlog_bytes: number(&value["backlog_bytes"]),
        messages: value["connection"]["sent"]["messages"].as_u64(),
        conflated: number(&value["updates_conflated"]),
        changed: number(&value["changed_streams"]),
    })
}

fn busy(value: &Value) -> Busy {
    Busy {
        service: text(&value["service"]),
        domain: number(&value["domain"]),
        name: text(&value["name"]),
        per_second: value["updates_per_second"].as_f64().filter(|rate| rate.is_finite()).unwrap_or(0.0),
        watchers: value["watchers"].as_u64().unwrap_or_else(|| number(&value["peers"])),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(ENTRIES_MAX)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    clean(value.as_str().unwrap_or_default())
}

/// A text that a terminal shows as it is: clients choose their names, and escape sequences would be carried out.
pub(super) fn clean(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).map(shown).collect()
}

/// Most lines of a description.
const LINES_MAX: usize = 600;

/// A part of a description as lines for people: the path of each value, and the value.
pub(super) fn lines(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    describe(value, "", &mut lines);
    lines
}

fn describe(value: &Value, path: &str, lines: &mut Vec<String>) {
    if lines.len() >= LINES_MAX {
        return;
    }
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                let path = if path.is_empty() { clean(name) } else { format!("{path}.{}", clean(name)) };
                describe(part, &path, lines);
            }
        }
        // Lines of a text: the image of an item.
        Value::Array(texts) if texts.iter().all(Value::is_string) && !texts.is_empty() => {
            lines.push(format!("{path}:"));
            let room = LINES_MAX - lines.len();
            lines.extend(texts.iter().take(room).map(|line| format!("  {}", text(line))));
        }
        Value::String(text) => lines.push(format!("{path:<32} {}", clean(text))),
        Value::Null => lines.push(format!("{path:<32} -")),
        other => lines.push(format!("{path:<32} {}", clean(&other.to_string()))),
    }
}

/// What a description has of a client or an item, wherever the role stands.
pub(super) fn find<'v>(
    document: &'v Value,
    in_role: impl Fn(&'v Value) -> Option<&'v Value>,
) -> Option<&'v Value> {
    in_role(document).or_else(|| document.as_object()?.values().find_map(in_role))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_daemon_is_read_alone_and_in_a_demo() {
        let p2ps = json!({
            "role": "p2ps", "items": 3, "counts": {"updates_in": 7, "odd": "x"},
            "services": [{"name": "A", "up": true, "instance": "0f", "items": 3, "sequence": 9}],
            "clients": [{"id": 4, "user": "me", "step": "tick", "backlog_bytes": 5, "connection": {"sent": {"messages": 8}}}, {"user": "nobody"}],
            "page": {"total": 20, "matched": 2, "next": 4}, "busiest": [{"name": "I", "updates_per_second": 2.5, "watchers": 1}],
            "process": {"version": "1", "monotonic_ns": 6, "threads": [{"name": "p2ps", "working_ns": 1}]},
        });
        let look = Look::parse(p2ps.to_string().as_bytes()).expect("it is one");
        let role = &look.roles[0];
        assert_eq!((role.page, role.items, role.clients.len()), ((2, 20, true), Some(3), 1));
        assert_eq!((role.clients[0].messages, role.counts.get("updates_in")), (Some(8), Some(&7)));
        assert_eq!(look.process.threads[0].name, "p2ps");
        let demo = json!({"source_distributor": {"role": "source-distributor"}, "p2ps": p2ps, "process": {}});
        let look = Look::parse(demo.to_string().as_bytes()).expect("it is one");
        let roles: Vec<&str> = look.roles.iter().map(|role| &*role.role).collect();
        assert_eq!(roles, ["p2ps", "source-distributor"]);
    }

    #[test]
    fn strange_servers_are_named_and_never_believed() {
        let said = |body: &str| Look::parse(body.as_bytes()).expect_err("it is none");
        assert!(said("<html>").starts_with("its /status is no JSON: "));
        assert_eq!(said("null"), "the daemon has not described itself yet");
        assert_eq!(said("[1]"), "the daemon has not described itself yet");
        assert_eq!(said("{\"status\":\"UP\"}"), "its /status is not that of a daemon of Tickcast");
        assert!(said(&"[".repeat(10_000)).starts_with("its /status is no JSON: "), "too deep");
        let odd = json!({
            "role": "p2ps", "clients": {"id": 1}, "services": [5, null], "page": "x", "counts": [1], "items": -1,
            "busiest": [{"updates_per_second": "many"}], "process": [], "drain": {"state": 5},
        });
        let look = Look::parse(odd.to_string().as_bytes()).expect("its role says so");
        let role = &look.roles[0];
        assert_eq!(role.drain, None, "serving, or no state that is known");
        assert_eq!(
            (role.clients.len(), role.services.len(), role.items, role.page),
            (0, 2, None, (0, 0, false))
        );
        let many =
            json!({"role": "p2ps", "clients": (0..5_000).map(|id| json!({"id": id})).collect::<Vec<_>>()});
        let look = Look::parse(many.to_string().as_bytes()).expect("its role says so");
        assert_eq!(look.roles[0].clients.len(), ENTRIES_MAX);
    }

    #[test]
    fn names_of_clients_do_not_reach_the_terminal_as_they_are() {
        assert_eq!(clean("a\u{1b}[2Jb\r\n\u{9b}c"), "a?[2Jb???c");
        assert_eq!(clean(&"x".repeat(500)).len(), TEXT_CHARS_MAX);
    }

    #[test]
    fn descriptions_are_lines_of_paths_and_values() {
        let item = json!({"name": "A\u{1b}", "connection": {"sent": {"bytes": 5}}, "none": null, "image": ["x", "y"]});
        let shown: Vec<String> =
            lines(&item).iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(shown, ["connection.sent.bytes 5", "image:", "x", "y", "name A?", "none -"]);
        let long = json!({"image": vec!["x"; 5_000]});
        assert_eq!(lines(&long).len(), LINES_MAX);
    }
}
