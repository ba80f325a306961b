use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::BenchError;
use crate::nats_server;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, free_port};

/// What carries a backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Carrier {
    /// Reliable multicast (LBT-RM).
    Multicast,
    /// Reliable unicast (LBT-RU), found through a resolver.
    Unicast,
    /// TCP, found through a resolver.
    Tcp,
    /// Shared memory.
    Shm,
    /// A server of NATS.
    Nats,
}

impl std::fmt::Display for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Carrier::Multicast => "multicast",
            Carrier::Unicast => "unicast",
            Carrier::Tcp => "tcp",
            Carrier::Shm => "shm",
            Carrier::Nats => "nats",
        })
    }
}

/// Whether servers keep images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cache {
    /// They do.
    On,
    /// They pass on what comes, and ask the publisher again for an image.
    Off,
}

impl std::fmt::Display for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Cache::On { "on" } else { "off" })
    }
}

impl Cache {
    /// The settings that take the caches away.
    pub(crate) fn sets(self) -> &'static [&'static str] {
        const OFF: [&str; 2] =
            ["p2ps.services_without_cache=[\"*\"]", "source_distributor.services_without_cache=[\"*\"]"];
        if self == Cache::Off { &OFF } else { &[] }
    }
}

/// What all servers of a workload are told beside what it needs itself.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Settings {
    /// Further settings of all servers, as for their --set: they count more than those of the workload. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Configuration file of all servers, as for their --config. What the workload sets itself, such as ports and CPUs,
    /// counts more, and so does --set.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Settings {
    /// With settings of a workload in front, which count less than those that are there.
    pub(crate) fn behind<S: AsRef<str>>(&self, own: impl IntoIterator<Item = S>) -> Settings {
        let own = own.into_iter().map(|set| set.as_ref().to_owned());
        Settings { set: own.chain(self.set.iter().cloned()).collect(), config: self.config.clone() }
    }

    /// As the arguments of a daemon, behind settings of its own.
    fn args(&self, own: impl IntoIterator<Item = String>) -> Vec<String> {
        let file = self.config.iter().flat_map(|file| ["--config".to_owned(), file.display().to_string()]);
        let sets = own.into_iter().chain(self.set.iter().cloned());
        file.chain(sets.flat_map(|set| ["--set".to_owned(), set])).collect()
    }
}

/// The ports at which the processes of one system meet, and what all of them are told.
pub(crate) struct Backbone {
    messaging: [String; 2],
    settings: Settings,
    /// What the carrier needs beside the daemons: a resolver, or a server of NATS.
    server: Option<Process>,
    /// The updates go through it.
    carries: bool,
}

impl Backbone {
    /// One with ports of its own. Further settings of all processes come last and count.
    pub(crate) fn new(settings: Settings) -> Result<Backbone, BenchError> {
        let messaging = [
            format!("messaging.lbtrm.destination_port={}", free_port()?),
            format!("messaging.resolver.multicast_port={}", free_port()?),
        ];
        Ok(Backbone { messaging, settings, server: None, carries: false })
    }

    /// One over a carrier. What that needs is started, a server of NATS on this CPU.
    pub(crate) fn over(
        carrier: Carrier,
        settings: &Settings,
        cpu: Cpu,
        nats_server: Option<&Path>,
    ) -> Result<Backbone, BenchError> {
        let transport = |name: &str| format!("messaging.transport={name}");
        let (server, own) = match carrier {
            Carrier::Multicast => (None, Vec::new()),
            Carrier::Shm => (None, vec![transport("lbtipc")]),
            Carrier::Unicast | Carrier::Tcp => {
                let (resolver, known) = resolver()?;
                let name = if carrier == Carrier::Tcp { "tcp" } else { "lbtru" };
                (Some(resolver), vec![transport(name), known])
            }
            Carrier::Nats => {
                let none = "no nats-server: it is not in the PATH; --nats-server names it";
                let program = nats_server.ok_or_else(|| BenchError::new(none))?;
                let (server, port) = nats_server::start(program, cpu)?;
                let known = format!("backbone.nats.servers=[\"nats://127.0.0.1:{port}\"]");
                (Some(server), vec!["backbone.carrier=nats".to_owned(), known])
            }
        };
        Ok(Backbone { server, carries: carrier == Carrier::Nats, ..Backbone::new(settings.behind(own))? })
    }

    /// CPU time so far of a server that the updates go through.
    pub(crate) fn busy(&self) -> Option<Result<Duration, BenchError>> {
        self.server.as_ref().filter(|_| self.carries).map(Process::cpu_time)
    }

    /// The arguments of a process with these settings of its own.
    pub(crate) fn args(&self, own: Vec<String>) -> Result<Vec<String>, BenchError> {
        Ok(self.settings.args(self.messaging.iter().cloned().chain(own).chain(unicast_ports()?)))
    }

    fn daemon(&self, role: &str, own: Vec<String>) -> Result<Process, BenchError> {
        Process::daemon(role, &self.args(own)?)
    }

    /// A source distributor, which takes providers at a port.
    pub(crate) fn distributor(
        &self,
        provider_port: u16,
        cpu: Cpu,
        mut own: Vec<String>,
    ) -> Result<Process, BenchError> {
        own.push(format!("source_distributor.provider_port={provider_port}"));
        own.extend(on_cpu("source_distributor", cpu));
        self.daemon("source-distributor", own)
    }

    /// A source distributor that dials an interactive provider at a port of this host.
    pub(crate) fn dialling(&self, publisher: u16, cpu: Cpu) -> Result<Process, BenchError> {
        let provider_port = free_port()?;
        let dialled = format!(
            "source_distributor.interactive=[{{ name = \"publisher\", hosts = [\"127.0.0.1:{publisher}\"] }}]"
        );
        let mut distributor = self.distributor(provider_port, cpu, vec![dialled])?;
        distributor.listens(provider_port, START_LIMIT)?;
        Ok(distributor)
    }

