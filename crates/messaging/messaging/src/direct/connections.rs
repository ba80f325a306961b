//! Direct connections: found by their names, and looked at when something has happened to them or is due for them,
//! so that those which are idle cost nothing.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::ops::{Index, IndexMut};

use slab::Slab;
use units::{Deadlines, Nanos};

use super::connection::Connection;
use crate::ConnectionId;

/// The direct connections of a context.
///
/// Whoever changes one gets it by [`Connections::get_mut`], which notes it; what is noted is looked at once by the
/// next flush, which writes what waits and says when the connection is due ([`Connections::settle`]).
#[derive(Default)]
pub(super) struct Connections {
    all: Slab<Connection>,
    by_id: HashMap<ConnectionId, usize>,
    /// Those to answer, by whom.
    answering: HashMap<SocketAddrV4, usize>,
    /// To which something has happened, each once. One that is gone may stand here still.
    touched: Vec<usize>,
    due: Deadlines,
    /// Bytes that wait for sockets, of all connections as they were last looked at.
    waiting: u64,
    /// How often one was looked at.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Connections {
    /// Above all indexes.
    pub(super) fn capacity(&self) -> usize {
        self.all.capacity()
    }

    /// The index of the next one that is inserted.
    pub(super) fn vacant_key(&self) -> usize {
        self.all.vacant_key()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.all.iter()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Connection> {
        self.all.get(index)
    }

    /// One that may be changed.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Connection> {
        let connection = self.all.get_mut(index)?;
        if !std::mem::replace(&mut connection.is_touched, true) {
            self.touched.push(index);
        }
        Some(connection)
    }

    pub(super) fn index_of(&self, id: ConnectionId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The connection by which a peer is answered.
    pub(super) fn index_of_answers(&self, to: SocketAddrV4) -> Option<usize> {
        self.answering.get(&to).copied()
    }

    pub(super) fn insert(&mut self, connection: Connection) -> usize {
        let (id, answers) = (connection.id, connection.answers());
        let index = self.all.insert(connection);
        self.by_id.insert(id, index);
        if let Some((to, _)) = answers {
            self.answering.insert(to, index);
        }
        self.get_mut(index);
        index
    }

    pub(super) fn remove(&mut self, index: usize) -> Connection {
        let gone = self.all.remove(index);
        self.by_id.remove(&gone.id);
        if let Some((to, _)) = gone.answers()
            && self.index_of_answers(to) == Some(index)
        {
            self.answering.remove(&to);
        }
        self.due.remove(index as u32);
        self.waiting -= gone.waiting;
        gone
    }

    /// Whether nothing has happened since all were looked at.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.touched.is_empty()
    }

    /// Takes those to which something has happened; each is to be settled.
    pub(super) fn take_touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    /// Gives the room for the next ones back.
    pub(super) fn give_back(&mut self, mut touched: Vec<usize>) {
        touched.clear();
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    /// A connection was looked at: it is due then, and not before unless something happens to it.
    pub(super) fn settle(&mut self, index: usize, due: Nanos) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let Some(connection) = self.all.get_mut(index) else { return };
        connection.is_touched = false;
        let waiting = connection.unsent() as u64;
        self.waiting = self.waiting + waiting - connection.waiting;
        connection.waiting = waiting;
        self.due.set(index as u32, due);
    }

    /// Bytes that wait for sockets, of all that are settled.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Takes one that is due; to be settled again.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<usize> {
        let index = self.due.pop_due(now)? as usize;
        self.get_mut(index);
        Some(index)
    }

    /// When one of them is due, `due_of` those to which something has happened.
    pub(super) fn next_wakeup(&self, due_of: impl Fn(&Connection) -> Nanos) -> Nanos {
        let touched = self.touched.iter().filter_map(|index| self.all.get(*index)).map(due_of);
        touched.fold(self.due.next(), Nanos::min)
    }
}

impl Index<usize> for Connections {
    type Output = Connection;

    fn index(&self, index: usize) -> &Connection {
        &self.all[index]
    }
}

impl IndexMut<usize> for Connections {
    fn index_mut(&mut self, index: usize) -> &mut Connection {
        self.get_mut(index);
        &mut self.all[index]
    }
}
