use std::net::{Ipv4Addr, SocketAddrV4};

use super::receive::ReceiveMode;
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

#[test]
fn a_lane_sends_from_the_same_address_which_stays_the_sockets_own() {
    let sender = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let local = sender.local_address().unwrap();
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 3), local.port());
    let other = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 4), local.port());
    let [receiver, elsewhere] = [group, other].map(|g| UdpSocket::multicast_receiver(g, OPTIONS).unwrap());
    let lane = sender.lane(group, OPTIONS).unwrap();
    assert_eq!(lane.send_run(group, b"one", 3).unwrap(), Sent::Datagrams(1));
    assert_eq!(lane.send_run(group, b"two three", 4).unwrap(), Sent::Datagrams(3));
    assert_eq!(sender.send_run(other, b"other", 5).unwrap(), Sent::Datagrams(1));
    let got = collect(&receiver, 4);
    assert_eq!(got.iter().map(|(_, d)| &d[..]).collect::<Vec<_>>(), [&b"one"[..], b"two ", b"thre", b"e"]);
    assert!(got.iter().all(|(from, _)| *from == local), "{got:?}");
    assert_eq!(collect(&elsewhere, 1), [(local, b"other".to_vec())]);
    // what comes to the address comes to the socket itself
    let answers = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    answers.send_run(local, b"NAK", 3).unwrap();
    assert_eq!(collect(&sender, 1), [(answers.local_address().unwrap(), b"NAK".to_vec())]);
    // and nobody else can have it
    assert!(UdpSocket::multicast_sender(local, OPTIONS).is_err());
}

#[test]
fn a_batch_asks_for_more_when_more_comes() {
    let to = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    for n in 1..=8u8 {
        // of different lengths, so that they are not coalesced
        from.send_run(to.local_address().unwrap(), &vec![n; n.into()], n.into()).unwrap();
    }
    let mut batch = ReceiveBatch::new(4);
    let mut counts = Vec::new();
    let mut all = Vec::new();
    loop {
        let received = to.poll(&mut batch).unwrap();
        if received.is_empty() {
            break;
        }
        counts.push(received.datagrams().count());
        all.extend(received.datagrams().map(|(_, datagram)| datagram.to_vec()));
    }
    assert_eq!(all, (1..=8u8).map(|n| vec![n; n.into()]).collect::<Vec<_>>());
    assert_eq!(counts, [1, 2, 4, 1]);
}

/// Takes everything that comes in `calls` calls.
fn poll(socket: &UdpSocket, batch: &mut ReceiveBatch, calls: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..calls {
        all.extend(socket.poll(batch).unwrap().datagrams().map(|(_, datagram)| datagram.to_vec()));
    }
    all
}

#[test]
fn a_socket_that_is_asked_in_vain_takes_single_datagrams_and_runs_again_when_they_come() {
    let to = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    let address = to.local_address().unwrap();
    let mut batch = ReceiveBatch::new(4);
    let run: Vec<u8> = (0..100u8).collect();
    let pieces: Vec<Vec<u8>> = run.chunks(10).map(<[u8]>::to_vec).collect();
    let modes = |socket: &UdpSocket| std::mem::discriminant(&socket.mode.get());
    let (runs, single) = (ReceiveMode::default(), ReceiveMode::Single { busy: 0 });
    let [runs, single] = [runs, single].map(|mode| std::mem::discriminant(&mode));

    assert_eq!(modes(&to), runs);
    assert!(poll(&to, &mut batch, 1_000).is_empty());
    assert_eq!(modes(&to), single, "nothing came");
    for _ in 0..3 {
        from.send_run(address, b"one", 3).unwrap();
        assert_eq!(poll(&to, &mut batch, 2), [b"one"]);
        assert_eq!(modes(&to), single, "single messages keep it");
    }
    // a run is cut by the kernel as long as nobody asked for it in one piece
    from.send_run(address, &run, 10).unwrap();
    assert_eq!(poll(&to, &mut batch, 20), pieces);
    assert_eq!(modes(&to), runs, "one after the other");
    from.send_run(address, &run, 10).unwrap();
    assert_eq!(poll(&to, &mut batch, 1), pieces, "as a run");
    assert!(poll(&to, &mut batch, 1_000).is_empty());
    assert_eq!(modes(&to), runs, "runs are waited for");
    from.send_run(address, &run, 10).unwrap();
    assert_eq!(poll(&to, &mut batch, 1), pieces, "still as a run");
    assert!(poll(&to, &mut batch, 100_000).is_empty());
    assert_eq!(modes(&to), single, "but not for ever");
    // nor if the owner has a poller look for it from now on
    from.send_run(address, &run, 10).unwrap();
    let counts = [(); 3].map(|()| to.receive(&mut batch).unwrap().datagrams().count());
    assert_eq!((counts, modes(&to)), ([4, 4, 2], runs));
}

#[test]
fn what_finds_no_room_in_the_buffer_is_told_once() {
    let small = MulticastOptions { buffer_bytes: 8_192, ..OPTIONS };
    let to = UdpSocket::multicast_sender(any_port(), small).unwrap();
    let from = UdpSocket::multicast_sender(any_port(), OPTIONS).unwrap();
    assert_eq!(to.new_drops(), 0);
    let sent = 500;
    for _ in 0..sent {
        let sent = from.send_run(to.local_address().unwrap(), &[1; 1_000], 1_000).unwrap();
        assert_eq!(sent, Sent::Datagrams(1), "loopback takes what it drops");
    }
    let (mut batch, mut received) = (ReceiveBatch::new(64), 0);
    loop {
        let count = to.receive(&mut batch).unwrap().datagrams().count();
        received += count;
        if count == 0 {
            break;
        }
    }
    assert!(received < sent);
    assert_eq!((to.new_drops() as usize, to.new_drops()), (sent - received, 0));
}
