//! A server that is drained: it takes no clients, and those it has are moved on in slices, served until then.

use std::net::SocketAddr;
use std::time::Duration;

use backbone::Inlet;
use daemon::OrderError;
use market::p2ps::{ClientId, Parting};
use net::agent::Agent;
use serde_json::Value;
use server::websocket::WebSocketListener;
use tracing::{error, info};
use units::{Nanos, Rng};

use super::PointToPointServer;
use crate::backbone_to_market::BackboneToMarket;
use crate::config::DRAIN_GRACE;
use crate::drain::{self, Drain};
use crate::websocket;

/// What a server goes by when it is drained.
pub(super) struct Drains {
    /// It is drained, or was, and takes no clients.
    now: Option<Drain<ClientId>>,
    /// The number of this shard, and how many there are.
    place: (u32, u32),
    /// Within which time clients are moved on if nothing else is said; `None` if the configuration does not say.
    configured: Option<Duration>,
    /// How long a client has to take what waits for it.
    patience: Duration,
    /// The server ends behind it.
    ends: bool,
    /// When all clients are to be moved on by, if it does.
    ends_by: Nanos,
    order: Rng,
}

/// Within which time clients are moved on if neither the configuration nor who orders it says so.
const OVER_DEFAULT: Duration = Duration::from_secs(30);

impl Drains {
    pub(super) fn new(place: (u32, u32), configured: Duration, patience: Duration, seed: u64) -> Drains {
        let configured = Some(configured).filter(|configured| !configured.is_zero());
        Drains {
            now: None,
            place,
            configured,
            patience,
            ends: false,
            ends_by: Nanos::NEVER,
            order: Rng::new(seed),
        }
    }

    /// The server ends: nobody is moved on any more, and clients are not taken again.
    pub(super) fn end(&mut self) {
        self.ends = true;
        self.now.iter_mut().for_each(Drain::give_up);
    }

    pub(super) fn next_wakeup(&self) -> Nanos {
        self.now.as_ref().map_or(Nanos::NEVER, Drain::next_due)
    }

    /// What a status page shows.
    pub(super) fn to_json(&self, now: Nanos, connections: usize, is_empty: bool) -> Value {
        self.now.as_ref().map_or_else(drain::serving, |drain| drain.to_json(now, connections, is_empty))
    }
}

impl<I: Inlet> PointToPointServer<I> {
    /// Moves clients on before the server ends: within the time that is configured, or that an operator has ordered if
    /// that is over earlier. The agent is to be driven until [`Agent::has_ended`], which is before the returned time.
    pub fn drain_to_end(&mut self, now: Nanos) -> Nanos {
        self.drains.ends = true;
        let over = self.drains.configured.unwrap_or_default();
        let is_late = self.drains.now.as_ref().is_some_and(|drain| drain.ends_at() > now + over);
        if self.drains.now.is_none() || is_late {
            self.drain(now, Some(over), None);
        }
        let ends_by = self.drains.now.as_ref().map_or(now, Drain::ends_at).max(now);
        self.drains.ends_by = ends_by;
        ends_by + self.drains.patience + DRAIN_GRACE
    }

    /// Drains as an operator has ordered. A server that ends does not wait longer for it than it would.
    pub(super) fn order_drain(
        &mut self,
        now: Nanos,
        over: Option<Duration>,
        by: SocketAddr,
    ) -> Result<Value, OrderError> {
        let left = self.drains.ends_by.since(now);
        if over.is_some_and(|over| over > left) {
            return Err(OrderError::EndsBefore { left_ms: left.as_millis() as u64 });
        }
        Ok(self.drain(now, over, Some(by)))
    }

