//! What connections get: written with each flush, and what ends them from this side.

use units::Nanos;

use super::Listener;
use crate::port::protocol::{Protocol, Service};
use crate::{ConnectionId, Seat};

/// When all backlogs together are above their limit, this part of it is made free.
const RELIEF_PART: u64 = 8;
/// Backlogs are compared with this precision: bytes of a weight of this.
const WEIGHT_SCALE: usize = 256;

impl<P: Protocol> Listener<P> {
    /// Frames and writes everything in the outbox.
    pub fn flush(&mut self, now: Nanos, service: &mut impl Service<P>) {
        for (id, bytes_per_second) in self.outbox.take_rates() {
            if let Some(connection) = self.connections.get_mut(id.0 as usize) {
                connection.set_rate(now, bytes_per_second, &self.ladder_base);
            }
        }
        let dirty = self.outbox.take_dirty();
        for &id in &dirty {
            let index = id.0 as usize;
            let Some(connection) = self.connections.get_mut(index) else {
                self.outbox.remove(id);
                continue;
            };
            let (log, entries) = self.outbox.parts(id);
            self.delivered.0 += entries.len() as u64;
            let mut result =
                connection.write_entries(now, &mut self.protocol, log, entries, &mut self.scratch);
            if result.is_ok() && connection.is_unwanted {
                result = Err(connection.stop());
            }
            match result {
                Ok(()) => self.update_interest(now, index, service),
                Err(reason) => self.close(now, index, &reason, service),
            }
        }
        self.outbox.give_back_dirty(dirty);
        if self.outbox.is_idle() {
            self.protocol.on_log_cleared();
            self.outbox.clear();
        }
        for id in self.outbox.take_short() {
            self.counters.output_overflows.inc();
            self.cut_off(now, id, service);
        }
        self.close_unwanted(now, service);
        if self.backlog_bytes as u64 > self.limits.backlogs_bytes_max {
            self.relieve(now, service);
        }
        self.connections.release(|index| service.knows(ConnectionId(index as u32)));
        self.counters.backlog_bytes.set(self.backlog_bytes as u64);
    }

    /// Closes those who have most waiting for them in relation to their weights, until some room is left for the others.
    #[cold]
    fn relieve(&mut self, now: Nanos, service: &mut impl Service<P>) {
        let mut waiting: Vec<(usize, usize)> = self
            .connections
            .iter()
            .map(|(index, connection)| {
                let weight = usize::from(self.outbox.weight(ConnectionId(index as u32)));
                (connection.counted_backlog.saturating_mul(WEIGHT_SCALE) / weight, index)
            })
            .collect();
        waiting.sort_unstable_by_key(|(weighed, _)| std::cmp::Reverse(*weighed));
        let wanted = self.limits.backlogs_bytes_max - self.limits.backlogs_bytes_max / RELIEF_PART;
        for (_, index) in waiting {
            if self.backlog_bytes as u64 <= wanted {
                break;
            }
            self.counters.backlogs_relieved.inc();
            self.cut_off(now, ConnectionId(index as u32), service);
        }
    }

    /// Ends a connection at once.
    fn cut_off(&mut self, now: Nanos, id: ConnectionId, service: &mut impl Service<P>) {
        if let Some(connection) = self.connections.get_mut(id.0 as usize) {
            let reason = connection.stop();
            self.close(now, id.0 as usize, &reason, service);
        }
    }

    /// Closes a connection with the next [`Listener::flush`], after what is in the outbox for it.
    pub fn dismiss(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id.0 as usize) {
            connection.is_unwanted = true;
            self.outbox.note_unwanted(id);
        }
    }

    /// Connections that the service wants closed and had nothing to tell.
    fn close_unwanted(&mut self, now: Nanos, service: &mut impl Service<P>) {
        while let Some(id) = self.outbox.take_unwanted() {
            if self.connections.get(id.0 as usize).is_some_and(|connection| connection.is_unwanted) {
                self.cut_off(now, id, service);
            }
        }
    }

    /// Ends the port: no more connections are taken, and those there are end with the next [`Listener::flush`],
    /// behind all that waits for them, which is written until `until`. [`Listener::has_ended`] tells when.
    pub fn end(&mut self, until: Nanos) {
        self.admission.acceptors.close();
        self.seat.iter().for_each(Seat::leave);
        self.closings.end_at(until);
        for (index, connection) in self.connections.iter_mut() {
            connection.is_unwanted = true;
            self.outbox.note_unwanted(ConnectionId(index as u32));
        }
    }
}
