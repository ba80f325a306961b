//! HTTP for operators: health, metrics, status.
//!
//! | path | answer |
//! |---|---|
//! | `/health` | `ok` as long as every thread of the daemon turns; else 503 and which does not |
//! | `/ready` | `ready` if every service is served; else 503 and which is not |
//! | `/metrics` | every counter in the Prometheus text format, with unit and meaning, its name after `tickcast_` |
//! | `/status` | the daemon's own description of itself, JSON |
//!
//! It runs on a thread of its own and reads what the working threads publish; nothing here is on the path of
//! an update.

mod connections;
mod prometheus;

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::thread;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Json, Router};
use counters::Registry;
use serde_json::Value;

use self::connections::Bounded;

/// Gives the present status of a daemon; may block.
pub(crate) type Status = Arc<dyn Fn() -> Value + Send + Sync>;

/// Says why something is not as it should be, a line each; nothing if it is. May block.
pub(crate) type Check = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// What a daemon says of itself.
#[derive(Clone)]
pub(crate) struct Daemon {
    /// Its description.
    pub(crate) status: Status,
    /// Threads that do not turn.
    pub(crate) health: Check,
    /// Services that are not served.
    pub(crate) ready: Check,
}

/// Serves the paths on `address` from a thread of its own, for the life of the process.
///
/// Returns the address in use, which tells the port when 0 was asked for.
///
/// # Errors
/// The address is taken or not one of this host; the error names it.
pub(crate) fn serve(address: SocketAddrV4, registry: Registry, daemon: Daemon) -> io::Result<SocketAddr> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot serve HTTP on {address}: {e}"));
    let listener = std::net::TcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(Bounded::new(listener), router(registry, daemon)).await
        })
    })?;
    Ok(local)
}

fn router(registry: Registry, daemon: Daemon) -> Router {
    let Daemon { status, health, ready } = daemon;
    let metrics = move || {
        let text = prometheus::text(&registry.snapshot());
        async move { ([(CONTENT_TYPE, prometheus::CONTENT)], text) }
    };
    Router::new()
        .route("/health", get(move || check(health.clone(), "ok")))
        .route("/ready", get(move || check(ready.clone(), "ready")))
        .route("/metrics", get(metrics))
        .route("/status", get(move || describe(status.clone())))
}

/// 200 and `good`, or 503 and what is wrong.
async fn check(check: Check, good: &'static str) -> (StatusCode, String) {
    let failed = |_| vec!["the check itself has failed".to_owned()];
    let wrong = tokio::task::spawn_blocking(move || check()).await.unwrap_or_else(failed);
    if wrong.is_empty() {
        return (StatusCode::OK, format!("{good}\n"));
    }
    (StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n")
}

/// A daemon may take its time to describe itself; the other paths answer meanwhile.
async fn describe(status: Status) -> Json<Value> {
    Json(tokio::task::spawn_blocking(move || status()).await.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use counters::table::LbtrmSource;

    use super::*;

    fn fetch(from: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(from).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn daemon(status: Value, wrong: &[&str]) -> Daemon {
        let wrong: Vec<String> = wrong.iter().map(|text| (*text).to_owned()).collect();
        let check: Check = Arc::new(move || wrong.clone());
        Daemon { status: Arc::new(move || status.clone()), health: check.clone(), ready: check }
    }

    #[test]
    fn the_paths_answer() {
        let registry = Registry::default();
        let source = Arc::new(LbtrmSource::default());
        source.msgs_sent.add(42);
        registry.register(&[("session", "ab\"c")], source);
        let daemon = daemon(serde_json::json!({"service": "BINANCE"}), &[]);
        let address = serve(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), registry, daemon).unwrap();
        assert!(fetch(address, "/health").ends_with("\r\n\r\nok\n"));
        assert!(fetch(address, "/ready").ends_with("\r\n\r\nready\n"));
        assert!(fetch(address, "/status").ends_with("{\"service\":\"BINANCE\"}"));
        let metrics = fetch(address, "/metrics");
        assert!(
            metrics.contains("\ntickcast_lbtrm_source_msgs_sent_total{session=\"ab\\\"c\"} 42\n"),
            "{metrics}"
        );
        assert!(fetch(address, "/nowhere").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn silent_connections_take_few_descriptors_and_keep_nobody_from_an_answer() {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let address = serve(any, Registry::default(), daemon(Value::Null, &[])).unwrap();
        let mut silent: Vec<TcpStream> =
            (0..5 * connections::CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(fetch(address, "/health").ends_with("\r\n\r\nok\n"));
        // The oldest had to go.
        for stream in &mut silent[..2 * connections::CONNECTIONS_MAX] {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        assert!(fetch(address, "/health").ends_with("\r\n\r\nok\n"));
    }

    #[test]
    fn what_is_wrong_is_said_and_the_status_is_503() {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let address =
            serve(any, Registry::default(), daemon(Value::Null, &["A is not served", "B too"])).unwrap();
        for path in ["/health", "/ready"] {
            let answer = fetch(address, path);
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nA is not served\nB too\n"), "{answer}");
        }
    }

    #[test]
    fn a_taken_address_is_named() {
        let daemon = daemon(Value::Null, &[]);
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let SocketAddr::V4(taken) = serve(any, Registry::default(), daemon.clone()).unwrap() else {
            unreachable!("bound to IPv4")
        };
        let error = serve(taken, Registry::default(), daemon).unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()), "{error}");
    }
}
