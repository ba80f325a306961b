//! `nats-server` as a peer: started with a WebSocket port on this host, on the CPU of the server.

use std::path::Path;

use super::contender::FanOutContender;
use super::{EACH, OTHERS_CPU, SERVER_CPU, websocket, words};
use crate::BenchError;
use crate::every::TimeEvery;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, Scratch, free_port};

/// Starts it, a publisher, and clients that have subscribed to all items.
pub(super) fn contender(
    program: &Path,
    (clients, time_every): (u32, TimeEvery),
    name: &str,
    sink: &[&str],
) -> Result<FanOutContender, BenchError> {
    let (port, websocket_port, scratch) = (free_port()?, free_port()?, Scratch::new()?);
    let log = scratch.path().join("log").display().to_string();
    let file = scratch.write("nats.conf", &configuration(port, websocket_port, !sink.is_empty(), &log))?;
    let others = Cpu::on(Some(OTHERS_CPU));
    let command = words(&["--program", &program.display().to_string(), "--", "-c", &file]);
    let server = [Cpu::on(Some(SERVER_CPU)).args(), command].concat();
    let mut server = Process::role("other-program", &server)?.with_scratch(scratch);
    server.listens(port, START_LIMIT)?;
    server.listens(websocket_port, START_LIMIT)?;
    let items = EACH.to_string();
    let publisher = words(&["--port", &port.to_string(), "--items", &items]);
    let mut publisher = Process::role("nats-publisher", &[publisher, others.args()].concat())?;
    publisher.expect("ready", START_LIMIT)?;
    let clients_args = websocket::clients(clients, time_every);
    let port = words(&["--nats", "--port", &websocket_port.to_string()]);
    let sink = [port, clients_args, words(sink), others.args()].concat();
    let mut sink = Process::role("websocket-clients", &sink)?;
    sink.expect("ready", START_LIMIT)?;
    let (copies, publisher) = (f64::from(clients), Some(publisher));
    Ok(FanOutContender {
        name: name.to_owned(),
        copies,
        sinks: vec![sink],
        publisher,
        servers: vec![server],
        feeding: Vec::new(),
        _backbone: None,
        slow: None,
    })
}

/// As the server comes, but for the WebSocket port and pings, which would come into the runs.
fn configuration(port: u16, websocket_port: u16, compression: bool, log: &str) -> String {
    format!(
        "listen: \"127.0.0.1:{port}\"\nping_interval: \"1h\"\nlog_file: \"{log}\"\n\
         websocket {{\n  listen: \"127.0.0.1:{websocket_port}\"\n  no_tls: true\n  \
         compression: {compression}\n}}\n"
    )
}