    /// A point-to-point server, which takes consumers at a port.
    pub(crate) fn server(
        &self,
        rssl_port: u16,
        cpu: Cpu,
        admin_port: Option<u16>,
    ) -> Result<Process, BenchError> {
        let mut own = vec![format!("p2ps.rssl_port={rssl_port}"), "p2ps.websocket_port=0".to_owned()];
        // Every update is counted at the end, however long it has waited.
        own.extend(["bytes", "ms"].map(|what| format!("p2ps.conflate_above_{what}=0")));
        // On any machine, unless it is told otherwise.
        own.push("p2ps.shards=1".to_owned());
        own.extend(admin_port.map(|port| format!("admin.port={port}")));
        own.extend(on_cpu("p2ps", cpu));
        self.daemon("p2ps", own)
    }
}

/// A resolver, and the setting by which processes find it.
fn resolver() -> Result<(Process, String), BenchError> {
    let (port, admin) = (free_port()?, free_port()?);
    let sets = ["resolver.port", "admin.port"].iter().zip([port, admin]);
    let sets = sets.flat_map(|(key, port)| ["--set".to_owned(), format!("{key}={port}")]);
    let mut resolver = Process::daemon("resolver", &sets.collect::<Vec<String>>())?;
    // Its own port is one of UDP.
    resolver.listens(admin, START_LIMIT)?;
    Ok((resolver, format!("messaging.resolver.unicast_daemon=[\"127.0.0.1:{port}\"]")))
}

fn on_cpu(section: &str, cpu: Cpu) -> Option<String> {
    cpu.number().map(|cpu| format!("{section}.thread.cpu={cpu}"))
}

/// A source distributor and a point-to-point server with ports of their own.
pub(crate) struct Daemons {
    /// Where providers connect to; none if the source distributor dials the publisher.
    pub(crate) provider_port: Option<u16>,
    pub(crate) rssl_port: u16,
    pub(crate) server: Process,
    pub(crate) distributor: Process,
    // Behind those that would complain of its end.
    pub(crate) backbone: Backbone,
}

impl Daemons {
    pub(crate) fn start(cpus: [Cpu; 2], settings: Settings) -> Result<Daemons, BenchError> {
        Daemons::start_with_admin(cpus, settings, None)
    }

    /// The same; the point-to-point server tells its counters at that port.
    pub(crate) fn start_with_admin(
        cpus: [Cpu; 2],
        settings: Settings,
        admin_port: Option<u16>,
    ) -> Result<Daemons, BenchError> {
        Daemons::start_over(Backbone::new(settings)?, cpus, admin_port, None)
    }

    /// The same over a backbone. With a publisher's port, the source distributor dials that one.
    pub(crate) fn start_over(
        backbone: Backbone,
        cpus: [Cpu; 2],
        admin_port: Option<u16>,
        dialled: Option<u16>,
    ) -> Result<Daemons, BenchError> {
        let provider_port = if dialled.is_none() { Some(free_port()?) } else { None };
        let mut distributor = match (dialled, provider_port) {
            (None, Some(port)) => backbone.distributor(port, cpus[0], Vec::new())?,
            (publisher, _) => backbone.dialling(publisher.unwrap_or(0), cpus[0])?,
        };
        let rssl_port = free_port()?;
        let mut server = backbone.server(rssl_port, cpus[1], admin_port)?;
        if let Some(port) = provider_port {
            distributor.listens(port, START_LIMIT)?;
        }
        server.listens(rssl_port, START_LIMIT)?;
        Ok(Daemons { provider_port, rssl_port, server, distributor, backbone })
    }

    /// Where a non-interactive provider connects to, as an argument.
    pub(crate) fn provider_port(&self) -> Result<u16, BenchError> {
        self.provider_port.ok_or_else(|| BenchError::new("the source distributor dials the publisher"))
    }
}

/// A point-to-point server that takes its data from another one, as its client.
pub(crate) struct PointOfPresence {
    pub(crate) rssl_port: u16,
    pub(crate) server: Process,
}

impl PointOfPresence {
    /// One behind the server at a port; both of its threads are kept on a CPU.
    pub(crate) fn start(upstream: u16, cpu: Cpu, settings: &Settings) -> Result<PointOfPresence, BenchError> {
        let rssl_port = free_port()?;
        let threads = ["source_distributor", "p2ps"].map(|section| on_cpu(section, cpu));
        let own = [
            format!("p2ps.upstream=[{{ name = \"upstream\", hosts = [\"127.0.0.1:{upstream}\"] }}]"),
            format!("p2ps.rssl_port={rssl_port}"),
            "p2ps.websocket_port=0".to_owned(),
            "p2ps.shards=1".to_owned(),
        ];
        let args = settings.args(own.into_iter().chain(threads.into_iter().flatten()));
        let mut server = Process::daemon("p2ps", &args)?;
        server.listens(rssl_port, START_LIMIT)?;
        Ok(PointOfPresence { rssl_port, server })
    }
}

/// The ports of a process where NAKs and direct connections reach it.
fn unicast_ports() -> Result<Vec<String>, BenchError> {
    let (naks, requests) = (free_port()?, free_port()?);
    Ok(vec![
        format!("messaging.lbtrm.source_port_low={naks}"),
        format!("messaging.lbtrm.source_port_high={naks}"),
        format!("messaging.request_tcp_port_low={requests}"),
        format!("messaging.request_tcp_port_high={requests}"),
    ])
}
