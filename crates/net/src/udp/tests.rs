use std::net::{Ipv4Addr, SocketAddrV4};

use super::*;
use crate::{Interest, Poller, Token};

const OPTIONS: MulticastOptions =
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 1, buffer_bytes: 1 << 20 };

fn collect(socket: &UdpSocket, want: usize) -> Vec<(SocketAddrV4, Vec<u8>)> {
    let mut poller = Poller::new().unwrap();
    poller.registrar().add(socket, Token(0), Interest::Read).unwrap();
    let mut batch = ReceiveBatch::new(4);
    let mut all = Vec::new();
    while all.len() < want {
        poller.wait(None).unwrap().for_each(drop);
        all.extend(socket.receive(&mut batch).unwrap().datagrams().map(|(from, d)| (from, d.to_vec())));
    }
    all
}

fn any_port() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)
}

#[test]
fn a_run_arrives_as_the_datagrams_it_was_cut_into() {
    let to = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let Sent::Datagrams(n) = from.send_run(to.local_address().unwrap(), rest, 300).unwrap() else {
            continue;
        };
        rest = &rest[(n * 300).min(rest.len())..];
    }
    let got = collect(&to, 4);
    assert_eq!(got.iter().map(|(_, d)| d.len()).collect::<Vec<_>>(), [300, 300, 300, 100]);
    assert_eq!(got.iter().flat_map(|(_, d)| d.clone()).collect::<Vec<_>>(), bytes);
    assert!(got.iter().all(|(a, _)| *a == from.local_address().unwrap()));
}

#[test]
fn every_receiver_of_a_group_gets_a_copy() {
    let sender = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 1), sender.local_address().unwrap().port());
    let receivers = [(); 2].map(|()| UdpSocket::multicast_receiver(group, OPTIONS).unwrap());
    assert_eq!(sender.send_run(group, b"to all", 6).unwrap(), Sent::Datagrams(1));
    for receiver in &receivers {
        assert_eq!(collect(receiver, 1)[0].1, b"to all");
    }
}

#[test]
fn more_than_one_call_can_take_is_left_for_the_next() {
    let to = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let bytes = vec![7; 8000 * 20];
    let Sent::Datagrams(n) = from.send_run(to.local_address().unwrap(), &bytes, 8000).unwrap() else {
        panic!("an empty socket takes the first call")
    };
    assert!((1..=8).contains(&n), "{n} datagrams of 8000 bytes in one call");
    assert_eq!(collect(&to, n).len(), n);
}

#[test]
fn an_interface_that_does_not_exist_is_named() {
    let options = MulticastOptions { interface: Ipv4Addr::new(192, 0, 2, 77), ..OPTIONS };
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 2), 40_000);
    let error = UdpSocket::multicast_receiver(group, options).unwrap_err().to_string();
    assert!(error.contains("239.255.77.2:40000") && error.contains("192.0.2.77"), "{error}");
}

#[test]
fn a_run_sent_datagram_by_datagram_arrives_alike_and_is_cut_at_the_room_of_the_batch() {
    let to = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
    let (mut batch, mut rest, mut calls) = (SendBatch::new(3), &bytes[..], Vec::new());
    while !rest.is_empty() {
        let address = to.local_address().unwrap();
        let Sent::Datagrams(n) = from.send_each(address, rest, 300, &mut batch).unwrap() else { continue };
        calls.push(n);
        rest = &rest[(n * 300).min(rest.len())..];
    }
    assert_eq!(calls, [3, 1]);
    let got = collect(&to, 4);
    assert_eq!(got.iter().map(|(_, d)| d.len()).collect::<Vec<_>>(), [300, 300, 300, 100]);
    assert_eq!(got.iter().flat_map(|(_, d)| d.clone()).collect::<Vec<_>>(), bytes);
}
