//! The same hops on bare blocking sockets: what the way costs without any system on it.
//!
//! source -TCP-> relay -UDP multicast-> relay -TCP-> sink, a process each. A record has the bytes that an
//! update takes in a frame.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use measure::Latencies;
use net::clock;
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use units::Nanos;

use crate::BenchError;
use crate::end_to_end::Pacing;
use crate::options::Cpu;
use crate::process::{self, answer};
use crate::update::Profile;

/// Intended time `u64`, number of the run that ends here `u8`, time of sending `u64`, filling: as long as an update in its RSSL frame.
pub(crate) fn record_bytes(profile: Profile) -> usize {
    profile.update_bytes() + 3
}

/// Bytes of records in one datagram, at most: as in Ethernet frames.
fn datagram_bytes(record: usize) -> usize {
    (1472 / record).max(1) * record
}

const READ_BYTES: usize = 64 << 10;
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 10, 10, 77);
const BUFFER_BYTES: usize = 8 << 20;

/// Sends records at the rate that it is told.
pub(crate) fn source(to: u16, pacing: Pacing, profile: Profile, cpu: Cpu) -> Result<(), BenchError> {
    cpu.enter()?;
    let length = record_bytes(profile);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    stream.set_nodelay(true)?;
    answer(&json!({ "ready": true }));
    for command in process::commands() {
        let mut bytes = Vec::new();
        let sent = pacing.run(&command, |due| {
            for intended in due {
                record(&mut bytes, length, *intended, 0);
            }
            stream.write_all(&bytes)?;
            bytes.clear();
            Ok(())
        })?;
        // Datagrams are lost behind others: the one that ends the run comes alone.
        clock::sleep_until(clock::monotonic().after(Duration::from_millis(50)));
        record(&mut bytes, length, sent.end, run_number(&command));
        stream.write_all(&bytes)?;
        answer(&sent.answer());
    }
    Ok(())
}

/// Adds a record.
pub(crate) fn record(bytes: &mut Vec<u8>, length: usize, intended: Nanos, ends_run: u8) {
    let end = bytes.len() + length;
    bytes.extend_from_slice(&intended.0.to_be_bytes());
    bytes.push(ends_run);
    bytes.extend_from_slice(&clock::monotonic().0.to_be_bytes());
    bytes.resize(end, 0);
}

pub(crate) fn run_number(command: &Value) -> u8 {
    command["run"].as_u64().unwrap_or(1) as u8
}

/// From TCP to multicast.
pub(crate) fn relay_out(group_port: u16, profile: Profile, cpu: Cpu) -> Result<(), BenchError> {
    cpu.enter()?;
    let length = record_bytes(profile);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    answer(&json!({ "port": listener.local_addr()?.port() }));
    let (mut stream, _) = listener.accept()?;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    socket.set_send_buffer_size(BUFFER_BYTES)?;
    socket.connect(&SocketAddrV4::new(GROUP, group_port).into())?;
    let (mut bytes, mut kept) = (vec![0; READ_BYTES], 0);
    loop {
        let read = stream.read(&mut bytes[kept..])?;
        if read == 0 {
            return Ok(());
        }
        let whole = (kept + read) / length * length;
        for datagram in bytes[..whole].chunks(datagram_bytes(length)) {
            socket.send(datagram)?;
        }
        bytes.copy_within(whole..kept + read, 0);
        kept = kept + read - whole;
    }
}

/// From multicast to TCP.
pub(crate) fn relay_in(group_port: u16, cpu: Cpu) -> Result<(), BenchError> {
    cpu.enter()?;
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(GROUP, group_port).into())?;
    socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST)?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    let socket: std::net::UdpSocket = socket.into();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    answer(&json!({ "port": listener.local_addr()?.port() }));
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let length = socket.recv(&mut bytes)?;
        stream.write_all(&bytes[..length])?;
    }
}

/// Notes how long each record took.
pub(crate) fn sink(from: u16, profile: Profile, cpu: Cpu) -> Result<(), BenchError> {
    cpu.enter()?;
    let length = record_bytes(profile);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, from))?;
    answer(&json!({ "ready": true }));
    let (mut bytes, mut kept) = (vec![0; READ_BYTES], 0);
    let (mut latencies, mut naive) = (Latencies::default(), Latencies::default());
    loop {
        let read = stream.read(&mut bytes[kept..])?;
        if read == 0 {
            return Ok(());
        }
        let whole = (kept + read) / length * length;
        for record in bytes[..whole].chunks(length) {
            let time = |at: std::ops::Range<usize>| {
                Nanos(u64::from_be_bytes(record[at].try_into().expect("a record is longer")))
            };
            if record[8] == 0 {
                let now = clock::monotonic();
                latencies.record(now.since(time(0..8)).as_nanos() as u64);
                naive.record(now.since(time(9..17)).as_nanos() as u64);
            } else {
                let (all, naive_all) = (latencies.spread(), naive.summary());
                answer(&json!({ "run": record[8], "latencies": all, "naive": naive_all }));
                latencies.clear();
                naive.clear();
            }
        }
        bytes.copy_within(whole..kept + read, 0);
        kept = kept + read - whole;
    }
}
