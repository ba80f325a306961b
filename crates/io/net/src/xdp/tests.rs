//! Over a veth pair between two network namespaces; skipped, and said so, without root.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use counters::table::XdpSocket as Counters;
use units::Nanos;

use super::frame::{Ends, HEADERS_LEN, Headers, MacAddress};
use super::*;
use crate::udp::{MulticastOptions, Sent, UdpSocket};
use crate::{Interest, Poller, Token};
use testkit::hosts::{FAR, Lab, NEAR, ip};

const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 77, 1, 2), 47_401);
const WATCHDOG: Duration = Duration::from_secs(60);
const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::Native];

fn options() -> XdpOptions {
    XdpOptions { mode: XdpMode::Generic, receive_frames: 256, send_frames: 64, ..XdpOptions::on(NEAR) }
}

/// Without the rights or the kernel for it there is none, and standard error says what was skipped and why.
fn lab(what: &str, queues: u32) -> Option<Lab> {
    let lab = Lab::new(queues);
    if let Err(why) = &lab {
        // Not `eprintln!`, which the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED {what}: {why}");
    }
    lab.ok()
}

struct Near {
    socket: XdpSocket,
    counters: Arc<Counters>,
    local: SocketAddrV4,
    now: Nanos,
}

impl Near {
    fn open(options: &XdpOptions) -> Near {
        let counters = Arc::<Counters>::default();
        let mut socket = XdpSocket::open(options, counters.clone()).unwrap();
        let local = socket.bind(0).unwrap();
        Near { socket, counters, local, now: Nanos(1) }
    }

    /// Sends every datagram of a run.
    fn send(&mut self, to: SocketAddrV4, bytes: &[u8], segment_bytes: usize) {
        let (mut rest, began) = (bytes, Instant::now());
        while !rest.is_empty() {
            assert!(began.elapsed() < WATCHDOG, "the socket stays full");
            if let Sent::Datagrams(n) =
                self.socket.send_run(self.local.port(), to, rest, segment_bytes).unwrap()
            {
                rest = &rest[(n * segment_bytes).min(rest.len())..];
            }
        }
    }

    /// Spins until so many datagrams have come.
    fn receive(&mut self, count: usize) -> Vec<(SocketAddrV4, SocketAddrV4, Vec<u8>)> {
        let (mut all, began) = (Vec::new(), Instant::now());
        while all.len() < count {
            assert!(began.elapsed() < WATCHDOG, "{} of {count} datagrams", all.len());
            let received = self.socket.receive().unwrap();
            all.extend(received.datagrams().map(|d| (d.from, d.to, d.payload.to_vec())));
        }
        all
    }

    /// Does the upkeep, as if a second had passed.
    fn service(&mut self) {
        self.now = self.now.after(Duration::from_secs(2));
        self.socket.service(self.now).unwrap();
    }

    /// Sends a frame as it is.
    fn send_frame(&mut self, frame: &[u8]) {
        let at = self.socket.free.pop().unwrap();
        self.socket.umem.bytes_mut(at, frame.len()).copy_from_slice(frame);
        self.socket.transmit.push(libc::xdp_desc { addr: at, len: frame.len() as u32, options: 0 });
        self.socket.transmit.publish();
        self.socket.kick().unwrap();
    }
}

/// An ordinary socket on the far host.
fn far_socket(lab: &Lab) -> StdSocket {
    lab.to_far().unwrap();
    let socket = StdSocket::bind((FAR, 0)).unwrap();
    lab.to_near().unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    address
}

fn address_of(socket: &StdSocket) -> SocketAddrV4 {
    v4(socket.local_addr().unwrap())
}

/// Makes the kernel find out the Ethernet address of the far host.
fn resolve(near: &mut Near, far: &StdSocket) {
    near.send(address_of(far), b"who?", 4);
    far.recv_from(&mut [0; 8]).unwrap();
}

/// Tries until it succeeds: a descriptor that was closed may live on for a moment in a child process that
/// another test starts.
fn in_the_end<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(began.elapsed() < WATCHDOG, "{error}"),
        }
        std::thread::yield_now();
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + len) as u8).collect()
}

