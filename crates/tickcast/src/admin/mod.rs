//! HTTP for operators: health, metrics, status.
//!
//! | path | answer |
//! |---|---|
//! | `/health` | `ok` as long as every thread of the daemon turns; else 503 and which does not |
//! | `/ready` | `ready` if every service is served and new clients are taken; else 503 and what is not so |
//! | `/metrics` | the counters of what the daemon uses in the Prometheus text format, with unit and meaning, each name after `tickcast_` |
//! | `/status` | the daemon's own description of itself, JSON; what is behind a `?` chooses a part of it |
//! | `/ledger` | what became of each update, by service, JSON |
//! | `/trace` | the way of one item from hop to hop, update by update, since the question before, JSON |
//! | `/disconnect`, with POST | a client's connection is ended, if the configuration allows it |
//! | `/drain`, `/undrain`, with POST | all clients are moved on and no new ones taken, and the reverse, if it is allowed |
//!
//! It runs on a thread of its own and reads what the working threads publish; nothing here is on the path of
//! an update.

mod connections;
mod orders;
mod prometheus;

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::thread;

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use counters::Registry;
use serde_json::Value;

use self::connections::Bounded;
use self::orders::Asker;
pub(crate) use self::orders::{OVER_MAX_S, Orders};

/// Gives the present status of a daemon, or the part of it that the URL asks for behind its `?`; may block.
pub(crate) type Status = Arc<dyn Fn(&str) -> Result<Value, NoStatus> + Send + Sync>;

/// Why there is no status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoStatus {
    /// The URL asks for what cannot be: 400, with what is wrong.
    Refused(String),
    /// The daemon does not answer now: 503, with why.
    Busy(String),
}

/// Says why something is not as it should be, a line each; nothing if it is. May block.
pub(crate) type Check = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// What a daemon says of itself.
#[derive(Clone)]
pub(crate) struct Daemon {
    /// Its description.
    pub(crate) status: Status,
    /// Its ledger.
    pub(crate) ledger: Status,
    /// The way of an item.
    pub(crate) trace: Status,
    /// Threads that do not turn.
    pub(crate) health: Check,
    /// Services that are not served.
    pub(crate) ready: Check,
    /// Carries out what is ordered; `None` if nothing may be.
    pub(crate) orders: Option<Orders>,
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
        net::affinity::step_aside();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let router = router(registry, daemon).into_make_service_with_connect_info::<Asker>();
            axum::serve(Bounded::new(listener), router).await
        })
    })?;
    Ok(local)
}

