use units::Sqn;

/// How far the same datagrams have gone to one client after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fan {
    pub(super) what: What,
    /// Datagrams for each client.
    pub(super) count: u32,
    /// The client whose turn it is; those before it have them all.
    pub(super) client: usize,
    /// How many of them it has.
    pub(super) done: u32,
}

/// What goes to all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Nothing,
    /// New datagrams from this number on.
    Data(Sqn),
    SessionMessage,
}

impl Fan {
    pub(super) const IDLE: Fan = Fan { what: What::Nothing, count: 0, client: 0, done: 0 };

    pub(super) fn new(what: What, count: u32) -> Fan {
        Fan { what, count, ..Fan::IDLE }
    }

    /// Takes the next `sent` datagrams as sent, client by client.
    pub(super) fn advance(&mut self, sent: u32) {
        let done = self.done + sent;
        self.client += (done / self.count) as usize;
        self.done = done % self.count;
    }

    /// The client at `at` is gone, and those behind it have moved up.
    pub(super) fn removed(&mut self, at: usize) {
        if at < self.client {
            self.client -= 1;
        } else if at == self.client {
            self.done = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_client_by_client() {
        let mut fan = Fan::new(What::Data(Sqn(5)), 10);
        fan.advance(4);
        assert_eq!((fan.client, fan.done), (0, 4));
        fan.advance(6);
        assert_eq!((fan.client, fan.done), (1, 0));
        fan.advance(25);
        assert_eq!((fan.client, fan.done), (3, 5));
    }

    #[test]
    fn a_client_that_goes_leaves_the_others_their_place() {
        let mut fan = Fan { client: 2, done: 3, ..Fan::new(What::Data(Sqn(5)), 10) };
        fan.removed(4);
        assert_eq!((fan.client, fan.done), (2, 3));
        fan.removed(0);
        assert_eq!((fan.client, fan.done), (1, 3));
        fan.removed(1);
        assert_eq!((fan.client, fan.done), (1, 0), "the next gets them from the first on");
    }
}
