//! SIGHUP: what of a changed configuration is put in force without a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::config::{KeyType, Loaded, Value};
use counters::table::Log as Counters;
use tracing::{info, warn};
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{EnvFilter, Registry as Spans};

use super::config::LogConfig;
use super::queue::Queue;
use super::{OWN_TARGET, PATIENCE, directives, filter};
use crate::config::{ConfigArgs, RootConfig};

/// Puts a changed configuration in force, as far as that goes without a restart: `log.level` and `log.file`. The
/// file is opened anew in any case.
pub(crate) struct Reload {
    pub(super) queue: Arc<Queue>,
    pub(super) handle: Handle<EnvFilter, Spans>,
    pub(super) default: &'static str,
    pub(super) counters: Arc<Counters>,
}

/// Keys that a reload puts in force.
const RELOADED: [&str; 2] = ["log.level", "log.file"];

impl Reload {
    /// Loads the configuration again, and puts in force what can be; `started` is the one of the start. One that
    /// cannot be used is logged, and all stays as it is.
    pub(crate) fn reload(&self, args: &ConfigArgs, started: &RootConfig) {
        let Loaded { value: loaded, .. } = match args.load_again() {
            Ok(loaded) => loaded,
            Err(failure) => {
                self.counters.reload_failures.inc();
                return warn!(target: OWN_TARGET, %failure, "SIGHUP: the configuration is no good; the one in use is kept");
            }
        };
        self.apply(&loaded.log);
        let waiting = changed_keys(started, &loaded);
        if !waiting.is_empty() {
            warn!(target: OWN_TARGET, keys = waiting.join(" "), "SIGHUP: changes of these keys wait for a restart");
        }
    }

    /// Puts what can change of the log in force, and opens its file anew.
    pub(crate) fn apply(&self, config: &LogConfig) {
        let (level, _) = directives(config, self.default);
        // It fails only if the subscriber is gone.
        let _ = self.handle.reload(filter(&level));
        if let Err(error) = self.queue.reopen(config.path(), PATIENCE) {
            self.counters.reload_failures.inc();
            warn!(target: OWN_TARGET, %error, level, "SIGHUP: the log stays where it is, its level is in force");
        } else {
            self.counters.reloads.inc();
            info!(target: OWN_TARGET, level, "SIGHUP: the log was opened anew");
        }
    }
}

/// Keys that differ and that only a restart puts in force.
fn changed_keys(now: &RootConfig, then: &RootConfig) -> Vec<String> {
    let mut keys = Vec::new();
    differences("", &now.to_value(), &then.to_value(), &mut keys);
    keys.retain(|key| !RELOADED.contains(&key.as_str()));
    keys
}

fn differences(path: &str, now: &Value, then: &Value, keys: &mut Vec<String>) {
    let (Value::Section(before), Value::Section(after)) = (now, then) else {
        if now != then {
            keys.push(path.to_owned());
        }
        return;
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let value = |keys: &std::collections::BTreeMap<String, Value>| {
            keys.get(name).cloned().unwrap_or(Value::Unset)
        };
        differences(&path, &value(before), &value(after), keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_wait_for_a_restart_are_named_and_those_in_force_are_not() {
        let load = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            crate::config::load(None, &sets).expect("legal").value
        };
        let (now, then) = (load(&[]), load(&["log.level=debug", "p2ps.rssl_port=1", "log.format=json"]));
        assert_eq!(changed_keys(&now, &then), ["log.format", "p2ps.rssl_port"]);
        assert!(changed_keys(&now, &load(&["log.file=x"])).is_empty());
    }
}
