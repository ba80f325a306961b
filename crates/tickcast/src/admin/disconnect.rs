//! `POST /disconnect?client=ID`: an operator ends a client's connection.
//!
//! It is the one thing that the port changes, so it has rules of its own: `admin.disconnects` allows it, by default only
//! where the port listens on loopback; no page of a browser may cause it, whatever address it knows; and the log names who
//! has asked.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, RawQuery};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use daemon::{Order, OrderError};
use serde_json::Value;

use super::connections::Bounded;

/// Carries out an order; may block.
pub(crate) type Disconnect = Arc<dyn Fn(Order) -> Result<Value, OrderError> + Send + Sync>;

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Asker(SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for Asker {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Asker {
        Asker(*stream.remote_addr())
    }
}

/// What is answered if it is not allowed.
const FORBIDDEN: &str = "clients are not disconnected from here: admin.disconnects = true allows it";

pub(super) async fn disconnect(
    disconnect: Option<Disconnect>,
    ConnectInfo(Asker(by)): ConnectInfo<Asker>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(disconnect) = disconnect else { return refuse(StatusCode::FORBIDDEN, FORBIDDEN) };
    // Browsers name the page's origin with every POST; no other program does.
    if headers.contains_key(ORIGIN) {
        return refuse(StatusCode::FORBIDDEN, "pages of browsers may not disconnect clients");
    }
    let order = match parse(query.as_deref().unwrap_or_default(), by) {
        Ok(order) => order,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let done = tokio::task::spawn_blocking(move || disconnect(order)).await;
    match done.unwrap_or(Err(OrderError::Busy)) {
        Ok(done) => Json(done).into_response(),
        Err(error) => refuse(status_of(&error), &error.to_string()),
    }
}

fn status_of(error: &OrderError) -> StatusCode {
    match error {
        OrderError::NoClient(_) | OrderError::Unsupported => StatusCode::NOT_FOUND,
        OrderError::Another { .. } => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

fn parse(query: &str, by: SocketAddr) -> Result<Order, String> {
    let (mut client, mut peer) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_given = match name {
            "client" => client
                .replace(number(value).ok_or("`client` must be the id of a client in /status")?)
                .is_some(),
            "peer" => {
                let address = value.parse::<SocketAddr>().ok();
                peer.replace(address.ok_or("`peer` must be ADDRESS:PORT, as /status has it of the client")?)
                    .is_some()
            }
            _ => return Err("parameters here: client, peer".to_owned()),
        };
        if is_given {
            return Err(format!("`{name}` is given twice"));
        }
    }
    let client = client.ok_or("`client` is missing: the id of a client in /status")?;
    Ok(Order { client, peer, by })
}

fn number(text: &str) -> Option<u64> {
    // `parse` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_one_client_and_says_what_is_wrong_otherwise() {
        let by = SocketAddr::from(([127, 0, 0, 1], 7));
        let peer = SocketAddr::from(([10, 0, 0, 5], 4000));
        let order = |peer| Ok(Order { client: 4_294_967_297, peer, by });
        assert_eq!(parse("client=4294967297", by), order(None));
        assert_eq!(parse("client=4294967297&peer=10.0.0.5:4000", by), order(Some(peer)));
        for (wrong, why) in [
            ("", "`client` is missing"),
            ("peer=10.0.0.5:4000", "`client` is missing"),
            ("client=", "`client` must be"),
            ("client=-1", "`client` must be"),
            ("client=18446744073709551616", "`client` must be"),
            ("client=1&client=2", "`client` is given twice"),
            ("client=1&peer=10.0.0.5", "`peer` must be"),
            ("client=1&user=*", "parameters here: client, peer"),
        ] {
            let said = parse(wrong, by).expect_err("it is not understood");
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
    }
}
