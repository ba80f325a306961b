//! Whether a daemon lives and serves: for `/health`, `/ready` and the service manager.

use std::sync::Arc;
use std::time::Duration;

use net::Heartbeat;
use serde_json::Value;

/// The threads of a daemon, by name.
#[derive(Clone)]
pub(crate) struct Alive {
    threads: Arc<Vec<(String, Heartbeat)>>,
    limit: Duration,
}

impl Alive {
    /// A thread is taken for stuck when it has not turned for `limit`.
    pub(crate) fn new(threads: Vec<(String, Heartbeat)>, limit: Duration) -> Alive {
        Alive { threads: Arc::new(threads), limit }
    }

    /// The threads that do not turn, a line each.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let silences = self.threads.iter().map(|(name, heart)| (name, heart.silence()));
        let stuck = silences.filter(|(_, silence)| *silence > self.limit);
        stuck
            .map(|(name, silence)| format!("{name} has not turned for {:.1} s", silence.as_secs_f64()))
            .collect()
    }
}

/// Why a daemon should get no new clients, a line each. `status` describes it.
pub(crate) fn not_ready(is_ending: bool, status: impl FnOnce() -> Value) -> Vec<String> {
    if is_ending { vec!["it is shutting down".to_owned()] } else { not_served(&status()) }
}

/// The state of the drain of a daemon, by its own description: that of the P2PS among several roles. `None` if it has none.
pub(crate) fn drain_of(status: &Value) -> Option<&Value> {
    let keys = status.as_object()?;
    if keys.contains_key("role") { keys.get("drain") } else { keys.values().find_map(drain_of) }
}

/// Why it takes no clients, if it is drained.
fn why_drained(status: &Value) -> Option<String> {
    let drain = drain_of(status).filter(|drain| drain["state"] != "serving")?;
    let left = drain["connections_left"].as_u64().unwrap_or(0);
    Some(match drain["state"].as_str() {
        Some("drained") => "it is drained".to_owned(),
        _ => format!("it is being drained, {left} connections are left"),
    })
}

/// What a daemon does not serve, by its own description, a line each.
fn not_served(status: &Value) -> Vec<String> {
    let Some(keys) = status.as_object() else { return vec!["it has not described itself yet".to_owned()] };
    let Some(role) = keys.get("role").and_then(Value::as_str) else {
        // Several roles in one process.
        return keys.values().flat_map(not_served).collect();
    };
    if let Some(why) = why_drained(status) {
        return vec![why];
    }
    let Some(services) = keys.get("services").and_then(Value::as_array) else { return Vec::new() };
    if services.is_empty() && role == "p2ps" {
        return vec!["no service is known".to_owned()];
    }
    let down = services.iter().filter(|service| service["up"] != Value::Bool(true));
    down.map(|service| format!("service {} is not served", service["name"].as_str().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_that_are_down_are_named() {
        let p2ps =
            json!({"role": "p2ps", "services": [{"name": "A", "up": true}, {"name": "B", "up": false}]});
        assert_eq!(not_served(&p2ps), ["service B is not served"]);
        assert_eq!(
            not_served(&json!({"p2ps": p2ps, "other": {"role": "feed"}})),
            ["service B is not served"]
        );
        assert_eq!(not_served(&json!({"role": "p2ps", "services": []})), ["no service is known"]);
        assert!(not_served(&json!({"role": "source-distributor", "services": []})).is_empty());
        assert_eq!(not_served(&Value::Null).len(), 1);
        let drained = |state: &str| {
            let services = json!([{"name": "A", "up": true}]);
            json!({"role": "p2ps", "services": services, "drain": {"state": state, "connections_left": 3}})
        };
        assert_eq!(not_served(&drained("draining")), ["it is being drained, 3 connections are left"]);
        assert_eq!(not_served(&json!({"p2ps": drained("drained")})), ["it is drained"]);
        assert_eq!(not_served(&drained("serving")), [""; 0]);
        assert_eq!(
            drain_of(&json!({"a": {"role": "feed"}, "p2ps": drained("x")})).map(|d| &d["state"]),
            Some(&json!("x"))
        );
        let serves = || json!({"role": "p2ps", "services": [{"name": "A", "up": true}]});
        assert_eq!(not_ready(false, serves), [""; 0]);
        assert_eq!(not_ready(true, serves), ["it is shutting down"]);
    }

    #[test]
    fn a_thread_that_does_not_turn_is_named() {
        let (turns, hangs) = (Heartbeat::default(), Heartbeat::default());
        turns.beat(units::Nanos::NEVER);
        hangs.beat(units::Nanos::ZERO);
        let alive =
            Alive::new(vec![("a".to_owned(), turns), ("b".to_owned(), hangs)], Duration::from_millis(1));
        let stuck = alive.stuck();
        assert!(stuck.len() == 1 && stuck[0].starts_with("b has not turned for "), "{stuck:?}");
    }
}
