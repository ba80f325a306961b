use backbone::InletCommand;
use market::backbone::LinkUp;
use market::p2ps::{
    ClientId, PointToPoint, ServerNotice, ServerSink, SourceId, StampedUpdate, UpstreamSink, Watcher,
};
use rdm::item::has_items;
use rdm::{Reply, ToVec};
use rwf::{Domain, StateCode};
use server::websocket::StagedJson;
use server::{ConnectionId, Outbox, Staged};
use tracing::warn;
use units::Nanos;

use crate::hops::Hops;
use crate::pace::Pace;
use crate::websocket::{self, Json, Streams};

/// Who has no class is closed for its backlog as who has one of the same priority.
const _: () = assert!(market::p2ps::PRIORITY_DEFAULT == server::WEIGHT_DEFAULT);

/// Carries out what the core decides: messages go to clients at once, commands to the backbone after what is being
/// handled.
pub(crate) struct MarketToClients<'a> {
    pub(crate) rssl: &'a mut Outbox,
    /// None if there is no WebSocket port, and so no such client.
    pub(crate) websocket: Option<&'a mut Outbox>,
    pub(crate) json: &'a Json,
    pub(crate) streams: &'a mut Streams,
    pub(crate) commands: &'a mut Vec<InletCommand>,
    pub(crate) pace: &'a mut Pace,
    /// None while clients are listened to: updates do not come from them.
    pub(crate) hops: Option<&'a mut Hops>,
}

impl MarketToClients<'_> {
    /// What is in the outboxes, in bytes.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.rssl.staged_bytes() + self.websocket.as_ref().map_or(0, |outbox| outbox.staged_bytes())
    }

    /// Whether a message of a client has to wait: it is kept then.
    pub(crate) fn defers(&mut self, core: &PointToPoint, client: ClientId, message: &[u8]) -> bool {
        let waits = self.pace.is_waiting(client) || !self.pace.has_room();
        if waits {
            core.count_deferred();
            self.pace.keep(client, message);
        }
        waits
    }

    /// A message of a client, or a part of what one wants, is about to be served.
    pub(crate) fn begin(&mut self) {
        self.pace.begin(self.staged_bytes());
    }

    /// It was served. Returns whether more may be done for the client in this turn; if not, it waits.
    pub(crate) fn goes_on(&mut self, core: &PointToPoint, client: ClientId) -> bool {
        let goes_on = self.admits_more(client) && !core.is_busy(client);
        if !goes_on {
            self.pace.hold(client);
        }
        goes_on
    }

    /// Lets the core know what became of messages that could not be shown to WebSocket clients: streams that
    /// were closed have ended, those that lack something want an image in its time.
    pub(crate) fn settle(&mut self, now: Nanos, core: &mut PointToPoint) {
        if self.streams.is_settled() {
            return;
        }
        for mut lacking in self.streams.take_fresh() {
            let private = lacking.watchers.extract_if(.., |watcher| core.is_private(*watcher));
            for watcher in private.collect::<Vec<Watcher>>() {
                self.close_private(watcher, lacking.domain);
                core.end_stream(now, watcher, self);
            }
            self.streams.await_image(now, lacking);
        }
        let due = self.streams.take_due(now);
        core.send_images(&due, self);
        for watcher in self.streams.take_ended() {
            core.end_stream(now, watcher, self);
        }
    }

    /// Whether a client had better be served what is due later: it lags, or awaits its next round.
    pub(crate) fn has_no_room(&mut self, client: ClientId) -> bool {
        let awaits_round = match (websocket::connection_of(client), &self.websocket) {
            (None, _) => self.rssl.awaits_round(ConnectionId(client.0)),
            (Some(connection), Some(outbox)) => outbox.awaits_round(connection),
            (Some(_), None) => false,
        };
        awaits_round || self.lags(client)
    }

    /// A client that lags or awaits a round is to be served when it has room.
    pub(crate) fn await_room(&mut self, client: ClientId) {
        match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.await_room(ConnectionId(client.0)),
            (Some(connection), Some(outbox)) => outbox.await_room(connection),
            (Some(_), None) => {}
        }
    }

    /// Lets clients have a message, each under its stream id. An update is refused for clients whose updates are
    /// conflated; for RSSL that is found where a delivery looks anyway.
    #[inline]
    fn deliver<const IS_UPDATE: bool>(
        &mut self,
        watchers: &[Watcher],
        msg: &[u8],
        refused: &mut Vec<Watcher>,
    ) {
        let mut as_it_is: Option<Staged> = None;
        let mut as_json: Option<Option<StagedJson>> = None;
        for &watcher in watchers {
            let Watcher { client, stream_id } = watcher;
            match (websocket::connection_of(client), &mut self.websocket) {
                (None, _) => {
                    let staged = *as_it_is.get_or_insert_with(|| self.rssl.stage(msg));
                    let to = ConnectionId(client.0);
                    if !IS_UPDATE {
                        self.rssl.deliver(to, staged, stream_id);
                    } else if self.rssl.deliver_update(to, staged, stream_id) {
                        refused.push(watcher);
                    }
                }
                (Some(connection), Some(outbox)) => {
                    if IS_UPDATE && outbox.is_conflated(connection) {
                        refused.push(watcher);
                        continue;
                    }
                    let shown = *as_json.get_or_insert_with(|| self.json.stage(outbox, msg));
                    if let Some(StagedJson { staged, effect }) = shown
                        && self.streams.admits(client, stream_id, effect)
                    {
                        outbox.deliver(connection, staged, stream_id);
                    }
                }
                (Some(_), None) => {}
            }
        }
    }

    /// Of a private stream nothing is kept that could be sent again.
    fn close_private(&mut self, watcher: Watcher, domain: Domain) {
        let reply = Reply { domain, stream_id: watcher.stream_id, key: None, private_stream: true };
        let text = "an update of this private stream cannot be written as JSON";
        if let Ok(status) = reply.closed(StateCode::ERROR, text).to_vec() {
            self.json.counters().streams_closed.inc();
            self.fan_out(&[watcher], &status);
        }
    }
}

