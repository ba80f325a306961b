use server::ConnectionId;

/// The connection of a client at one of the two ports, in one number. The number is used again when the connection is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortConnection(u32);

/// A connection of one of the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Rssl(ConnectionId),
    WebSocket(ConnectionId),
}

/// Set in the numbers of connections at the WebSocket port; neither port has so many connections.
const WEBSOCKET: u32 = 1 << 31;

impl PortConnection {
    pub(crate) fn rssl(connection: ConnectionId) -> PortConnection {
        PortConnection(connection.0)
    }

    pub(crate) fn websocket(connection: ConnectionId) -> PortConnection {
        PortConnection(connection.0 | WEBSOCKET)
    }

    #[inline]
    pub(crate) fn is_websocket(self) -> bool {
        self.0 & WEBSOCKET != 0
    }

    #[inline]
    pub(crate) fn port(self) -> Port {
        let connection = ConnectionId(self.0 & !WEBSOCKET);
        if self.is_websocket() { Port::WebSocket(connection) } else { Port::Rssl(connection) }
    }
}
