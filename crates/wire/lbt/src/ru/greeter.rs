use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;
use units::{Nanos, Rng};

/// Answers to connect requests that an address gets in a client activity timeout without acknowledging one.
pub const SYN_ANSWERS_MAX: u8 = 32;

/// What is to be said to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A session message that answers a connect request, with the id the receiver chose.
    Syn {
        client_id: Option<u32>,
    },
    Reset,
}

/// What a source says to addresses that are no clients.
///
/// Nothing is kept for a connection that is not complete, since the acknowledgement says all there is to
/// know; so requests in strangers' names fill nothing. Only how often an address was answered is
/// remembered, at a place that other addresses share: the later one counts.
pub(super) struct Greeter {
    replies: VecDeque<(SocketAddrV4, Reply)>,
    answered: Box<[Answered]>,
    seed: u64,
    span: Duration,
}

#[derive(Clone, Copy)]
struct Answered {
    address: SocketAddrV4,
    count: u8,
    since: Nanos,
}

/// Most replies waiting to be sent.
const REPLIES_WAITING_MAX: usize = 256;
/// Places for addresses that were answered.
const PLACES: usize = 1_024;

impl Greeter {
    /// `seed` keeps it from being known which addresses share a place; `span` is that of the limit.
    pub(super) fn new(seed: u64, span: Duration) -> Greeter {
        let nobody = SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
        let answered = Answered { address: nobody, count: 0, since: Nanos::ZERO };
        Greeter {
            replies: VecDeque::with_capacity(REPLIES_WAITING_MAX),
            answered: vec![answered; PLACES].into_boxed_slice(),
            seed,
            span,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.replies.capacity() * size_of::<(SocketAddrV4, Reply)>() + PLACES * size_of::<Answered>()
    }

    /// Whether the address may be answered once more; counts the answer.
    pub(super) fn may_answer(&mut self, now: Nanos, address: SocketAddrV4) -> bool {
        let (at, span) = (self.place(address), self.span);
        let answered = &mut self.answered[at];
        if answered.address != address || now >= answered.since + span {
            *answered = Answered { address, count: 0, since: now };
        }
        let may = answered.count < SYN_ANSWERS_MAX;
        answered.count += u8::from(may);
        may
    }

    /// The address has acknowledged an answer: it is there, and wants them.
    pub(super) fn acknowledged(&mut self, address: SocketAddrV4) {
        let at = self.place(address);
        if self.answered[at].address == address {
            self.answered[at].count = 0;
        }
    }

    fn place(&self, address: SocketAddrV4) -> usize {
        let key = u64::from(address.ip().to_bits()) << 16 | u64::from(address.port());
        Rng::new(self.seed ^ key).below(PLACES as u64) as usize
    }

    /// Queues a reply; false if too many are waiting.
    pub(super) fn reply(&mut self, to: SocketAddrV4, reply: Reply) -> bool {
        let room = self.replies.len() < REPLIES_WAITING_MAX;
        if room {
            self.replies.push_back((to, reply));
        }
        room
    }

    pub(super) fn first(&self) -> Option<(SocketAddrV4, Reply)> {
        self.replies.front().copied()
    }

    pub(super) fn drop_first(&mut self) -> Option<(SocketAddrV4, Reply)> {
        self.replies.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const SPAN: Duration = Duration::from_secs(10);

    fn address(n: u32) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + n), 14_360)
    }

    #[test]
    fn an_address_is_answered_so_often_until_it_acknowledges_or_the_span_is_over() {
        let mut greeter = Greeter::new(7, SPAN);
        let answers =
            |greeter: &mut Greeter, now| (0..100).filter(|_| greeter.may_answer(now, address(1))).count();
        assert_eq!(answers(&mut greeter, Nanos(1)), 32);
        assert_eq!(answers(&mut greeter, Nanos(1) + SPAN), 32);
        greeter.acknowledged(address(1));
        assert_eq!(answers(&mut greeter, Nanos(2) + SPAN), 32);
    }

    #[test]
    fn addresses_spread_over_the_places() {
        let greeter = Greeter::new(7, SPAN);
        let mut places: Vec<_> = (0..1_000).map(|n| greeter.place(address(n))).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 500, "{} places", places.len());
    }

    #[test]
    fn replies_that_wait_are_bounded() {
        let mut greeter = Greeter::new(7, SPAN);
        let taken = (0..1_000).filter(|&n| greeter.reply(address(n), Reply::Reset)).count();
        assert_eq!(taken, REPLIES_WAITING_MAX);
        assert_eq!(greeter.first(), Some((address(0), Reply::Reset)));
        assert_eq!(greeter.drop_first(), Some((address(0), Reply::Reset)));
        assert!(greeter.reply(address(0), Reply::Reset));
    }
}