fn router(registry: Registry, daemon: Daemon) -> Router {
    let Daemon { status, ledger, trace, health, ready, orders } = daemon;
    let taking = |parse| {
        let orders = orders.clone();
        post(move |who, query, headers| orders::order(orders.clone(), who, query, headers, parse))
    };
    let metrics = move || {
        let text = prometheus::text(&registry.in_use());
        async move { ([(CONTENT_TYPE, prometheus::CONTENT)], text) }
    };
    Router::new()
        .route("/health", get(move || check(health.clone(), "ok")))
        .route("/ready", get(move || check(ready.clone(), "ready")))
        .route("/metrics", get(metrics))
        .route("/ledger", get(move |RawQuery(query)| describe(ledger.clone(), query.unwrap_or_default())))
        .route("/status", get(move |RawQuery(query)| describe(status.clone(), query.unwrap_or_default())))
        .route("/trace", get(move |RawQuery(query)| describe(trace.clone(), query.unwrap_or_default())))
        .route("/disconnect", taking(orders::parse_disconnect))
        .route("/drain", taking(orders::parse_drain))
        .route("/undrain", taking(orders::parse_undrain))
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
async fn describe(status: Status, query: String) -> Response {
    let failed = |_| Err(NoStatus::Busy("the daemon cannot describe itself".to_owned()));
    match tokio::task::spawn_blocking(move || status(&query)).await.unwrap_or_else(failed) {
        Ok(status) => Json(status).into_response(),
        Err(NoStatus::Refused(why)) => (StatusCode::BAD_REQUEST, why + "\n").into_response(),
        Err(NoStatus::Busy(why)) => (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use counters::table::{LbtrmSource, LbttcpSource};
    use daemon::{Order, OrderError, Wish};

    use super::*;

    fn fetch(from: SocketAddr, path: &str) -> String {
        request(from, "GET", path, "")
    }

    fn request(to: SocketAddr, method: &str, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(to).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: test\r\n{headers}Connection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn daemon(status: Value, wrong: &[&str]) -> Daemon {
        let wrong: Vec<String> = wrong.iter().map(|text| (*text).to_owned()).collect();
        let check: Check = Arc::new(move || wrong.clone());
        let ledger: Status = Arc::new(|_| Ok(serde_json::json!({ "hops": [] })));
        let status: Status = Arc::new(move |_| Ok(status.clone()));
        let trace: Status = Arc::new(|query| Ok(serde_json::json!({ "traced": query })));
        Daemon { status, ledger, trace, health: check.clone(), ready: check, orders: None }
    }

    #[test]
    fn the_paths_answer() {
        let registry = Registry::default();
        let source = Arc::new(LbtrmSource::default());
        source.msgs_sent.add(42);
        registry.register(&[("session", "ab\"c")], source);
        registry.register_optional(&[], Arc::new(LbttcpSource::default()));
        let daemon = daemon(serde_json::json!({"service": "BINANCE"}), &[]);
        let address = serve(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), registry, daemon).unwrap();
        assert!(fetch(address, "/health").ends_with("\r\n\r\nok\n"));
        assert!(fetch(address, "/ready").ends_with("\r\n\r\nready\n"));
        assert!(fetch(address, "/status").ends_with("{\"service\":\"BINANCE\"}"));
        assert!(fetch(address, "/ledger").ends_with("{\"hops\":[]}"));
        assert!(fetch(address, "/trace?item=A").ends_with("{\"traced\":\"item=A\"}"));
        let metrics = fetch(address, "/metrics");
        assert!(
            metrics.contains("\ntickcast_lbtrm_source_msgs_sent_total{session=\"ab\\\"c\"} 42\n"),
            "{metrics}"
        );
        assert!(!metrics.contains("lbttcp"), "nobody uses it: {metrics}");
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
    fn what_is_behind_the_path_of_the_status_is_the_daemons_to_understand() {
        let status: Status = Arc::new(|query| match query {
            "busy" => Err(NoStatus::Busy("ask again".to_owned())),
            "limit=0" => Err(NoStatus::Refused("`limit` must be 1 to 1000".to_owned())),
            query => Ok(serde_json::json!({ "query": query })),
        });
        let daemon = Daemon { status, ..daemon(Value::Null, &[]) };
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let address = serve(any, Registry::default(), daemon).unwrap();
        assert!(fetch(address, "/status").ends_with("{\"query\":\"\"}"));
        assert!(fetch(address, "/status?a=b%20&c").ends_with("{\"query\":\"a=b%20&c\"}"));
        let refused = fetch(address, "/status?limit=0");
        assert!(refused.starts_with("HTTP/1.1 400") && refused.ends_with("`limit` must be 1 to 1000\n"));
        assert!(fetch(address, "/status?busy").starts_with("HTTP/1.1 503"));
    }

    #[test]
    fn clients_are_disconnected_by_post_alone_if_that_is_allowed_and_never_from_a_page() {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let closed = serve(any, Registry::default(), daemon(Value::Null, &[])).unwrap();
        let refused = request(closed, "POST", "/disconnect?client=7", "");
        assert!(
            refused.starts_with("HTTP/1.1 403") && refused.contains("admin.disconnects = true"),
            "{refused}"
        );
        let (orders, taken) = std::sync::mpsc::channel();
        let is_for_nobody = |wish: &Wish| matches!(wish, Wish::Disconnect { client, .. } if *client != 7);
        let ends = orders.clone();
        let taking = Orders {
            carry_out: Arc::new(move |order: &Order| {
                orders.send(Some(order.clone())).unwrap();
                if is_for_nobody(&order.wish) {
                    Err(OrderError::NoClient(8))
                } else {
                    Ok(serde_json::json!({"done": 7}))
                }
            }),
            end_when_drained: Arc::new(move || ends.send(None).unwrap()),
        };
        let open = Daemon { orders: Some(taking), ..daemon(Value::Null, &[]) };
        let open = serve(any, Registry::default(), open).unwrap();
        assert!(request(open, "GET", "/disconnect?client=7", "").starts_with("HTTP/1.1 405"));
        let of_page = request(open, "POST", "/disconnect?client=7", "Origin: http://localhost\r\n");
        assert!(of_page.starts_with("HTTP/1.1 403"), "{of_page}");
        assert!(request(open, "POST", "/disconnect", "").starts_with("HTTP/1.1 400"));
        assert!(taken.try_recv().is_err(), "nobody was disconnected by these");
        assert!(request(open, "POST", "/disconnect?client=7", "").ends_with("{\"done\":7}"));
        let order = taken.try_recv().unwrap().unwrap();
        assert!(order.wish == Wish::Disconnect { client: 7, peer: None } && order.by.ip().is_loopback());
        let gone = request(open, "POST", "/disconnect?client=8", "");
        assert!(gone.starts_with("HTTP/1.1 404") && gone.contains("no client has the id 8"), "{gone}");
        taken.try_recv().unwrap();

        let wishes = || taken.try_iter().map(|order| order.map(|order| order.wish)).collect::<Vec<_>>();
        assert!(request(open, "GET", "/drain", "").starts_with("HTTP/1.1 405"));
        assert!(request(open, "POST", "/drain?end=yes", "").starts_with("HTTP/1.1 400"));
        assert!(request(closed, "POST", "/drain", "").starts_with("HTTP/1.1 403"));
        assert!(request(open, "POST", "/undrain", "Origin: http://a\r\n").starts_with("HTTP/1.1 403"));
        assert_eq!(wishes(), []);
        for path in ["/drain?over_ms=5", "/undrain", "/drain?end=true"] {
            assert!(request(open, "POST", path, "").ends_with("{\"done\":7}"));
        }
        let over = Some(std::time::Duration::from_millis(5));
        let given = [Wish::Drain { over }, Wish::Undrain, Wish::Drain { over: None }];
        assert_eq!(wishes(), given.into_iter().map(Some).chain([None]).collect::<Vec<_>>());
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
