use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use crate::BenchError;
use crate::nats_server;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, Scratch, free_port};

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

/// The ports at which the processes of one system meet, and what all of them are told.
pub(crate) struct Backbone {
    messaging: [String; 2],
    sets: Vec<String>,
    /// What the carrier needs beside the daemons: a resolver, or a server of NATS.
    server: Option<Process>,
    /// The updates go through it.
    carries: bool,
}

impl Backbone {
    /// One with ports of its own. Further settings of all processes come last and count.
    pub(crate) fn new(sets: &[String]) -> Result<Backbone, BenchError> {
        let messaging = [
            format!("messaging.lbtrm.destination_port={}", free_port()?),
            format!("messaging.resolver.multicast_port={}", free_port()?),
        ];
        Ok(Backbone { messaging, sets: sets.to_vec(), server: None, carries: false })
    }

    /// One over a carrier. What that needs is started, a server of NATS on this CPU.
    pub(crate) fn over(
        carrier: Carrier,
        sets: &[String],
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
        let all: Vec<String> = own.into_iter().chain(sets.iter().cloned()).collect();
        Ok(Backbone { server, carries: carrier == Carrier::Nats, ..Backbone::new(&all)? })
    }

    /// CPU time so far of a server that the updates go through.
    pub(crate) fn busy(&self) -> Option<Result<Duration, BenchError>> {
        self.server.as_ref().filter(|_| self.carries).map(Process::cpu_time)
    }

    /// The arguments of a process with these settings of its own.
    pub(crate) fn args(&self, own: Vec<String>) -> Result<Vec<String>, BenchError> {
        let sets = self.messaging.iter().cloned().chain(own).chain(unicast_ports()?);
        Ok(sets.chain(self.sets.iter().cloned()).flat_map(|set| ["--set".to_owned(), set]).collect())
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
    pub(crate) provider_port: u16,
    pub(crate) rssl_port: u16,
    pub(crate) server: Process,
    pub(crate) distributor: Process,
    // Behind those that would complain of its end.
    pub(crate) backbone: Backbone,
}

impl Daemons {
    pub(crate) fn start(cpus: [Cpu; 2], sets: &[String]) -> Result<Daemons, BenchError> {
        Daemons::start_with_admin(cpus, sets, None)
    }

    /// The same; the point-to-point server tells its counters at that port.
    pub(crate) fn start_with_admin(
        cpus: [Cpu; 2],
        sets: &[String],
        admin_port: Option<u16>,
    ) -> Result<Daemons, BenchError> {
        Daemons::start_over(Backbone::new(sets)?, cpus, admin_port)
    }

    /// The same over a backbone.
    pub(crate) fn start_over(
        backbone: Backbone,
        cpus: [Cpu; 2],
        admin_port: Option<u16>,
    ) -> Result<Daemons, BenchError> {
        let [provider_port, rssl_port] = [free_port()?, free_port()?];
        let mut distributor = backbone.distributor(provider_port, cpus[0], Vec::new())?;
        let mut server = backbone.server(rssl_port, cpus[1], admin_port)?;
        distributor.listens(provider_port, START_LIMIT)?;
        server.listens(rssl_port, START_LIMIT)?;
        Ok(Daemons { provider_port, rssl_port, server, distributor, backbone })
    }
}

/// A point-to-point server that takes its data from another one, as its client.
pub(crate) struct PointOfPresence {
    pub(crate) rssl_port: u16,
    pub(crate) server: Process,
    /// Where its configuration is.
    _scratch: Scratch,
}

impl PointOfPresence {
    /// One behind the server at a port; both of its threads are kept on a CPU.
    pub(crate) fn start(upstream: u16, cpu: Cpu, sets: &[String]) -> Result<PointOfPresence, BenchError> {
        let (scratch, rssl_port) = (Scratch::new()?, free_port()?);
        let text = format!("[[p2ps.upstream]]\nname = \"upstream\"\nhosts = [\"127.0.0.1:{upstream}\"]\n");
        let file = scratch.write("pop.toml", &text)?;
        let threads = ["source_distributor", "p2ps"].map(|section| on_cpu(section, cpu));
        let own = [
            format!("p2ps.rssl_port={rssl_port}"),
            "p2ps.websocket_port=0".to_owned(),
            "p2ps.shards=1".to_owned(),
        ];
        let sets = own.into_iter().chain(threads.into_iter().flatten()).chain(sets.iter().cloned());
        let sets = sets.flat_map(|set| ["--set".to_owned(), set]);
        let args: Vec<String> = ["--config".to_owned(), file].into_iter().chain(sets).collect();
        let mut server = Process::daemon("p2ps", &args)?;
        server.listens(rssl_port, START_LIMIT)?;
        Ok(PointOfPresence { rssl_port, server, _scratch: scratch })
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
