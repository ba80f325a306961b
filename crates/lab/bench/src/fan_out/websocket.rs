//! The same over WebSocket: one server and many clients that all watch the same items, in JSON.
//!
//! Each update in leaves as many as there are clients. Beside Tickcast, `nats-server` sends the same bytes to
//! the same clients over its WebSocket port, one subject an item.

use std::path::PathBuf;

use clap::Args;

use super::contender::{self, FanOutContender, Setup};
use super::{EACH, TlsDirectory, nats, words};
use crate::nats_server;
use crate::process::free_port;
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
    /// Further settings of both daemons, as for their --set.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const RATES: [u64; 5] = [1_000, 5_000, 10_000, 20_000, 40_000];

impl WebSocketFanOutArgs {
    /// With compression.
    pub(crate) fn new(
        options: RunOptions,
        tls: Option<TlsDirectory>,
        nats_server: Option<PathBuf>,
    ) -> WebSocketFanOutArgs {
        let rates = RATES.to_vec();
        WebSocketFanOutArgs {
            options,
            clients: 100,
            rates,
            compression: true,
            tls,
            nats_server,
            set: Vec::new(),
        }
    }
}

const DEFLATE: &[&str] = &["--compression"];

pub(crate) fn run(args: &WebSocketFanOutArgs) -> Result<(), BenchError> {
    let mut report = contender::report("websocket-fan-out", &args.options);
    let mut contenders = vec![tickcast(args, "tickcast", &[], None)?];
    if args.compression {
        contenders.push(tickcast(args, "tickcast, deflate", DEFLATE, None)?);
    }
    if let Some(tls) = &args.tls {
        contenders.push(tickcast(args, "tickcast, TLS", &[], Some(tls))?);
    }
    match nats_server::find(args.nats_server.as_deref()) {
        None => report.note(nats_server::NOT_FOUND.to_owned()),
        Some(program) => {
            contenders.push(nats::contender(&program, args.clients, "nats-server", &[])?);
            if args.compression {
                contenders.push(nats::contender(&program, args.clients, "nats-server, deflate", DEFLATE)?);
            }
        }
    }
    contender::compare(contenders, (&args.rates, None), &args.options, &mut report)?;
    report.print()
}

fn tickcast(
    args: &WebSocketFanOutArgs,
    name: &'static str,
    sink: &[&str],
    tls: Option<&TlsDirectory>,
) -> Result<FanOutContender, BenchError> {
    let port = free_port()?;
    let sets = [
        vec![format!("p2ps.websocket_port={port}")],
        tls.map_or_else(Vec::new, |tls| tls.sets("p2ps.websocket", port)),
        args.set.clone(),
    ];
    let sink = [clients(args.clients), words(sink), tls.map_or_else(Vec::new, TlsDirectory::args)];
    FanOutContender::tickcast(Setup {
        name,
        copies: f64::from(args.clients),
        items: Setup::items(EACH, args.clients, 0),
        sets: sets.concat(),
        sink: ("websocket-clients", sink.concat()),
        port: Some(port),
        slow: None,
    })
}

/// Arguments that the clients of all servers have.
pub(super) fn clients(clients: u32) -> Vec<String> {
    words(&["--items", &EACH.to_string(), "--clients", &clients.to_string()])
}
