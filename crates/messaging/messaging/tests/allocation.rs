//! What a message costs of the heap: nothing, in either direction, on any transport, once everything is set
//! up.

mod common;

use std::net::Ipv4Addr;

use common::Patience;
use tickcast_messaging::{
    Context, Handler, Interface, IpcBehavior, IpcConfig, Message, MessageRecoveryConfig, MessagingConfig,
    ReceiverOptions, SendError, SendFlags, SourceOptions, Transport,
};

#[derive(Default)]
struct Count(u64);

impl Handler for Count {
    fn on_message(&mut self, _: &Message<'_>) {
        self.0 += 1;
    }
}

/// Messages of one round, and rounds.
const MESSAGES: u64 = 2_000;
const ROUNDS: usize = 21;

fn config(transport: Transport, test: u8) -> MessagingConfig {
    let base = common::config(test);
    MessagingConfig { transport, ipc: IpcConfig { behavior: IpcBehavior::ReceiverPaced, ..base.ipc }, ..base }
}

/// Topic resolution and timers, which do allocate, fall into some of the rounds, on a busy machine into most; a
/// message that allocates shows in all of them.
fn a_message_allocates_nothing(transport: Transport, test: u8) {
    a_message_allocates_nothing_with(&config(transport, test));
}

fn a_message_allocates_nothing_with(config: &MessagingConfig) {
    let mut a = Context::standalone(config).expect("the loopback interface has multicast");
    let mut b = Context::standalone(config).expect("the loopback interface has multicast");
    let source = a.create_source("px", &SourceOptions::default()).expect("a port is free");
    b.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
    let (mut count, patience) = (Count::default(), Patience::new());
    while count.0 == 0 {
        assert!(patience.lasts(), "they do not meet");
        a.send(source, &[b"hello"]).expect("there is room");
        a.poll(&mut ()).expect("the poller works");
        b.poll(&mut count).expect("the poller works");
    }
    let mut round = |count: &mut Count| {
        let (patience, mut sent) = (Patience::new(), 0);
        let end = count.0 + MESSAGES;
        while count.0 < end {
            assert!(patience.lasts(), "messages are missing");
            // A few at a time, and all the ways there are.
            for _ in 0..20u32.min((MESSAGES - sent) as u32) {
                let result = match sent % 3 {
                    0 => a.claim(source, 64).map(|mut claim| {
                        claim.payload().fill(7);
                        claim.commit()
                    }),
                    1 => a.send(source, &[&[1; 64]]),
                    _ => a.send(source, &[&[2; 40], &[3; 700]]),
                };
                match result {
                    Ok(_) => sent += 1,
                    Err(SendError::WouldBlock) => break,
                    Err(other) => panic!("{other}"),
                }
            }
            a.poll(&mut ()).expect("the poller works");
            b.poll(count).expect("the poller works");
        }
    };
    let mut allocations: Vec<u64> =
        (0..ROUNDS).map(|_| allocation_counter::measure(|| round(&mut count)).count_total).collect();
    allocations.sort_unstable();
    assert_eq!(allocations[0], 0, "of each round of {MESSAGES} messages: {allocations:?}");
}

#[test]
fn multicast_allocates_nothing() {
    a_message_allocates_nothing(Transport::LbtRm, 1);
}

#[test]
fn encrypted_multicast_and_reliable_unicast_allocate_nothing() {
    a_message_allocates_nothing_with(&common::encrypted(config(Transport::LbtRm, 10)));
    a_message_allocates_nothing_with(&common::encrypted(config(Transport::LbtRu, 11)));
}

#[test]
fn multicast_on_two_networks_allocates_nothing() {
    let interface_b = Some(Interface::Address(Ipv4Addr::new(127, 0, 0, 2)));
    a_message_allocates_nothing_with(&MessagingConfig { interface_b, ..config(Transport::LbtRm, 7) });
}

#[test]
fn hot_failover_allocates_nothing() {
    for (transport, test) in [(Transport::LbtRm, 8), (Transport::Tcp, 9)] {
        let config = config(transport, test);
        let mut ends =
            [0, 1, 2].map(|_| Context::standalone(&config).expect("the loopback interface has multicast"));
        let [a, b, c] = &mut ends;
        let sources = [&mut *a, &mut *b]
            .map(|end| end.create_source("px", &SourceOptions::default()).expect("a port is free"));
        let options = ReceiverOptions { hot_failover: true, ..ReceiverOptions::default() };
        c.create_receiver("px", &options).expect("a legal name");
        let (mut count, mut number, patience) = (Count::default(), 0, Patience::new());
        let mut round = |messages: u64, count: &mut Count| {
            for _ in 0..messages {
                for (end, source) in [&mut *a, &mut *b].into_iter().zip(sources) {
                    let sent =
                        end.send_hot_failover(source, number, SendFlags::default(), &[&[1; 40], &[2; 60]]);
                    sent.expect("there is room");
                    end.poll(&mut ()).expect("the poller works");
                }
                number += 1;
                c.poll(count).expect("the poller works");
            }
        };
        while count.0 < 1_000 {
            assert!(patience.lasts(), "they do not meet");
            round(1, &mut count);
        }
        let mut allocations: Vec<u64> =
            (0..ROUNDS).map(|_| allocation_counter::measure(|| round(200, &mut count)).count_total).collect();
        allocations.sort_unstable();
        assert_eq!(allocations[0], 0, "of each round of 200 messages: {allocations:?}");
    }
}

#[test]
fn tcp_allocates_nothing() {
    a_message_allocates_nothing(Transport::Tcp, 2);
}

#[test]
fn shared_memory_allocates_nothing() {
    a_message_allocates_nothing(Transport::LbtIpc, 3);
}

#[test]
fn unicast_allocates_nothing() {
    a_message_allocates_nothing(Transport::LbtRu, 4);
}

#[test]
fn a_message_that_is_retained_allocates_nothing() {
    for (transport, test) in Transport::ALL.iter().copied().zip(5..) {
        let config = config(transport, test);
        a_message_allocates_nothing_with(&MessagingConfig {
            request_tcp_port_low: 30_000,
            request_tcp_port_high: 45_000,
            recovery: MessageRecoveryConfig {
                late_join: true,
                // Small enough to be full, and the oldest dropped, before anything is measured.
                retransmit_retention_message_maximum: 1_000,
                ..config.recovery
            },
            ..config
        });
    }
}
