//! `POST /disconnect?client=ID`, `POST /drain`, `POST /undrain`: an operator ends a client's connection, or moves all
//! clients on before maintenance.
//!
//! These are the things that the port changes, so they have rules of their own: `admin.disconnects` allows them, by default
//! only where the port listens on loopback; no page of a browser may cause them, whatever address it knows; and the log
//! names who has asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, RawQuery};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use daemon::{Order, OrderError, Wish};
use serde_json::Value;

use super::connections::Bounded;

/// Carries out orders; may block.
pub(crate) type CarryOut = Arc<dyn Fn(&Order) -> Result<Value, OrderError> + Send + Sync>;

/// What carries out orders.
#[derive(Clone)]
pub(crate) struct Orders {
    pub(crate) carry_out: CarryOut,
    /// Ends the daemon when it is drained.
    pub(crate) end_when_drained: Arc<dyn Fn() + Send + Sync>,
}

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Asker(SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for Asker {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Asker {
        Asker(*stream.remote_addr())
    }
}

/// What is answered if it is not allowed.
const FORBIDDEN: &str =
    "clients are neither disconnected nor moved on from here: admin.disconnects = true allows it";

/// A wish, and whether the daemon is to end behind it.
type Parsed = Result<(Wish, bool), String>;

/// Answers a request for a path with an order; `parse` understands what is behind the `?`.
pub(super) async fn order(
    orders: Option<Orders>,
    ConnectInfo(Asker(by)): ConnectInfo<Asker>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    parse: fn(&str) -> Parsed,
) -> Response {
    let Some(orders) = orders else { return refuse(StatusCode::FORBIDDEN, FORBIDDEN) };
    // Browsers name the page's origin with every POST; no other program does.
    if headers.contains_key(ORIGIN) {
        return refuse(StatusCode::FORBIDDEN, "pages of browsers may not disconnect clients");
    }
    let (wish, ends) = match parse(query.as_deref().unwrap_or_default()) {
        Ok(parsed) => parsed,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let carry_out = move || {
        let done = (orders.carry_out)(&Order { wish, by })?;
        if ends {
            (orders.end_when_drained)();
        }
        Ok(done)
    };
    let done = tokio::task::spawn_blocking(carry_out).await;
    match done.unwrap_or(Err(OrderError::Busy)) {
        Ok(done) => Json(done).into_response(),
        Err(error) => refuse(status_of(&error), &error.to_string()),
    }
}

fn status_of(error: &OrderError) -> StatusCode {
    match error {
        OrderError::NoClient(_) | OrderError::Unsupported => StatusCode::NOT_FOUND,
        OrderError::Another { .. }
        | OrderError::PortsTaken(_)
        | OrderError::Ends
        | OrderError::EndsBefore { .. } => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

/// The names and values of a query.
fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

pub(super) fn parse_disconnect(query: &str) -> Parsed {
    let (mut client, mut peer) = (None, None);
    for (name, value) in pairs(query) {
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
    Ok((Wish::Disconnect { client, peer }, false))
}

/// The longest time for a drain, in seconds: as in `p2ps.drain_ms`.
pub(crate) const OVER_MAX_S: u64 = 86_400;
const OVER_MAX_MS: u64 = 1_000 * OVER_MAX_S;

pub(super) fn parse_drain(query: &str) -> Parsed {
    let (mut over, mut end) = (None, None);
    for (name, value) in pairs(query) {
        let is_given = match name {
            "over_ms" => {
                let ms = number(value).filter(|ms| *ms <= OVER_MAX_MS);
                over.replace(ms.ok_or("`over_ms` must be milliseconds, 0 to 86400000")?).is_some()
            }
            "end" => {
                let is_wanted = value.parse::<bool>().ok();
                end.replace(is_wanted.ok_or("`end` must be true or false")?).is_some()
            }
            _ => return Err("parameters here: over_ms, end".to_owned()),
        };
        if is_given {
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok((Wish::Drain { over: over.map(Duration::from_millis) }, end.unwrap_or(false)))
}

pub(super) fn parse_undrain(query: &str) -> Parsed {
    match pairs(query).next() {
        None => Ok((Wish::Undrain, false)),
        Some(_) => Err("/undrain has no parameters".to_owned()),
    }
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
        let peer = SocketAddr::from(([10, 0, 0, 5], 4000));
        let order = |peer| Ok((Wish::Disconnect { client: 4_294_967_297, peer }, false));
        assert_eq!(parse_disconnect("client=4294967297"), order(None));
        assert_eq!(parse_disconnect("client=4294967297&peer=10.0.0.5:4000"), order(Some(peer)));
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
            let said = parse_disconnect(wrong).expect_err("it is not understood");
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_drain_may_have_a_time_and_an_end_behind_it() {
        let drain = |over: Option<u64>, end| Ok((Wish::Drain { over: over.map(Duration::from_millis) }, end));
        assert_eq!(parse_drain(""), drain(None, false));
        assert_eq!(parse_drain("over_ms=0&end=true"), drain(Some(0), true));
        assert_eq!(parse_drain("end=false&over_ms=86400000"), drain(Some(OVER_MAX_MS), false));
        for (wrong, why) in [
            ("over_ms=", "`over_ms` must be"),
            ("over_ms=86400001", "`over_ms` must be"),
            ("over_ms=-1", "`over_ms` must be"),
            ("over_ms=1&over_ms=1", "`over_ms` is given twice"),
            ("end", "`end` must be"),
            ("end=1", "`end` must be"),
            ("client=1", "parameters here: over_ms, end"),
        ] {
            let said = parse_drain(wrong).expect_err("it is not understood");
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
        assert_eq!(parse_undrain(""), Ok((Wish::Undrain, false)));
        assert!(parse_undrain("over_ms=1").is_err());
    }
}
