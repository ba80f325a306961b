use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::*;
use crate::Context;
use crate::context::tests::lone;
use crate::{Message, Wait};

/// Why its connection was closed.
#[derive(Default)]
struct Closed(Option<String>);

impl Handler for Closed {
    fn on_message(&mut self, _: &Message<'_>) {}
    fn on_closed(&mut self, _: ConnectionId, reason: &str) {
        self.0 = Some(reason.to_owned());
    }
}

#[test]
fn a_peer_that_takes_nothing_is_given_up_when_too_much_waits_for_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { unreachable!("IPv4") };
    let (mut context, mut closed) = (lone(6, Wait::Block), Closed::default());
    let connection = context.connect(address).expect("it is near");
    let begun = Instant::now();
    while closed.0.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "what waits grows for ever");
        context.send_direct(connection, &[7; 100_000]);
        context.wait(Some(Duration::from_millis(1)), &mut closed).expect("the poller works");
    }
    assert_eq!(closed.0.as_deref(), Some("the peer does not take what is sent to it"));
}

/// A reset could destroy what was sent to the peer last, and says nothing.
#[test]
fn a_peer_that_sends_much_that_is_no_message_gets_an_end_and_no_reset() {
    use std::io::{Read, Write};
    let (mut asked, mut closed) = (lone(25, Wait::Block), Closed::default());
    let address = asked.listen().expect("a port is free");
    let mut peer = TcpStream::connect(address).expect("it is near");
    let sends = std::thread::spawn(move || {
        peer.write_all(&[0xFF; 1_000_000])?;
        peer.read_to_end(&mut Vec::new())
    });
    let begun = Instant::now();
    while !sends.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
        asked.wait(Some(Duration::from_millis(1)), &mut closed).expect("the poller works");
    }
    assert_eq!(sends.join().expect("it ran").expect("no reset"), 0);
    assert_eq!(closed.0.as_deref(), Some("LBMC message has value 255, understood up to 10"));
    assert_eq!(asked.direct.connections.iter().count(), 0);
}

#[test]
fn idle_connections_are_not_looked_at_whatever_others_do() {
    const IDLE: usize = 60;
    let (mut asked, mut asking, mut closed) =
        (lone(22, Wait::Block), lone(23, Wait::Block), Closed::default());
    let address = asked.listen().expect("a port is free");
    let used = asking.connect(address).expect("it is near");
    for _ in 0..IDLE {
        asking.connect(address).expect("it is near");
    }
    let begun = Instant::now();
    let mut turn = |asked: &mut Context, asking: &mut Context| {
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
        asking.poll(&mut closed).expect("the poller works");
        asked.poll(&mut closed).expect("the poller works");
    };
    let stand = |of: &Context| of.direct.connections.iter().filter(|(_, c)| c.is_established).count();
    while stand(&asked).min(stand(&asking)) < IDLE + 1 {
        turn(&mut asked, &mut asking);
    }
    asking.flush();
    asked.flush();
    let before = (asked.direct.connections.looks, asking.direct.connections.looks);
    for _ in 0..100 {
        asking.send_direct(used, b"more");
        turn(&mut asked, &mut asking);
        asked.on_wakeup(asked.base.now, &mut ());
        assert!(asked.next_wakeup() > asked.base.now, "somebody is due later");
    }
    let looks = (asked.direct.connections.looks - before.0, asking.direct.connections.looks - before.1);
    assert!(looks.0 <= 200 && looks.1 <= 200, "{looks:?} in 100 turns with one busy connection");
    assert!(looks.1 >= 100, "{looks:?}");
}

#[test]
fn a_connection_is_closed_in_its_time_whatever_happens_to_others() {
    let (mut asked, mut closed) = (lone(24, Wait::Block), Closed::default());
    let address = asked.listen().expect("a port is free");
    let silent: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it is near")).collect();
    let begun = Instant::now();
    while asked.direct.connections.iter().count() < silent.len() {
        assert!(begun.elapsed() < Duration::from_secs(60), "they are not taken");
        asked.poll(&mut closed).expect("the poller works");
    }
    asked.flush();
    let due = asked.direct.direct_wakeup(&asked.base);
    let limit = asked.base.config.request_first_message_timeout().expect("it is limited");
    assert!(due <= asked.base.now + limit && due != Nanos::NEVER);
    asked.on_wakeup(asked.base.now + limit, &mut closed);
    assert_eq!(closed.0.as_deref(), Some("it has said nothing in time"));
    assert_eq!(
        (asked.direct.connections.iter().count(), asked.direct.direct_wakeup(&asked.base)),
        (0, Nanos::NEVER)
    );
    assert_eq!(asked.base.counters.context.request_connections_silent.get(), 3);
}
