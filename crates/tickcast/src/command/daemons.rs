//! `tickcast source-distributor`, `tickcast p2ps` and `tickcast resolver`: one role, one process.

use backbone::BackboneCarrier;
use daemon::Described;

use crate::config::{ConfigArgs, RootConfig};
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Start};
use crate::priority;
use crate::role::{self, Carrier, Surroundings};

pub(super) fn source_distributor(args: &ConfigArgs) -> Result<(), Failure> {
    let connections = |config: &RootConfig| {
        let provider = &config.source_distributor.provider;
        vec![("source_distributor.provider.connections_max", provider.connections_max)]
    };
    run("source-distributor", args, connections, |role, ready| role::source_distributor(role, ready))
}

pub(super) fn p2ps(args: &ConfigArgs) -> Result<(), Failure> {
    let connections = |config: &RootConfig| {
        let config = &config.p2ps;
        let websocket = (config.websocket_port != 0).then_some(config.websocket.connections_max);
        let websocket = websocket.map(|max| ("p2ps.websocket.connections_max", max));
        [("p2ps.rssl.connections_max", config.rssl.connections_max)].into_iter().chain(websocket).collect()
    };
    run("p2ps", args, connections, |role, ready| role::p2ps(role, ready))
}

pub(super) fn resolver(args: &ConfigArgs) -> Result<(), Failure> {
    let Start { config, registry, stop, log: _log } = Start::new(args, "resolver")?;
    priority::check("resolver", &config)?;
    let _counters = host::publish_counters(&config.admin, &registry, "resolver");
    let ended = role::resolver(&config.resolver(), &registry, &stop, |described| {
        host::start_admin(&config.admin, &registry, &stop, &described, None)
    });
    ended.map_err(|failure| host::name_port(&config, failure))
}

type Ready<'r> = &'r mut dyn FnMut(Described) -> Result<(), Failure>;

fn run(
    name: &'static str,
    args: &ConfigArgs,
    connections: impl FnOnce(&RootConfig) -> Vec<(&'static str, u32)>,
    role: impl FnOnce(&Surroundings<'_>, Ready<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Start { config, registry, stop, log: _log } = Start::new(args, &name.replace('-', "_"))?;
    if name != "p2ps" || config.p2ps.upstream.is_empty() {
        warn_of_open_doors(&config);
    }
    priority::check(name, &config)?;
    net::descriptors::raise_limit()?;
    if let Some(lack) = lack_of_descriptors(&connections(&config), net::descriptors::share_of_strangers()) {
        tracing::warn!(limit = net::descriptors::limit(), "{lack}");
    }
    let dictionary = dictionary::load(&config.dictionary)?;
    let _counters = host::publish_counters(&config.admin, &registry, name);
    let surroundings = Surroundings {
        config: &config,
        dictionary,
        carrier: Carrier::of(&config.backbone),
        registry: &registry,
        stop: &stop,
    };
    let drains = name == "p2ps" && config.p2ps.drain_ms > 0;
    let longest_end = drains.then(|| config.longest_end("p2ps"));
    let ended = role(&surroundings, &mut |described| {
        host::start_admin(&config.admin, &registry, &stop, &described, longest_end)
    });
    ended.map_err(|failure| host::name_port(&config, failure))
}

/// What to say if not all connections that are configured, each limit with its key, can have a descriptor.
fn lack_of_descriptors(connections: &[(&'static str, u32)], share: u64) -> Option<String> {
    let wanted: u64 = connections.iter().map(|(_, max)| u64::from(*max)).sum();
    let keys: Vec<&str> = connections.iter().map(|(key, _)| *key).collect();
    let keys = keys.join(" and ");
    (wanted > share).then(|| {
        format!(
            "there are descriptors for {share} connections, {keys} allow {wanted}: those beyond are closed unheard. \
             Raise RLIMIT_NOFILE (LimitNOFILE= of systemd, ulimit -n), or allow fewer"
        )
    })
}

/// What of the backbone is open to whom it should not be. Its context warns of files of keys that others can read.
fn warn_of_open_doors(config: &RootConfig) {
    match config.backbone.carrier {
        BackboneCarrier::Multicast => {
            let exposure = backbone::exposure(&config.backbone_context());
            if !exposure.is_none() {
                tracing::warn!("{exposure} (docs/backbone-security.md)");
            }
        }
        BackboneCarrier::Nats => {
            if let Some(exposure) = config.backbone.nats.exposure() {
                tracing::warn!("{exposure} (docs/guides/nats.md)");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_descriptors_that_is_too_low_is_told_with_the_keys_that_need_more() {
        let connections = [("a.connections_max", 600), ("b.connections_max", 400)];
        assert_eq!(lack_of_descriptors(&connections, 1000), None);
        let said = lack_of_descriptors(&connections, 999).expect("one is missing");
        let begin =
            "there are descriptors for 999 connections, a.connections_max and b.connections_max allow 1000:";
        assert!(said.starts_with(begin), "{said}");
    }
}
