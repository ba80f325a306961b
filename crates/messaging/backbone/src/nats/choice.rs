//! Which server is tried next when one was lost. Pure: what is known of the servers in, one of them out.
//!
//! The client of NATS would choose at random. One that hangs accepts connections still, so a daemon that came back to it
//! would lose the time of an attempt. Here the server that was lost comes behind those that have failed as often.

use async_nats::{Server, ServerAddr};
use units::Rng;

pub(super) struct Choice {
    /// The server that was connected last, and that the choice was about.
    lost: Option<ServerAddr>,
    chosen: Option<ServerAddr>,
    /// Daemons that lose a server do not all go to the same one.
    random: Rng,
}

impl Choice {
    pub(super) fn new(seed: u64) -> Choice {
        Choice { lost: None, chosen: None, random: Rng::new(seed) }
    }

    /// The next one; `None` before the first connection, when all of them are tried one after the other.
    pub(super) fn next(&mut self, servers: &[Server]) -> Option<ServerAddr> {
        // One that did not fail since it was chosen was connected. The first one was not chosen here.
        let is_connected = |server: &&Server| server.did_connect && server.failed_attempts == 0;
        let of_chosen = |server: &&Server| self.chosen.as_ref().is_none_or(|chosen| *chosen == server.addr);
        if let Some(lost) = servers.iter().filter(is_connected).find(of_chosen) {
            self.lost = Some(lost.addr.clone());
        }
        let lost = self.lost.as_ref()?;
        let rank = |server: &Server| {
            let is_lost = server.addr == *lost;
            (server.failed_attempts + usize::from(is_lost), is_lost)
        };
        let best = servers.iter().map(rank).min()?;
        let equals: Vec<&Server> = servers.iter().filter(|server| rank(server) == best).collect();
        let chosen = equals[self.random.below(equals.len() as u64) as usize].addr.clone();
        self.chosen = Some(chosen.clone());
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16, failed_attempts: usize, did_connect: bool) -> Server {
        let addr = address(port);
        Server { addr, failed_attempts, did_connect, is_discovered: false, last_error: None }
    }

    fn address(port: u16) -> ServerAddr {
        format!("nats://127.0.0.1:{port}").parse().expect("an address")
    }

    #[test]
    fn the_server_that_was_lost_comes_last() {
        let mut choice = Choice::new(1);
        assert_eq!(choice.next(&[server(1, 0, false), server(2, 0, false)]), None, "all are tried at first");
        let mut seen = Vec::new();
        for _ in 0..100 {
            let mut choice = Choice::new(seen.len() as u64);
            seen.extend(choice.next(&[server(1, 0, false), server(2, 0, true), server(3, 0, false)]));
        }
        assert!(seen.contains(&address(1)) && seen.contains(&address(3)), "at random");
        assert!(!seen.contains(&address(2)));
    }

    #[test]
    fn it_is_tried_again_when_the_others_have_failed_more_often() {
        let mut choice = Choice::new(1);
        assert_eq!(choice.next(&[server(1, 0, true), server(2, 0, false)]), Some(address(2)));
        // It has failed too.
        assert_eq!(
            choice.next(&[server(1, 0, true), server(2, 1, false)]),
            Some(address(2)),
            "equal: the other one"
        );
        assert_eq!(choice.next(&[server(1, 0, true), server(2, 2, false)]), Some(address(1)));
        assert_eq!(choice.next(&[server(1, 1, true), server(2, 2, false)]), Some(address(2)));
        // That one was connected, and is lost now.
        assert_eq!(choice.next(&[server(1, 1, true), server(2, 0, true)]), Some(address(1)));
        assert_eq!(Choice::new(1).next(&[server(1, 0, true)]), Some(address(1)), "there is no other one");
        assert_eq!(choice.next(&[]), None);
    }
}