#[test]
fn datagrams_of_every_length_arrive_at_a_socket_byte_for_byte() {
    let Some(lab) = lab("AF_XDP to a socket", 1) else { return };
    for mode in MODES {
        let mut near = Near::open(&XdpOptions { mode, ..options() });
        assert_eq!(near.socket.datagram_max_bytes(), 1472);
        let far = far_socket(&lab);
        resolve(&mut near, &far);
        let mut room = [0; 2048];
        for len in 1..=1472 {
            near.send(address_of(&far), &pattern(len), len);
            let (n, from) = far.recv_from(&mut room).unwrap();
            assert_eq!((&room[..n], v4(from)), (&pattern(len)[..], near.local), "{len} bytes");
        }
        let by_kernel = near.counters.datagrams_sent_by_kernel.get();
        assert!(by_kernel <= 1, "{by_kernel} of them by the kernel");
        assert_eq!(near.counters.datagrams_sent.get() + by_kernel, 1473);
    }
}

#[test]
fn datagrams_of_a_socket_of_every_length_arrive_byte_for_byte() {
    let Some(lab) = lab("a socket to AF_XDP", 1) else { return };
    for mode in MODES {
        let mut near = Near::open(&XdpOptions { mode, ..options() });
        let far = far_socket(&lab);
        for len in 0..=1472 {
            far.send_to(&pattern(len), near.local).unwrap();
            assert_eq!(near.receive(1), [(address_of(&far), near.local, pattern(len))]);
        }
        assert_eq!(near.counters.datagrams_received.get(), 1473);
        // A veth leaves the sum to nobody; what the kernel holds back for a moment it may finish itself.
        let unfinished = near.counters.checksums_unfinished.get();
        assert!((1_400..=1_473).contains(&unfinished), "{mode:?}: {unfinished}");
    }
}