impl ServerSink for MarketToClients<'_> {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        let Some(connection) = websocket::connection_of(client) else {
            return server::rssl::send(self.rssl, ConnectionId(client.0), msg);
        };
        match (rwf::peek(msg), &mut self.websocket) {
            (Ok(head), Some(outbox)) if !has_items(head.domain) => {
                self.streams.note_other(connection, head, msg);
                self.json.send(outbox, connection, msg);
            }
            (Ok(head), _) => self.fan_out(&[Watcher { client, stream_id: head.stream_id }], msg),
            (Err(_), _) => {}
        }
    }

    fn begin_stamped(&mut self, update: &StampedUpdate<'_>) {
        let staged_bytes = self.staged_bytes();
        if let Some(hops) = &mut self.hops {
            hops.begin(update, staged_bytes);
        }
    }

    fn end_stamped(&mut self) {
        let staged_bytes = self.staged_bytes();
        if let Some(hops) = &mut self.hops {
            hops.end(staged_bytes);
        }
    }

    fn set_rate(&mut self, client: ClientId, bytes_per_second: u64) {
        match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.set_rate(ConnectionId(client.0), bytes_per_second),
            (Some(connection), Some(outbox)) => outbox.set_rate(connection, bytes_per_second),
            (Some(_), None) => {}
        }
    }

    fn set_priority(&mut self, client: ClientId, priority: u8) {
        self.pace.set_priority(client, priority);
        match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.set_weight(ConnectionId(client.0), priority),
            (Some(connection), Some(outbox)) => outbox.set_weight(connection, priority),
            (Some(_), None) => {}
        }
    }

    fn admits_more(&mut self, client: ClientId) -> bool {
        let staged_bytes = self.staged_bytes();
        self.pace.charge(client, staged_bytes)
    }

    fn lags(&mut self, client: ClientId) -> bool {
        match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.lags(ConnectionId(client.0)),
            (Some(connection), Some(outbox)) => outbox.lags(connection),
            (Some(_), None) => false,
        }
    }

    fn end_round(&mut self, client: ClientId) {
        match (websocket::connection_of(client), &mut self.websocket) {
            (None, _) => self.rssl.end_round(ConnectionId(client.0)),
            (Some(connection), Some(outbox)) => outbox.end_round(connection),
            (Some(_), None) => {}
        }
    }

    #[inline]
    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        self.deliver::<false>(watchers, msg, &mut Vec::new());
    }

    #[inline]
    fn fan_out_update(&mut self, watchers: &[Watcher], msg: &[u8], refused: &mut Vec<Watcher>) {
        self.deliver::<true>(watchers, msg, refused);
    }
}

impl UpstreamSink for MarketToClients<'_> {
    fn subscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Subscribe(service.to_owned()));
    }

    fn unsubscribe(&mut self, service: &str) {
        self.commands.push(InletCommand::Unsubscribe(service.to_owned()));
    }

    fn connect(&mut self, instance: u64, directory: SourceId) {
        self.commands.push(InletCommand::Connect { instance, directory });
    }

    fn disconnect_link(&mut self, instance: u64) {
        self.commands.push(InletCommand::Disconnect(instance));
    }

    fn notice(&mut self, notice: &ServerNotice<'_>) {
        warn!("{notice}");
    }

    fn to_instance(&mut self, instance: u64, msg: &LinkUp<'_>) {
        let mut bytes = Vec::new();
        msg.encode(&mut bytes);
        self.commands.push(InletCommand::Send { instance, bytes });
    }
}
