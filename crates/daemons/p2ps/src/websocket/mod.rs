//! The WebSocket port: what its clients say becomes RWF for the core, what the core says becomes JSON for
//! them.

mod ids;
mod json_to_market;
mod streams;

use market::p2ps::{ClientId, PointToPoint};
use rwf_json::Reader;
use server::ConnectionId;

pub(crate) use json_to_market::JsonToMarket;
pub(crate) use server::websocket::Json;
pub(crate) use streams::Streams;

/// Ids of clients on the WebSocket port have this bit, others do not.
const WEBSOCKET: u32 = 1 << 31;

/// The core's number of a client on the WebSocket port.
pub(crate) fn client_of(connection: ConnectionId) -> ClientId {
    ClientId(connection.0 | WEBSOCKET)
}

/// The connection of a client, if it is one of the WebSocket port.
#[inline]
pub(crate) fn connection_of(client: ClientId) -> Option<ConnectionId> {
    (client.0 & WEBSOCKET != 0).then_some(ConnectionId(client.0 & !WEBSOCKET))
}

/// Takes over which services there are now, if they are others than before.
#[inline]
pub(crate) fn update_services(json: &mut Json, core: &PointToPoint) {
    let services = || core.services().map(|(id, name, ..)| (id, name));
    json.update_services_to(core.services_version(), services);
}

/// What the port keeps between messages.
#[derive(Default)]
pub(crate) struct Input {
    reader: Reader,
}