#[test]
fn groups_are_joined_and_left_and_a_run_to_one_is_cut_into_its_datagrams() {
    let Some(lab) = lab("groups by AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    near.socket.join(GROUP).unwrap();
    assert!(near.socket.join(GROUP).unwrap_err().to_string().contains("239.77.1.2:47401"));
    lab.to_far().unwrap();
    let far_options = MulticastOptions { interface: FAR, ttl: 1, buffer_bytes: 1 << 20 };
    let far = UdpSocket::multicast_receiver(GROUP, far_options).unwrap();
    let sender = UdpSocket::multicast_sender(SocketAddrV4::new(FAR, 0), far_options).unwrap();
    lab.to_near().unwrap();

    near.send(GROUP, &pattern(100_000), 1000);
    let (mut batch, mut got, began) = (crate::udp::ReceiveBatch::new(8), Vec::new(), Instant::now());
    while got.len() < 100 && began.elapsed() < WATCHDOG {
        got.extend(far.receive(&mut batch).unwrap().datagrams().map(|(from, d)| (from, d.to_vec())));
    }
    assert!(got.iter().all(|(from, d)| *from == near.local && d.len() == 1000));
    assert_eq!(got.into_iter().flat_map(|(_, d)| d).collect::<Vec<_>>(), pattern(100_000));

    assert_eq!(sender.send_run(GROUP, b"to all", 6).unwrap(), Sent::Datagrams(1));
    assert_eq!(near.receive(1), [(sender.local_address().unwrap(), GROUP, b"to all".to_vec())]);
    near.socket.leave(GROUP).unwrap();
    assert!(near.socket.leave(GROUP).unwrap_err().to_string().contains("239.77.1.2:47401"));
    assert_eq!(sender.send_run(GROUP, b"to the others", 13).unwrap(), Sent::Datagrams(1));
    assert_eq!(sender.send_run(near.local, b"to one", 6).unwrap(), Sent::Datagrams(1));
    assert_eq!(near.receive(1)[0].2, b"to one", "what was sent to the group before did not come");
}

#[test]
fn two_sockets_of_ours_understand_each_other_and_check_whole_checksums() {
    let Some(lab) = lab("AF_XDP to AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    lab.to_far().unwrap();
    let mut far = Near::open(&XdpOptions { interface: FAR, ..options() });
    far.socket.join(GROUP).unwrap();
    near.send(GROUP, &pattern(1400), 100);
    let got = far.receive(14);
    assert_eq!(got.iter().flat_map(|(_, _, d)| d.clone()).collect::<Vec<_>>(), pattern(1400));
    assert_eq!(far.counters.checksums_unfinished.get(), 0);
}

#[test]
fn a_bare_frame_is_a_datagram_and_frames_as_long_are_taken() {
    let Some(lab) = lab("bare AF_XDP", 1) else { return };
    let mut near = BareSocket::open(&options(), GROUP, b"bare").unwrap();
    lab.to_far().unwrap();
    let far_options = XdpOptions { interface: FAR, ..options() };
    let mut far = XdpSocket::open(&far_options, Arc::default()).unwrap();
    far.join(GROUP).unwrap();
    assert!(near.send().unwrap() && near.send().unwrap());
    let mut payloads = Vec::new();
    let began = Instant::now();
    while payloads.len() < 2 {
        assert!(began.elapsed() < WATCHDOG, "{} of 2 datagrams", payloads.len());
        payloads.extend(far.receive().unwrap().datagrams().map(|d| (d.to, d.payload.to_vec())));
    }
    assert_eq!(payloads, [(GROUP, b"bare".to_vec()), (GROUP, b"bare".to_vec())]);
    // More than there are frames to receive into: they go round.
    let from = far.bind(0).unwrap().port();
    assert_eq!(far.send_run(from, GROUP, b"of another length", 17).unwrap(), Sent::Datagrams(1));
    let (mut taken, count) = (0, 2 * options().receive_frames as usize);
    for sent in 0..count {
        assert_eq!(far.send_run(from, GROUP, b"back", 4).unwrap(), Sent::Datagrams(1));
        while taken <= sent {
            assert!(began.elapsed() < WATCHDOG, "{taken} of {count} frames");
            taken += near.receive(|payload| assert_eq!(payload, b"back"));
        }
    }
    assert_eq!(taken, count);
}

#[test]
fn a_bare_frame_that_cannot_be_is_refused() {
    let refused = |to: &str, bytes: usize| {
        BareSocket::open(&options(), to.parse().unwrap(), &vec![0; bytes]).unwrap_err().to_string()
    };
    assert_eq!(refused("10.77.0.2:1", 4), "10.77.0.2:1 is no group, or 4 bytes fit no frame");
    assert_eq!(refused("239.1.1.1:1", 2007), "239.1.1.1:1 is no group, or 2007 bytes fit no frame");
}

#[test]
fn groups_that_the_program_looks_up_in_one_slot_are_told_apart() {
    let Some(lab) = lab("groups in one slot", 1) else { return };
    // Their bytes combine to the same.
    let [mut first, mut second] = [GROUP, GROUP];
    first.set_ip(Ipv4Addr::new(239, 77, 5, 6));
    second.set_ip(Ipv4Addr::new(239, 77, 6, 5));
    let mut near = Near::open(&options());
    near.socket.join(first).unwrap();
    near.socket.join(second).unwrap();
    lab.to_far().unwrap();
    let multicast = MulticastOptions { interface: FAR, ttl: 1, buffer_bytes: 1 << 20 };
    let far = UdpSocket::multicast_sender(SocketAddrV4::new(FAR, 0), multicast).unwrap();
    lab.to_near().unwrap();
    let send = |to, text: &[u8]| assert_eq!(far.send_run(to, text, 9).unwrap(), Sent::Datagrams(1));
    send(first, b"first");
    send(second, b"second");
    let heard: Vec<_> = near.receive(2).into_iter().map(|(_, to, payload)| (to, payload)).collect();
    assert_eq!(heard, [(first, b"first".to_vec()), (second, b"second".to_vec())]);
    near.socket.leave(second).unwrap();
    send(second, b"left");
    send(first, b"still");
    assert_eq!(near.receive(1)[0].2, b"still");
}

#[test]
fn a_wrong_checksum_is_dropped_and_counted() {
    let Some(lab) = lab("checksums by AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    lab.to_far().unwrap();
    let mut far = Near::open(&XdpOptions { interface: FAR, ..options() });
    far.socket.join(GROUP).unwrap();
    let ends = Ends {
        source: MacAddress([2, 0, 0, 0, 0, 9]),
        destination: MacAddress::of_group(*GROUP.ip()),
        from: near.local,
        to: GROUP,
        ttl: 1,
    };
    let mut good = vec![0; HEADERS_LEN];
    good.extend_from_slice(b"good");
    Headers::new(&ends, true).write(&mut good);
    let changed = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] ^= value;
        bad
    };
    near.send_frame(&changed(HEADERS_LEN, 1));
    near.send_frame(&changed(22, 1));
    near.send_frame(&changed(39, 0x10));
    near.send_frame(&good);
    assert_eq!(far.receive(1)[0].2, b"good");
    assert_eq!(far.counters.checksum_errors.get(), 2, "payload and header");
    assert_eq!(far.counters.frames_malformed.get(), 1, "length");
    assert_eq!(far.counters.datagrams_received.get(), 1);
}

#[test]
fn other_ports_and_protocols_go_on_to_the_kernel() {
    let Some(lab) = lab("other traffic beside AF_XDP", 1) else { return };
    for mode in MODES {
        let mut near = Near::open(&XdpOptions { mode, ..options() });
        let beside = StdSocket::bind((NEAR, 0)).unwrap();
        beside.set_read_timeout(Some(WATCHDOG)).unwrap();
        let listener = TcpListener::bind((NEAR, 0)).unwrap();
        let far = far_socket(&lab);
        far.send_to(b"beside", beside.local_addr().unwrap()).unwrap();
        let mut room = [0; 16];
        assert_eq!(beside.recv_from(&mut room).unwrap().0, 6);
        lab.to_far().unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        lab.to_near().unwrap();
        client.write_all(b"stream").unwrap();
        let mut server = listener.accept().unwrap().0;
        server.set_read_timeout(Some(WATCHDOG)).unwrap();
        server.read_exact(&mut room[..6]).unwrap();
        assert_eq!(&room[..6], b"stream");
        far.send_to(b"ours", near.local).unwrap();
        assert_eq!(near.receive(1)[0].2, b"ours");
        assert_eq!(near.counters.datagrams_received.get(), 1);
    }
}

#[test]
fn an_unresolved_neighbour_is_reached_by_the_kernel_first_and_by_frames_then() {
    let Some(lab) = lab("neighbours of AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let far = far_socket(&lab);
    let mut room = [0; 16];
    let mut sent_by = |near: &mut Near| {
        let before = near.counters.datagrams_sent_by_kernel.get();
        near.send(address_of(&far), b"hello", 5);
        assert_eq!(far.recv_from(&mut room).unwrap().1, SocketAddr::V4(near.local));
        near.counters.datagrams_sent_by_kernel.get() - before
    };
    assert_eq!(sent_by(&mut near), 1, "nobody knows the address");
    assert_eq!(sent_by(&mut near), 0, "the kernel knows it");
    near.service();
    assert_eq!(sent_by(&mut near), 0, "still");
    ip("neigh flush dev near").unwrap();
    near.service();
    assert_eq!(sent_by(&mut near), 1, "it is forgotten");
    assert_eq!(sent_by(&mut near), 0, "it is known again");
    let mac = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap();
    let mac = mac.lines().last().unwrap().split_whitespace().nth(3).unwrap();
    ip(&format!("neigh replace {FAR} lladdr {mac} dev near nud stale")).unwrap();
    near.service();
    assert_eq!(sent_by(&mut near), 1, "it is in doubt");
    assert_eq!(sent_by(&mut near), 0, "the kernel has been given a reason to ask");
}

#[test]
fn a_host_that_is_not_reached_through_the_interface_is_sent_to_by_the_kernel() {
    let Some(_lab) = lab("routes of AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let own = StdSocket::bind((NEAR, 0)).unwrap();
    own.set_read_timeout(Some(WATCHDOG)).unwrap();
    near.send(address_of(&own), b"own", 3);
    near.send(address_of(&own), b"own", 3);
    let mut room = [0; 16];
    for _ in 0..2 {
        assert_eq!(own.recv_from(&mut room).unwrap(), (3, SocketAddr::V4(near.local)));
    }
    assert_eq!(near.counters.datagrams_sent_by_kernel.get(), 2);
    let nowhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
    assert!(near.socket.send_run(near.local.port(), nowhere, b"x", 1).is_err());
}

#[test]
fn a_datagram_that_no_frame_holds_is_refused_with_the_limit() {
    let Some(_lab) = lab("long datagrams by AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let error = near.socket.send_run(near.local.port(), GROUP, &[0; 1473], 1473).unwrap_err().to_string();
    assert!(error.contains("1473") && error.contains("1472") && error.contains("near"), "{error}");
    drop(near);
    ip("link set near mtu 9000").unwrap();
    let near = Near::open(&options());
    assert_eq!(near.socket.datagram_max_bytes(), 2048 - 256 - 42, "the frame is the limit");
}

#[test]
fn what_is_not_bound_sends_nothing() {
    let Some(_lab) = lab("ports of AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let port = near.local.port();
    let error = near.socket.send_run(port ^ 1, GROUP, b"x", 1).unwrap_err().to_string();
    assert!(error.contains(&(port ^ 1).to_string()), "{error}");
    near.send(GROUP, b"x", 1);
    near.socket.leave(near.local).unwrap();
    assert!(near.socket.send_run(port, GROUP, b"x", 1).is_err());
    assert_eq!(in_the_end(|| near.socket.bind(port)), near.local, "it is free again");
    near.send(GROUP, b"x", 1);
    let error = near.socket.bind(port).unwrap_err().to_string();
    assert!(error.contains(&port.to_string()), "{error}");
}

#[test]
fn fragments_are_passed_and_counted() {
    let Some(lab) = lab("fragments beside AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let far = far_socket(&lab);
    far.send_to(&pattern(4000), near.local).unwrap();
    far.send_to(b"whole", near.local).unwrap();
    assert_eq!(near.receive(1)[0].2, b"whole");
    near.service();
    assert_eq!(near.counters.fragments_passed.get(), 1);
}

#[test]
fn a_run_that_no_device_has_cut_arrives_in_the_mode_of_the_driver_and_is_dropped_in_generic_mode() {
    let Some(lab) = lab("uncut runs to AF_XDP", 1) else { return };
    lab.to_far().unwrap();
    ip("link set far gso_max_segs 64").unwrap();
    let far_options = MulticastOptions { interface: FAR, ttl: 1, buffer_bytes: 1 << 20 };
    let sender = UdpSocket::multicast_sender(SocketAddrV4::new(FAR, 0), far_options).unwrap();
    lab.to_near().unwrap();
    for mode in MODES {
        let mut near = Near::open(&XdpOptions { mode, ..options() });
        assert_eq!(sender.send_run(near.local, &pattern(9000), 1000).unwrap(), Sent::Datagrams(9));
        assert_eq!(sender.send_run(near.local, b"single", 6).unwrap(), Sent::Datagrams(1));
        let cut = if mode == XdpMode::Native { 9 } else { 0 };
        let got = near.receive(cut + 1);
        assert_eq!(got.iter().filter(|(_, _, d)| d.len() == 1000).count(), cut, "{mode:?}");
        near.service();
        assert_eq!(near.counters.datagrams_dropped_by_kernel.get(), u64::from(cut == 0), "{mode:?}");
    }
}

#[test]
fn the_loopback_interface_serves_in_generic_mode() {
    let Some(_lab) = lab("AF_XDP on loopback", 1) else { return };
    let mut near = Near::open(&XdpOptions { interface: Ipv4Addr::LOCALHOST, ..options() });
    near.socket.join(GROUP).unwrap();
    let options = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 1, buffer_bytes: 1 << 20 };
    let sender = UdpSocket::multicast_sender(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), options).unwrap();
    let from = sender.local_address().unwrap();
    sender.send_run(near.local, b"to one", 6).unwrap();
    sender.send_run(GROUP, b"to all", 6).unwrap();
    let all = [(from, near.local, b"to one".to_vec()), (from, GROUP, b"to all".to_vec())];
    assert_eq!(near.receive(2), all);
    // What it sends to a group comes back to it, as to every listener on the interface.
    near.send(GROUP, b"round", 5);
    assert_eq!(near.receive(1), [(near.local, GROUP, b"round".to_vec())]);
}

#[test]
fn what_comes_on_another_queue_is_passed_and_counted() {
    let Some(lab) = lab("queues of AF_XDP", 2) else { return };
    let mut near = Near::open(&XdpOptions { queue: 1, ..options() });
    let far = far_socket(&lab);
    far.send_to(b"queue 0", near.local).unwrap();
    let began = Instant::now();
    while near.counters.other_queue_passed.get() == 0 {
        assert!(began.elapsed() < WATCHDOG);
        near.service();
    }
    assert!(near.socket.receive().unwrap().is_empty());
    drop(near);
    let error =
        XdpSocket::open(&XdpOptions { queue: 9, ..options() }, Arc::default()).unwrap_err().to_string();
    assert!(error.contains("queue 9"), "{error}");
}

#[test]
fn a_full_ring_blocks_until_frames_return() {
    let Some(lab) = lab("back pressure of AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let kept = std::mem::take(&mut near.socket.free);
    let port = near.local.port();
    assert_eq!(near.socket.send_run(port, GROUP, b"x", 1).unwrap(), Sent::WouldBlock);
    assert_eq!(near.counters.sends_blocked.get(), 1);
    near.socket.free = kept;
    let far = far_socket(&lab);
    resolve(&mut near, &far);
    // Many times the frames there are.
    for round in 0..20 {
        near.send(address_of(&far), &pattern(60 * 100), 100);
        let mut room = [0; 128];
        let got: Vec<u8> = (0..60)
            .flat_map(|_| {
                let n = far.recv(&mut room).unwrap();
                room[..n].to_vec()
            })
            .collect();
        assert_eq!(got, pattern(60 * 100), "round {round}");
    }
}

#[test]
fn an_interface_that_is_down_keeps_what_it_was_given_and_goes_on_when_it_is_up() {
    let Some(lab) = lab("an interface down under AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let far = far_socket(&lab);
    lab.to_far().unwrap();
    let far_options = MulticastOptions { interface: FAR, ttl: 1, buffer_bytes: 1 << 20 };
    let member = UdpSocket::multicast_receiver(GROUP, far_options).unwrap();
    lab.to_near().unwrap();
    ip("link set near down").unwrap();
    let error = near.socket.send_run(near.local.port(), GROUP, b"kept", 4).unwrap_err();
    assert_eq!(error.raw_os_error().or(Some(libc::ENETDOWN)), Some(libc::ENETDOWN), "{error}");
    assert!(error.to_string().contains("near"), "{error}");
    ip("link set near up").unwrap();
    let (mut batch, mut got, began) = (crate::udp::ReceiveBatch::new(8), Vec::new(), Instant::now());
    while got.is_empty() && began.elapsed() < WATCHDOG {
        near.send(GROUP, b"next", 4);
        got.extend(member.receive(&mut batch).unwrap().datagrams().map(|(_, d)| d.to_vec()));
    }
    assert_eq!(got[0], b"kept");
    drop(far);
}

#[test]
fn what_finds_no_frame_is_counted_and_reception_goes_on() {
    let Some(lab) = lab("a slow receiver by AF_XDP", 1) else { return };
    let mut near = Near::open(&XdpOptions { receive_frames: 128, ..options() });
    let far = far_socket(&lab);
    for i in 0..300u32 {
        far.send_to(&i.to_be_bytes(), near.local).unwrap();
    }
    let got = near.receive(128);
    let numbers: Vec<u32> =
        got.iter().map(|(_, _, d)| u32::from_be_bytes(d[..].try_into().unwrap())).collect();
    assert_eq!(numbers, (0..128).collect::<Vec<_>>(), "the first find frames");
    near.service();
    assert_eq!(near.counters.datagrams_dropped_by_kernel.get(), 300 - 128);
    assert!(near.counters.fill_ring_empty.get() > 0);
    assert!(near.socket.receive().unwrap().is_empty());
    for i in 0..100u32 {
        far.send_to(&i.to_be_bytes(), near.local).unwrap();
    }
    assert_eq!(near.receive(100).len(), 100);
}

#[test]
fn more_addresses_than_are_remembered_are_found_anew() {
    let Some(_lab) = lab("many flows by AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    for i in 0..=super::flow::FLOWS_MAX as u16 {
        let [high, low] = i.to_be_bytes();
        near.send(SocketAddrV4::new(Ipv4Addr::new(239, 78, high, low), 5000), b"x", 1);
    }
    near.service();
    assert_eq!(near.counters.flows_forgotten.get(), 1);
    assert_eq!(near.counters.datagrams_sent.get(), 1 + super::flow::FLOWS_MAX as u64);
}

#[test]
fn more_addresses_than_can_be_received_are_refused_with_the_limit() {
    let Some(_lab) = lab("many addresses of AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    for port in 1..DESTINATIONS_MAX as u16 {
        near.socket.program.add(SocketAddrV4::new(Ipv4Addr::new(239, 79, 0, 0), port)).unwrap();
    }
    let error = near.socket.join(GROUP).unwrap_err().to_string();
    assert!(error.contains("4096") && error.contains("239.77.1.2:47401"), "{error}");
}

#[test]
fn a_second_socket_on_an_interface_is_refused_by_name() {
    let Some(_lab) = lab("two AF_XDP sockets", 1) else { return };
    let _near = Near::open(&options());
    let error = XdpSocket::open(&options(), Arc::default()).unwrap_err().to_string();
    assert!(error.contains("interface near") && error.contains("one context"), "{error}");
}

#[test]
fn the_interface_is_free_again_when_the_socket_is_dropped() {
    let Some(lab) = lab("AF_XDP again", 1) else { return };
    let near = Near::open(&options());
    let local = near.local;
    drop(near);
    let plain = in_the_end(|| StdSocket::bind(local));
    plain.set_read_timeout(Some(WATCHDOG)).unwrap();
    far_socket(&lab).send_to(b"plain", local).unwrap();
    assert_eq!(plain.recv(&mut [0; 16]).unwrap(), 5);
    drop(plain);
    for mode in MODES {
        let _again = Near::open(&XdpOptions { mode, ..options() });
    }
}

#[test]
fn an_interface_that_is_taken_away_is_an_error() {
    let Some(_lab) = lab("an interface that goes", 1) else { return };
    let told = |e: std::io::Error| {
        assert_eq!(e.kind(), std::io::ErrorKind::NotConnected, "{e}");
        assert!(e.to_string().contains("interface near: the interface is gone"), "{e}");
    };
    let [mut by_send, mut by_spin, mut by_service] = [(); 3].map(|()| {
        if ip("link show near").is_err() {
            ip("link add near type veth peer name other").unwrap();
            ip(&format!("address add {NEAR}/24 dev near")).unwrap();
            ip("link set near up").unwrap();
            ip("link set other up").unwrap();
        }
        let near = Near::open(&options());
        ip("link del near").unwrap();
        near
    });
    told(by_send.socket.send_run(by_send.local.port(), GROUP, b"x", 1).unwrap_err());
    told(by_service.socket.service(Nanos(1)).unwrap_err());
    let began = Instant::now();
    let error = loop {
        assert!(began.elapsed() < WATCHDOG, "never told");
        if let Err(error) = by_spin.socket.receive() {
            break error;
        }
    };
    told(error);
    told(by_spin.socket.service(Nanos(1)).unwrap_err());
}

#[test]
fn a_thread_that_blocks_wakes_up_for_a_datagram() {
    let Some(lab) = lab("waiting for AF_XDP", 1) else { return };
    let mut near = Near::open(&options());
    let mut poller = Poller::new().unwrap();
    poller.registrar().add(&near.socket, Token(7), Interest::Read).unwrap();
    assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
    let far = far_socket(&lab);
    for _ in 0..3 {
        far.send_to(b"wake up", near.local).unwrap();
        let ready: Vec<_> = poller.wait(Some(WATCHDOG)).unwrap().collect();
        assert!(ready.iter().all(|r| r.token == Token(7) && r.readable) && ready.len() == 1);
        assert_eq!(near.receive(1)[0].2, b"wake up");
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0, "nothing is left");
    }
}

#[test]
fn busy_polling_by_the_kernel_is_asked_for() {
    let Some(lab) = lab("busy polling of AF_XDP", 1) else { return };
    let busy_poll = Duration::from_micros(20);
    let mut near = Near::open(&XdpOptions { busy_poll, mode: XdpMode::Native, ..options() });
    far_socket(&lab).send_to(b"busy", near.local).unwrap();
    assert_eq!(near.receive(1)[0].2, b"busy");
    assert!(!near.socket.is_zero_copy().unwrap());
}

#[test]
fn options_out_of_range_and_addresses_of_nobody_are_named() {
    let refused = |options: XdpOptions| XdpSocket::open(&options, Arc::default()).unwrap_err().to_string();
    let error = refused(XdpOptions { receive_frames: 100, ..options() });
    assert!(error.contains("receive_frames is 100") && error.contains("128"), "{error}");
    let error = refused(XdpOptions { send_frames: 63, ..options() });
    assert!(error.contains("send_frames is 63"), "{error}");
    let error = refused(XdpOptions { frame_bytes: 1500, ..options() });
    assert!(error.contains("frame_bytes is 1500") && error.contains("4096"), "{error}");
    let error = refused(XdpOptions { queue: 256, ..options() });
    assert!(error.contains("queue is 256") && error.contains("255"), "{error}");
    let error = refused(XdpOptions::on(Ipv4Addr::new(192, 0, 2, 77)));
    assert!(error.contains("192.0.2.77"), "{error}");
}
