//! Servers of NATS for tests: each a process on the loopback interface, killed when the test is over.

// Each file of tests uses its part.
#![allow(dead_code)]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub(crate) struct NatsServer {
    child: Child,
    port: u16,
    arguments: Vec<String>,
}

impl NatsServer {
    /// Starts one with further arguments.
    pub(crate) fn new(arguments: &[&str]) -> NatsServer {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        NatsServer::on(free_port(), arguments)
    }

    fn on(port: u16, arguments: Vec<String>) -> NatsServer {
        let child = Command::new(program())
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .args(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server starts (tools/install.sh installs it)");
        let server = NatsServer { child, port, arguments };
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it, and starts another one on its port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start();
    }

    /// Starts another one on the port of one that was killed.
    pub(crate) fn start(&mut self) {
        let arguments = std::mem::take(&mut self.arguments);
        *self = NatsServer::on(self.port, arguments);
    }

    /// Its process stands still until it is killed.
    pub(crate) fn stop(&self) {
        let stopped = Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status();
        assert!(stopped.expect("there is a kill").success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Debian has it where only root looks by itself.
fn program() -> &'static str {
    let debian = "/usr/sbin/nats-server";
    if std::path::Path::new(debian).exists() { debian } else { "nats-server" }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}
