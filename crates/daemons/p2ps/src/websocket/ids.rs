use std::collections::HashMap;
use std::ops::RangeInclusive;

use rwf::Domain;
use server::ConnectionId;

/// The open streams of WebSocket clients that are not about items: login, directories, dictionaries.
///
/// The core keeps domains apart; on this port ids are one space for all of them, and a close need not name the
/// domain. Known from what the clients were sent: an image opens a stream, its end frees the id.
#[derive(Debug, Default)]
pub(super) struct OtherIds(HashMap<ConnectionId, Vec<(i32, Domain)>>);

/// Most such streams of one client that are known; the ids of more are the client's own matter.
const OTHERS_MAX: usize = 64;

impl OtherIds {
    /// The client has such a stream.
    pub(super) fn open(&mut self, connection: ConnectionId, stream_id: i32, domain: Domain) {
        let open = self.0.entry(connection).or_default();
        if open.len() < OTHERS_MAX && open.iter().all(|(known, _)| *known != stream_id) {
            open.push((stream_id, domain));
        }
    }

    /// It is over; returns what it was.
    pub(super) fn close(&mut self, connection: ConnectionId, stream_id: i32) -> Option<Domain> {
        let open = self.0.get_mut(&connection)?;
        let place = open.iter().position(|(known, _)| *known == stream_id)?;
        Some(open.swap_remove(place).1)
    }

    /// The first of these ids that is in use, and for what.
    pub(super) fn in_use(
        &self,
        connection: ConnectionId,
        ids: &RangeInclusive<i32>,
    ) -> Option<(i32, Domain)> {
        let used = self.0.get(&connection)?.iter().filter(|(id, _)| ids.contains(id));
        used.min_by_key(|(id, _)| *id).copied()
    }

    /// A connection is gone.
    pub(super) fn forget_all(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_stream_until_it_is_closed() {
        let (mut ids, a, b) = (OtherIds::default(), ConnectionId(1), ConnectionId(2));
        ids.open(a, 1, Domain::LOGIN);
        ids.open(a, 4, Domain::SOURCE);
        ids.open(a, 4, Domain::DICTIONARY);
        assert_eq!(ids.in_use(a, &(2..=9)), Some((4, Domain::SOURCE)));
        assert_eq!((ids.in_use(a, &(2..=3)), ids.in_use(b, &(1..=9))), (None, None));
        assert_eq!((ids.close(a, 4), ids.close(a, 4)), (Some(Domain::SOURCE), None));
        ids.forget_all(a);
        assert_eq!(ids.in_use(a, &(0..=i32::MAX)), None);
    }

    #[test]
    fn a_client_cannot_make_the_table_grow_without_end() {
        let mut ids = OtherIds::default();
        (0..1000).for_each(|id| ids.open(ConnectionId(1), id, Domain::SOURCE));
        assert_eq!(ids.0[&ConnectionId(1)].len(), OTHERS_MAX);
    }
}
