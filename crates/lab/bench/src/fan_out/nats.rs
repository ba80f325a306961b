//! `nats-server` as a peer: started with a WebSocket port on this host, on the CPU of the server.

use std::path::{Path, PathBuf};

use super::contender::FanOutContender;
use super::{EACH, OTHERS_CPU, SERVER_CPU, websocket, words};
use crate::BenchError;
use crate::options::Cpu;
use crate::process::{Process, START_LIMIT, Scratch, free_port};

const PROGRAM: &str = "nats-server";
/// Debian has it where only root looks by itself.
const OF_DEBIAN: &str = "/usr/sbin/nats-server";

/// What a report says if there is none.
pub(crate) const NOT_FOUND: &str =
    "nats-server is left out: it is not in the PATH; `make peers` builds it, --nats-server names it";

/// The program that was named, else the one in the PATH.
pub(crate) fn find(named: Option<&Path>) -> Option<PathBuf> {
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|directory| directory.join(PROGRAM)).find(|file| file.is_file())
    };
    let of_debian = || Some(PathBuf::from(OF_DEBIAN)).filter(|file| file.is_file());
    named.map(Path::to_path_buf).or_else(in_path).or_else(of_debian)
}

/// Starts it as it comes, for a backbone. Returns its port too.
pub(crate) fn start(program: &Path, cpu: Cpu) -> Result<(Process, u16), BenchError> {
    let (port, scratch) = (free_port()?, Scratch::new()?);
    let log = scratch.path().join("log").display().to_string();
    let file = scratch.write("nats.conf", &format!("listen: \"127.0.0.1:{port}\"\nlog_file: \"{log}\"\n"))?;
    let command = words(&["--program", &program.display().to_string(), "--", "-c", &file]);
    let server = Process::role("other-program", &[cpu.args(), command].concat())?;
    let mut server = server.with_scratch(scratch);
    server.listens(port, START_LIMIT)?;
    Ok((server, port))
}

/// Starts it, a publisher, and clients that have subscribed to all items.
pub(super) fn contender(
    program: &Path,
    clients: u32,
    name: &'static str,
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
    let clients_args = websocket::clients(clients);
    let port = words(&["--nats", "--port", &websocket_port.to_string()]);
    let sink = [port, clients_args, words(sink), others.args()].concat();
    let mut sink = Process::role("websocket-clients", &sink)?;
    sink.expect("ready", START_LIMIT)?;
    let (copies, publisher) = (f64::from(clients), Some(publisher));
    Ok(FanOutContender { name, copies, sink, publisher, server, _distributor: None, slow: None })
}

/// As the server comes, but for the WebSocket port and pings, which would come into the runs.
fn configuration(port: u16, websocket_port: u16, compression: bool, log: &str) -> String {
    format!(
        "listen: \"127.0.0.1:{port}\"\nping_interval: \"1h\"\nlog_file: \"{log}\"\n\
         websocket {{\n  listen: \"127.0.0.1:{websocket_port}\"\n  no_tls: true\n  \
         compression: {compression}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_named_is_taken() {
        assert_eq!(find(Some(Path::new("/a/b"))), Some(PathBuf::from("/a/b")));
    }
}
