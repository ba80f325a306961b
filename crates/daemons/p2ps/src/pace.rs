//! How much of what clients ask for is done in one turn of the thread, so that nobody waits long behind them.
//!
//! *Work* is counted in bytes put into the outboxes, and some for each request. A client that has had its share of
//! a turn, or comes when the turn has no work left, *waits*: its messages are kept, nothing is read from it, and it
//! is served in the turns that follow: clients of a higher priority get more of a turn, those of one priority are served
//! in order ([`Shares`]). One that does not take what it is sent is *stuck*
//! until its socket has taken most of it.

use std::collections::{HashMap, VecDeque};

use market::p2ps::{ClientId, PRIORITY_DEFAULT};

use crate::shares::Shares;

/// Messages of waiting clients, and the work of the present turn.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Work for clients in this turn; who is not in it has had none.
    spent: HashMap<ClientId, usize>,
    /// Work for all in this turn.
    total: usize,
    /// What was in the outboxes when the present request began, in bytes.
    mark: usize,
    /// The messages of those who wait.
    held: HashMap<ClientId, Held>,
    /// Who is to be served, with the serial number of its wait: numbers of clients are used again.
    queue: Shares<(ClientId, u64)>,
    last_serial: u64,
    /// Of clients that have another one than most.
    priorities: HashMap<ClientId, u8>,
}

#[derive(Debug, Default)]
struct Held {
    serial: u64,
    messages: VecDeque<Box<[u8]>>,
    is_stuck: bool,
}

/// Work for one client in a turn.
const CLIENT_WORK: usize = 128 << 10;
/// Work for all in a turn, once for what arrives and once for those who wait: two or three milliseconds of small images.
const TURN_WORK: usize = 256 << 10;
/// What a request costs beside the bytes that it leads to.
const REQUEST_WORK: usize = 512;

impl Pace {
    /// A request is looked at; so many bytes are in the outboxes.
    pub(crate) fn begin(&mut self, staged_bytes: usize) {
        self.mark = staged_bytes;
    }

    /// A request of a client, or a part of one, was served; so many bytes are in the outboxes now. Returns whether
    /// more may be done for it in this turn.
    pub(crate) fn charge(&mut self, client: ClientId, staged_bytes: usize) -> bool {
        let work = staged_bytes.saturating_sub(self.mark) + REQUEST_WORK;
        self.mark = staged_bytes;
        self.total += work;
        let spent = self.spent.entry(client).or_default();
        *spent += work;
        *spent < CLIENT_WORK && self.total < TURN_WORK
    }

    /// Whether there is work left in this turn.
    pub(crate) fn has_room(&self) -> bool {
        self.total < TURN_WORK
    }

    /// All clients get their shares anew.
    pub(crate) fn renew(&mut self) {
        self.spent.clear();
        self.total = 0;
    }

    /// From now on a client has this priority.
    pub(crate) fn set_priority(&mut self, client: ClientId, priority: u8) {
        if priority == PRIORITY_DEFAULT {
            self.priorities.remove(&client);
        } else {
            self.priorities.insert(client, priority);
        }
    }

    /// The priority of a client.
    pub(crate) fn priority(&self, client: ClientId) -> u8 {
        self.priorities.get(&client).copied().unwrap_or(PRIORITY_DEFAULT)
    }

    /// Work for all in this turn so far.
    pub(crate) fn work(&self) -> usize {
        self.total
    }

    /// Whether a client waits.
    #[inline]
    pub(crate) fn is_waiting(&self, client: ClientId) -> bool {
        !self.held.is_empty() && self.held.contains_key(&client)
    }

