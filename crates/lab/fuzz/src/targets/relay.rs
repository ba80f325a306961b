use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use lbt::config::RelayConfig;
use lbt::resolution::Relay;
use lbt::wire::lbmr::Packet;
use units::Nanos;

use crate::Outcome;
use crate::input::Input;

const CLIENTS_MAX: u32 = 4;

/// Input: datagrams of several senders to a unicast resolver. Only what parses is sent on, to clients alone
/// and never back; refused is a run with a datagram that does not parse.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let config = RelayConfig { resolver_unicast_maximum_clients: CLIENTS_MAX, ..RelayConfig::default() };
    let counters = Arc::new(counters::table::LbmrRelay::default());
    let mut relay = Relay::new(&config, Nanos(1), counters.clone()).expect("allowed");
    let (mut now, mut refused) = (Nanos(1), None);
    while !input.is_empty() {
        let choice = input.u8();
        now += Duration::from_millis(u64::from(choice >> 4) * 100);
        let port = if choice & 8 == 0 { 14_402 } else { 53 };
        let from = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, choice & 7), port);
        let datagram = input.chunk();
        let known: Vec<_> = relay.clients().map(|client| client.address).collect();
        let mut to = Vec::new();
        match relay.on_datagram(now, from, datagram, |address| to.push(address)) {
            Ok(()) => {}
            Err(error) => {
                assert!(to.is_empty());
                refused = Some(error);
            }
        }
        assert!(to.is_empty() || Packet::parse(datagram).is_ok() && known.contains(&from));
        assert!(to.iter().all(|address| *address != from && known.contains(address)));
        while relay.poll_keepalive(now).is_some() {}
        assert!(relay.clients().count() <= CLIENTS_MAX as usize && relay.next_wakeup() > now);
    }
    let feature =
        (counters.clients.get(), counters.tr_dgrams_sent.get().min(3), counters.clients_refused.get() > 0);
    match refused {
        Some(error) => Outcome::refused((feature, error)),
        None => Outcome::accepted(feature),
    }
}
