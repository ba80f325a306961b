//! What is sent: updates tick by tick, images in what is left of a tick.

use rdm::ToVec;
use rwf::{DataState, DataType, Domain, Key, Qos, RefreshMsg, State, StreamState};
use server::rssl::{RsslListener, send};
use server::{ConnectionId, Outbox};

use super::core::{Client, Core, WantedImage};
use super::templates::Templates;
use crate::messages::{Stamp, TIM_TRK_1};
use crate::stamp_clock::StampUnit;

impl Core {
    /// Sends the updates of a tick to every connection.
    pub(super) fn tick(&mut self, tick: u64, listener: &mut RsslListener) {
        let on_tick = self.rate.on(tick);
        let bytes_max = self.templates.update_bytes_max;
        for (connection, client) in &mut self.clients {
            if client.live == 0 || client.is_paused {
                continue;
            }
            let left = self.updates_max - client.updates;
            let count = u64::from(on_tick).min(left) as u32;
            let waiting = depth_bytes(listener, *connection);
            let room = self.output_bytes.saturating_sub(waiting) / bytes_max;
            let fit = (count as usize).min(room) as u32;
            let sent = burst(*connection, client, fit, &mut self.templates, self.unit, listener.outbox());
            client.updates += u64::from(sent.updates);
            self.counts.updates += u64::from(sent.updates);
            self.counts.stamped += u64::from(sent.stamped);
            self.counts.dropped += u64::from(count - fit);
        }
    }

    /// Sends each connection so many of the images that it waits for. Whether there were any.
    pub(super) fn images(&mut self, burst: u32, listener: &mut RsslListener) -> bool {
        let mut any = false;
        for (connection, client) in &mut self.clients {
            for _ in 0..burst {
                // Half of the room is for updates.
                let waits = depth_bytes(listener, *connection) > self.output_bytes / 2;
                let Some(image) = (!waits).then(|| client.images.pop_front()).flatten() else { break };
                any = true;
                // One that was closed meanwhile gets none.
                if client.change(image.stream_id, |stream| stream.waits = false) || image.is_snapshot {
                    self.counts.images += 1;
                    send_image(*connection, &image, &self.templates, listener.outbox());
                }
            }
        }
        any
    }
}

/// Bytes that wait for a connection's socket.
fn depth_bytes(listener: &mut RsslListener, connection: ConnectionId) -> usize {
    listener.connection(connection).map_or(0, |info| info.backlog.depth_bytes)
}

/// What went out of a burst.
struct Sent {
    updates: u32,
    stamped: u32,
}

/// Sends updates to the items of a connection, each in its turn.
fn burst(
    connection: ConnectionId,
    client: &mut Client,
    count: u32,
    templates: &mut Templates,
    unit: StampUnit,
    outbox: &mut Outbox,
) -> Sent {
    let timed = client.plan.next(count);
    let mut sent = Sent { updates: 0, stamped: 0 };
    while sent.updates < count && client.live > 0 {
        if client.turn >= client.live {
            client.turn = 0;
        }
        let stream = &mut client.open[client.turn];
        client.turn += 1;
        // The stamp is taken before the message is made.
        let stamp = timed.includes(sent.updates).then(|| Stamp { id: TIM_TRK_1, time: unit.now() });
        let (message, has_stamp) = templates.stage(stream.shape, stream.updates, stamp, outbox);
        outbox.deliver(connection, message, stream.stream_id);
        stream.updates = stream.updates.wrapping_add(1);
        sent.updates += 1;
        sent.stamped += u32::from(has_stamp);
    }
    sent
}

fn send_image(connection: ConnectionId, image: &WantedImage, templates: &Templates, outbox: &mut Outbox) {
    let stream = if image.is_snapshot { StreamState::NonStreaming } else { StreamState::Open };
    let refresh = RefreshMsg {
        solicited: true,
        complete: true,
        clear_cache: true,
        private_stream: image.private_stream,
        state: State::new(stream, DataState::Ok),
        qos: Some(Qos::REAL_TIME),
        key: (!image.name.is_empty()).then(|| Key::item(image.service_id, &image.name)),
        payload: templates.image(image.shape),
        ..RefreshMsg::new(Domain::MARKET_PRICE, image.stream_id, DataType::FIELD_LIST)
    };
    // Its parts are bounded, so that it can be encoded.
    if let Ok(bytes) = refresh.to_vec() {
        send(outbox, connection, &bytes);
    }
}