    /// Takes no more clients, and begins to move on those there are; one that goes on is left as it is, or given another
    /// time. Returns what a status page shows of it.
    pub(super) fn drain(&mut self, now: Nanos, over: Option<Duration>, by: Option<SocketAddr>) -> Value {
        match (&mut self.drains.now, over) {
            (Some(drain), Some(over)) => {
                drain.respread(now, over);
                info!(
                    clients = drain.left(),
                    over_ms = over.as_millis() as u64,
                    "the drain has another time"
                );
            }
            (Some(_), None) => {}
            (None, over) => {
                let over = over.or(self.drains.configured).unwrap_or(OVER_DEFAULT);
                self.begin_drain(now, over, by);
            }
        }
        self.count_drain();
        self.describe_drain(now)
    }

    fn begin_drain(&mut self, now: Nanos, over: Duration, by: Option<SocketAddr>) {
        let patience = self.drains.patience;
        let mut shut = Ok(());
        self.with_rssl(|port, clients| shut = port.shut(now, patience, clients));
        self.with_websocket(|port, clients| {
            let websocket = port.shut(now, patience, clients);
            shut = std::mem::replace(&mut shut, Ok(())).and(websocket);
        });
        if let Err(error) = shut {
            error!(%error, "a port cannot be shut: clients may come while the server is drained");
        }
        let mut clients: Vec<ClientId> = self.rssl.ids().map(|id| ClientId(id.0)).collect();
        if let Some(port) = &self.websocket {
            clients.extend(port.ids().map(websocket::client_of));
        }
        // Sessions that an application has opened one behind the other do not leave all in one slice.
        for at in (1..clients.len()).rev() {
            clients.swap(at, self.drains.order.below(at as u64 + 1) as usize);
        }
        let (others, at_once) = clients.into_iter().partition(|client| self.core.is_logged_in(*client));
        let drain = Drain::begin(now, over, self.drains.place, at_once, others);
        let by = by.map(|by| by.to_string());
        info!(
            clients = drain.left(),
            over_ms = over.as_millis() as u64,
            by,
            "draining: no clients are taken, those that are there are moved on"
        );
        self.drains.now = Some(drain);
    }

    /// Takes clients again.
    pub(super) fn undrain(&mut self, now: Nanos, by: SocketAddr) -> Result<Value, OrderError> {
        if self.drains.ends {
            return Err(OrderError::Ends);
        }
        if self.drains.now.is_some() {
            let taken = |error: std::io::Error| OrderError::PortsTaken(error.to_string());
            self.rssl.reopen().map_err(taken)?;
            if let Some(port) = &mut self.websocket
                && let Err(error) = port.reopen()
            {
                let patience = self.drains.patience;
                self.with_rssl(|rssl, clients| _ = rssl.shut(now, patience, clients));
                return Err(taken(error));
            }
            let moved = self.drains.now.take().map_or(0, |drain| drain.moved());
            info!(moved, %by, "the drain is taken back: clients are taken again");
        }
        self.count_drain();
        Ok(self.describe_drain(now))
    }

    /// Moves on clients that are due.
    pub(super) fn serve_drain(&mut self, now: Nanos) {
        if self.drains.now.is_some() {
            self.move_some(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn move_some(&mut self, now: Nanos) {
        let is_empty = self.has_ended();
        let Some(drain) = &mut self.drains.now else { return };
        let due = drain.take_due(now);
        let (left, moved) = (drain.left(), drain.moved());
        if drain.reports(now) {
            info!(clients = left, moved, "draining: clients are left");
        } else if drain.finishes(is_empty) {
            info!(moved, "drained: no client is left");
        }
        for client in due {
            let (BackboneToMarket { core, mut sink, .. }, _) = self.backbone_to_market();
            core.announce_disconnect(client, Parting::Moved, &mut sink);
            self.dismiss(client);
        }
        self.count_drain();
    }

    fn count_drain(&self) {
        let (is_drained, left) = self.drains.now.as_ref().map_or((0, 0), |drain| (1, drain.left() as u64));
        self.counters.is_drained.set(is_drained);
        self.counters.clients_to_drain.set(left);
    }

    fn describe_drain(&self, now: Nanos) -> Value {
        let websocket = self.websocket.as_ref().map_or(0, WebSocketListener::connection_count);
        self.drains.to_json(now, self.rssl.connection_count() + websocket, self.has_ended())
    }
}
