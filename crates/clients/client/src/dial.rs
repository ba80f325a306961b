//! The way to a TCP connection: a name becomes addresses, and one of them a connection.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use std::vec;

use net::{Interest, Lookup, Resolver, tcp};
use units::Nanos;

use crate::{Attempt, ConnectFailure};

/// A TCP connection that is being made, without waiting for anything.
///
/// The host's name is looked up elsewhere, if it is one. Its addresses are tried one after the other; one that
/// does not answer gives way when its share of the time is over.
#[derive(Debug)]
pub(crate) struct Dial {
    /// Name or address, as configured: what a certificate has to be for.
    host: String,
    port: u16,
    round: usize,
    deadline: Nanos,
    limit_ms: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    LookingUp(Lookup),
    Connecting(Candidate),
}

/// A connection that is tried, and the addresses that come after it.
#[derive(Debug)]
struct Candidate {
    stream: TcpStream,
    /// When it gives way to the next one.
    until: Nanos,
    rest: vec::IntoIter<SocketAddr>,
}

/// How far a [`Dial`] has come.
#[derive(Debug)]
pub(crate) enum Progress {
    /// No further. The flag: its descriptor is another one than before.
    Waiting(Dial, bool),
    /// The connection stands, and this is whose certificate it needs.
    Stands(TcpStream, String),
}

/// Addresses of a name that are tried in one attempt. The others have their turn in later ones.
const ADDRESSES_MAX: usize = 16;
/// An address is not given up earlier.
const SHARE_MIN: Duration = Duration::from_millis(500);

impl Dial {
    /// Begins, with the look-up of the host's name if it is a name.
    pub(crate) fn begin(
        resolver: &Resolver,
        attempt: Attempt<'_>,
        now: Nanos,
    ) -> Result<Dial, ConnectFailure> {
        let Attempt { host, round, deadline } = attempt;
        let limit_ms = u32::try_from(deadline.since(now).as_millis()).unwrap_or(u32::MAX);
        let stage = match host.address() {
            Some(address) => {
                let only = vec![address].into_iter();
                Stage::Connecting(Candidate::first(only, now, deadline, ConnectFailure::UnknownHost)?)
            }
            None => {
                let lookup = resolver.look_up(host.host());
                Stage::LookingUp(lookup.map_err(|error| ConnectFailure::Io(error.kind()))?)
            }
        };
        Ok(Dial { host: host.host().to_owned(), port: host.port(), round, deadline, limit_ms, stage })
    }

    /// Goes on as far as it can.
    pub(crate) fn advance(mut self, now: Nanos) -> Result<Progress, ConnectFailure> {
        let Dial { deadline, limit_ms, .. } = self;
        let next = match self.stage {
            Stage::LookingUp(lookup) => match lookup.answer() {
                Some(addresses) => {
                    let addresses = in_turn(addresses, self.round, self.port);
                    Candidate::first(addresses, now, deadline, ConnectFailure::UnknownHost)?
                }
                None if now >= deadline => return Err(ConnectFailure::LookupTimeout { limit_ms }),
                None => {
                    self.stage = Stage::LookingUp(lookup);
                    return Ok(Progress::Waiting(self, false));
                }
            },
            Stage::Connecting(candidate) => match tcp::connected(&candidate.stream) {
                Ok(true) => return Ok(Progress::Stands(candidate.stream, self.host)),
                Ok(false) if now < candidate.until => {
                    self.stage = Stage::Connecting(candidate);
                    return Ok(Progress::Waiting(self, false));
                }
                Ok(false) => {
                    let failure = ConnectFailure::Timeout { limit_ms };
                    Candidate::first(candidate.rest, now, deadline, failure)?
                }
                Err(error) => {
                    let failure = ConnectFailure::Io(error.kind());
                    Candidate::first(candidate.rest, now, deadline, failure)?
                }
            },
        };
        self.stage = Stage::Connecting(next);
        Ok(Progress::Waiting(self, true))
    }

    /// What to wait for.
    pub(crate) fn descriptor(&self) -> (BorrowedFd<'_>, Interest) {
        match &self.stage {
            Stage::LookingUp(lookup) => (lookup.as_fd(), Interest::Read),
            Stage::Connecting(candidate) => (candidate.stream.as_fd(), Interest::ReadWrite),
        }
    }

    /// When [`Dial::advance`] is to be called whatever the descriptor does. At the deadline it is called
    /// anyway.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        match &self.stage {
            Stage::LookingUp(_) => Nanos::NEVER,
            Stage::Connecting(candidate) => candidate.until,
        }
    }
}

impl Candidate {
    /// Begins a connection to the first address that allows it; with none, it has failed as before.
    fn first(
        mut addresses: vec::IntoIter<SocketAddr>,
        now: Nanos,
        deadline: Nanos,
        mut failure: ConnectFailure,
    ) -> Result<Candidate, ConnectFailure> {
        while let Some(address) = addresses.next() {
            match tcp::connect(address) {
                Ok(stream) => {
                    let until = share(now, deadline, addresses.len());
                    return Ok(Candidate { stream, until, rest: addresses });
                }
                Err(error) => failure = ConnectFailure::Io(error.kind()),
            }
        }
        Err(failure)
    }
}

/// Until when an address is tried with so many behind it: what is left is shared.
fn share(now: Nanos, deadline: Nanos, behind: usize) -> Nanos {
    match u32::try_from(behind) {
        Ok(behind @ 1..) => now.after((deadline.since(now) / (behind + 1)).max(SHARE_MIN)),
        // The core ends the attempt.
        _ => Nanos::NEVER,
    }
}

/// The addresses of a name from the one on whose turn it is.
fn in_turn(mut addresses: Vec<SocketAddr>, round: usize, port: u16) -> vec::IntoIter<SocketAddr> {
    if let Some(first) = round.checked_rem(addresses.len()) {
        addresses.rotate_left(first);
    }
    addresses.truncate(ADDRESSES_MAX);
    addresses.iter_mut().for_each(|address| address.set_port(port));
    addresses.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_name_have_their_turn_round_by_round() {
        let addresses = |last: &[u8]| -> Vec<_> {
            last.iter().map(|last| SocketAddr::from(([10, 0, 0, *last], 5))).collect()
        };
        let turn = |round| -> Vec<_> { in_turn(addresses(&[1, 2, 3]), round, 5).collect() };
        assert_eq!((turn(0), turn(1)), (addresses(&[1, 2, 3]), addresses(&[2, 3, 1])));
        assert_eq!((turn(3), turn(5)), (addresses(&[1, 2, 3]), addresses(&[3, 1, 2])));
        assert_eq!(in_turn(Vec::new(), 7, 5).len(), 0);
        assert_eq!(in_turn(addresses(&[1; 40]), 7, 5).len(), ADDRESSES_MAX);
    }

    #[test]
    fn what_is_left_of_the_time_is_shared_by_the_addresses_that_are_left() {
        let (now, deadline) = (Nanos(0), Nanos(6_000_000_000));
        assert_eq!(share(now, deadline, 2), Nanos(2_000_000_000));
        assert_eq!(share(Nanos(2_000_000_000), deadline, 1), Nanos(4_000_000_000));
        assert_eq!(share(now, deadline, 15), Nanos(500_000_000), "not less than that");
        assert_eq!(share(deadline, deadline, 1), Nanos(6_500_000_000));
        assert_eq!(share(now, deadline, 0), Nanos::NEVER, "the attempt ends at its deadline");
    }
}
