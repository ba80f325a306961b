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
    /// Where JetStream stores, if it is on.
    folder: Option<testkit::Folder>,
}

/// The stream of JetStream that stores what is published.
pub(crate) const STREAM: &str = "TICKCAST";

impl NatsServer {
    /// Starts one with JetStream, and the stream of the guide.
    pub(crate) fn with_stream() -> NatsServer {
        NatsServer::with_stream_of(STREAM, "true")
    }

    /// The same, with another name, or without direct access.
    pub(crate) fn with_stream_of(name: &str, allow_direct: &str) -> NatsServer {
        let folder = testkit::Folder::new();
        let mut server = NatsServer::new(&["-js", "-sd", &folder.display().to_string()]);
        server.folder = Some(folder);
        create_stream(async_nats::ConnectOptions::new(), &server.url(), name, allow_direct);
        server
    }

    /// The stream of the guide, if it has one.
    pub(crate) fn stream(&self) -> Option<String> {
        self.folder.as_ref().map(|_| STREAM.to_owned())
    }

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
        let server = NatsServer { child, port, arguments, folder: None };
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

/// Makes the stream of the guide.
pub(crate) fn create_stream(options: async_nats::ConnectOptions, url: &str, name: &str, allow_direct: &str) {
    let body = format!(
        r#"{{"name":"{name}","subjects":["tickcast.directory","tickcast.service.*"],"storage":"file","retention":"limits","discard":"old","max_bytes":268435456,"max_age":60000000000,"num_replicas":1,"no_ack":true,"allow_direct":{allow_direct}}}"#
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let answer = runtime.block_on(async {
        let client = options.connect(url).await.expect("the server is there");
        client.request(format!("$JS.API.STREAM.CREATE.{name}"), body.into()).await.expect("JetStream is on")
    });
    let answer = String::from_utf8_lossy(&answer.payload).into_owned();
    assert!(answer.contains("did_create"), "{answer}");
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