    /// How many wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.held.len()
    }

    /// From now on a client waits.
    pub(crate) fn hold(&mut self, client: ClientId) {
        if !self.held.contains_key(&client) {
            self.last_serial += 1;
            let serial = self.last_serial;
            self.held.insert(client, Held { serial, ..Held::default() });
            self.queue.push(self.priority(client), (client, serial));
        }
    }

    /// A message of a client that waits, or begins to with it.
    pub(crate) fn keep(&mut self, client: ClientId, message: &[u8]) {
        if !self.is_waiting(client) {
            self.hold(client);
        }
        if let Some(held) = self.held.get_mut(&client) {
            held.messages.push_back(message.into());
        }
    }

    /// Whether anybody can be served.
    pub(crate) fn is_due(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many can be served at most.
    pub(crate) fn due_count(&self) -> usize {
        self.queue.len()
    }

    /// The client whose turn it is, and the priority with which it waits.
    pub(crate) fn next(&mut self) -> Option<(u8, ClientId)> {
        loop {
            let (priority, (client, serial)) = self.queue.pop()?;
            if self.held.get(&client).is_some_and(|held| held.serial == serial) {
                return Some((priority, client));
            }
        }
    }

    /// So much work was done for a client that waited with this priority.
    pub(crate) fn charge_share(&mut self, priority: u8, work: usize) {
        self.queue.charge(priority, work);
    }

    /// That client is served again later.
    pub(crate) fn requeue(&mut self, client: ClientId) {
        if let Some(held) = self.held.get(&client) {
            self.queue.push(self.priority(client), (client, held.serial));
        }
    }

    /// That client does not take what it is sent.
    pub(crate) fn note_stuck(&mut self, client: ClientId) {
        if let Some(held) = self.held.get_mut(&client) {
            held.is_stuck = true;
        }
    }

    /// A client takes again what it is sent.
    pub(crate) fn note_roomy(&mut self, client: ClientId) {
        let priority = self.priority(client);
        if let Some(held) = self.held.get_mut(&client)
            && std::mem::take(&mut held.is_stuck)
        {
            self.queue.push(priority, (client, held.serial));
        }
    }

    /// The next message of a client that waits.
    pub(crate) fn next_message(&mut self, client: ClientId) -> Option<Box<[u8]>> {
        self.held.get_mut(&client)?.messages.pop_front()
    }

    /// A client waits no longer: all is served, or it is gone.
    pub(crate) fn release(&mut self, client: ClientId) {
        self.held.remove(&client);
        if self.held.is_empty() {
            self.queue.clear();
        }
    }

    /// A client is gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.release(client);
        self.priorities.remove(&client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    #[test]
    fn a_client_has_its_share_of_a_turn_and_all_together_theirs() {
        let mut pace = Pace::default();
        pace.begin(1_000);
        assert!(pace.charge(A, 1_000 + CLIENT_WORK / 2));
        assert!(!pace.charge(A, 1_000 + CLIENT_WORK), "its share is used up");
        assert!(pace.has_room() && pace.charge(B, 1_000 + CLIENT_WORK + 1_000));
        pace.begin(0);
        assert!(!pace.charge(B, TURN_WORK) && !pace.has_room());
        pace.renew();
        pace.begin(TURN_WORK);
        assert!(pace.has_room() && pace.charge(A, TURN_WORK + 100));
        let requests = (0..).take_while(|_| pace.charge(A, TURN_WORK + 100)).count();
        assert!((200..300).contains(&requests), "requests that lead to nothing count too: {requests}");
    }

    #[test]
    fn who_waits_is_served_in_its_place_with_its_messages_in_order() {
        let mut pace = Pace::default();
        assert!(!pace.is_waiting(A) && !pace.is_due());
        pace.hold(A);
        pace.keep(B, b"1");
        pace.keep(A, b"2");
        pace.keep(A, b"3");
        assert!(pace.is_waiting(A) && pace.due_count() == 2 && pace.waiting_count() == 2);
        assert_eq!(pace.next(), Some((PRIORITY_DEFAULT, A)));
        assert_eq!(pace.next_message(A).as_deref(), Some(&b"2"[..]));
        pace.requeue(A);
        assert_eq!(
            (pace.next().map(|next| next.1), pace.next_message(B).as_deref()),
            (Some(B), Some(&b"1"[..]))
        );
        pace.release(B);
        assert_eq!((pace.is_waiting(B), pace.next().map(|next| next.1)), (false, Some(A)));
        pace.release(A);
        pace.requeue(A);
        assert!(!pace.is_due() && pace.waiting_count() == 0);
    }

    #[test]
    fn who_is_stuck_is_not_served_before_there_is_room() {
        let mut pace = Pace::default();
        pace.keep(A, b"1");
        assert_eq!(pace.next(), Some((PRIORITY_DEFAULT, A)));
        pace.note_stuck(A);
        pace.note_roomy(B);
        assert!(!pace.is_due() && pace.is_waiting(A));
        pace.note_roomy(A);
        pace.note_roomy(A);
        assert_eq!((pace.next().map(|next| next.1), pace.next()), (Some(A), None));
        pace.note_stuck(A);
        pace.release(A);
        pace.note_roomy(A);
        assert!(!pace.is_due());
    }

    /// Turns in which each client that waits is served as far as it may be, as the server does it.
    fn turns(pace: &mut Pace, count: usize, request_bytes: usize) -> HashMap<ClientId, usize> {
        let mut got = HashMap::<ClientId, usize>::new();
        for _ in 0..count {
            pace.renew();
            let mut again = Vec::new();
            for _ in 0..pace.due_count() {
                if !pace.has_room() {
                    break;
                }
                let Some((priority, client)) = pace.next() else { break };
                let before = pace.work();
                pace.begin(0);
                while pace.charge(client, request_bytes) {
                    pace.begin(0);
                }
                let work = pace.work() - before;
                pace.charge_share(priority, work);
                *got.entry(client).or_default() += work;
                again.push(client);
            }
            again.into_iter().for_each(|client| pace.requeue(client));
        }
        got
    }

    #[test]
    fn who_has_a_higher_priority_gets_more_of_the_turns_and_nobody_nothing() {
        let mut pace = Pace::default();
        let clients: Vec<ClientId> = (1..=40).map(ClientId).collect();
        for (client, priority) in clients.iter().zip([9, 5, 1, 1].into_iter().cycle()) {
            pace.set_priority(*client, priority);
            pace.hold(*client);
        }
        let got = turns(&mut pace, 300, 40_000);
        let of = |at: usize| {
            (got[&clients[at]], clients.iter().skip(at).step_by(4).map(|c| got[c]).sum::<usize>())
        };
        let ((high, all_high), (middle, all_middle), (low, _)) = (of(0), of(1), of(2));
        assert!(high > middle && middle > low && low > 0, "{got:?}");
        let ratio = all_high as f64 / all_middle as f64;
        assert!((1.7..1.9).contains(&ratio), "{ratio}: nine to five");
        // A portion may be what is left of a turn.
        assert!(
            clients.iter().step_by(4).all(|client| (high / 2..2 * high).contains(&got[client])),
            "{got:?}"
        );
        pace.set_priority(clients[0], PRIORITY_DEFAULT);
        clients.iter().for_each(|client| pace.forget(*client));
        assert!(pace.priorities.is_empty() && !pace.is_due());
    }
}
