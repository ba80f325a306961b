//! The same over WebSocket: one server and many clients that all watch the same items, in JSON.
//!
//! Each update in leaves as many as there are clients. Beside Tickcast, `nats-server` sends the same bytes to
//! the same clients over its WebSocket port, one subject an item.

use std::path::PathBuf;

use clap::Args;

use super::contender::{Cpus, FanOutContender, Setup, Sink, shares};
use super::figures::{Candidate, Plan};
use super::websocket_clients::TIME_EVERY;
use super::{EACH, OTHERS_CPU, SERVER_CPU, TlsDirectory, nats, words};
use crate::end_to_end::{Cache, Carrier, Items, Settings};
use crate::every::TimeEvery;
use crate::nats_server;
use crate::process::free_port;
use crate::search::SearchArgs;
use crate::update::Profile;
use crate::{BenchError, RunOptions};

#[derive(Debug, Args)]
pub struct WebSocketFanOutArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Clients.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Updates a second into the system. A contender that does not get them through in time is asked for no more.
    #[arg(long, value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<u64>,
    /// Measures permessage-deflate beside messages in clear.
    #[arg(long)]
    compression: bool,
    /// Measures TLS as well, with the certificate in this directory: ca.pem, server.pem, server.key, for
    /// localhost.
    #[arg(long, value_name = "DIR")]
    tls: Option<TlsDirectory>,
    /// The program of the peer; `nats-server` is looked for in the PATH if this is not given.
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    settings: Settings,
}

const RATES: [u64; 5] = [1_000, 5_000, 10_000, 20_000, 40_000];

const DEFLATE: &[&str] = &["--compression"];

pub(crate) fn run(args: &WebSocketFanOutArgs) -> Result<(), BenchError> {
    let plan =
        Plan { rates: &args.rates, bursts: None, options: args.options, search: args.search, cpus: cpus() };
    let mut report = plan.report("websocket-fan-out");
    let program = nats_server::find(args.nats_server.as_deref());
    if program.is_none() {
        report.note(nats_server::NOT_FOUND.to_owned());
    }
    let mut candidates = vec![Candidate::new("tickcast", || tickcast(args, "tickcast", &[], None))];
    if args.compression {
        let start = || tickcast(args, "tickcast, deflate", DEFLATE, None);
        candidates.push(Candidate::new("tickcast, deflate", start));
    }
    if let Some(tls) = &args.tls {
        let start = || tickcast(args, "tickcast, TLS", &[], Some(tls));
        candidates.push(Candidate::new("tickcast, TLS", start));
    }
    if let Some(program) = &program {
        let nats = |name, sink| nats::contender(program, (args.clients, args.time_every), name, sink);
        candidates.push(Candidate::new("nats-server", move || nats("nats-server", &[])));
        if args.compression {
            let start = move || nats("nats-server, deflate", DEFLATE);
            candidates.push(Candidate::new("nats-server, deflate", start));
        }
    }
    let notes = vec![
        format!(
            "{} clients watch the same {EACH} items, {} (the message has 74 bytes), as JSON.",
            args.clients,
            Profile::short().describe()
        ),
        args.time_every.describe(TIME_EVERY),
    ];
    plan.run(&candidates, notes, report)
}

fn cpus() -> Cpus {
    Cpus { servers: vec![SERVER_CPU], others: vec![OTHERS_CPU] }
}

fn tickcast(
    args: &WebSocketFanOutArgs,
    name: &str,
    sink: &[&str],
    tls: Option<&TlsDirectory>,
) -> Result<FanOutContender, BenchError> {
    let port = free_port()?;
    let own = vec![format!("p2ps.websocket_port={port}")];
    let sets = [own, tls.map_or_else(Vec::new, |tls| tls.sets("p2ps.websocket", port))].concat();
    let of_clients = clients(args.clients, args.time_every);
    let sink = [of_clients, words(sink), tls.map_or_else(Vec::new, TlsDirectory::args)];
    FanOutContender::tickcast(&Setup {
        name: name.to_owned(),
        copies: f64::from(args.clients),
        items: Items { common: EACH, mounts: args.clients, own: 0 },
        profile: Profile::short(),
        is_interactive: false,
        settings: args.settings.behind(sets),
        carrier: Carrier::Multicast,
        nats_server: None,
        cache: Cache::On,
        is_pop: false,
        shares: shares(args.clients, 1),
        cpus: cpus(),
        sink: Sink { role: "websocket-clients", of_share: |_| Vec::new(), args: sink.concat() },
        port: Some(port),
        slow: None,
    })
}

/// Arguments that the clients of all servers have.
pub(super) fn clients(clients: u32, time_every: TimeEvery) -> Vec<String> {
    let own = words(&["--items", &EACH.to_string(), "--clients", &clients.to_string()]);
    [own, time_every.args(TIME_EVERY)].concat()
}
