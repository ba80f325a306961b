//! What the consumers of both protocols have alike.

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use measure::Latencies;
use net::tcp::{self, Moved};
use net::{Interest, Poller, Token, clock};
use serde_json::{Value, json};

use super::seen;
use crate::BenchError;
use crate::end_to_end::START_LIMIT;
use crate::process::answer;

/// What a consumer has counted in a run.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) updates: u64,
    pub(super) latencies: Latencies,
    pub(super) last_ns: u64,
    pub(super) has_ended: bool,
}

/// A consumer.
pub(super) trait Peer {
    fn stream(&self) -> &TcpStream;
    /// Takes what was read.
    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError>;
    /// Writes what there is to say.
    fn write(&mut self) -> Result<(), BenchError>;
    /// Looks after timers.
    fn on_wakeup(&mut self) -> Result<(), BenchError>;
    /// It has all images.
    fn is_ready(&self) -> bool;
    fn tally(&mut self) -> &mut Tally;
}

const READ_BYTES: usize = 256 << 10;
/// How often timers are looked at.
const LOOK_UP: Duration = Duration::from_millis(500);

/// Lets them all read, says when they are ready, and tells what each run came to.
pub(super) fn serve<P: Peer>(mut peers: Vec<P>) -> Result<(), BenchError> {
    let mut poller = Poller::new()?;
    for (number, peer) in peers.iter_mut().enumerate() {
        poller.registrar().add(peer.stream(), Token(number as u64), Interest::Read)?;
        peer.write()?;
    }
    let (mut bytes, mut due, mut is_ready) = (vec![0; READ_BYTES], clock::monotonic(), false);
    let mut run = 0;
    loop {
        let ready: Vec<usize> = poller.wait(Some(LOOK_UP))?.map(|ready| ready.token.0 as usize).collect();
        for at in ready {
            read(&mut peers[at], &mut bytes)?;
        }
        if clock::monotonic() >= due {
            due = clock::monotonic().after(LOOK_UP);
            peers.iter_mut().try_for_each(P::on_wakeup)?;
        }
        if !is_ready && peers.iter().all(P::is_ready) {
            is_ready = true;
            answer(&json!({ "ready": true }));
        }
        if peers.iter_mut().all(|peer| peer.tally().has_ended) {
            run += 1;
            answer(&summary(&mut peers, run));
        }
    }
}

/// Reads what there is, and writes what there is to say.
fn read(peer: &mut impl Peer, bytes: &mut [u8]) -> Result<(), BenchError> {
    loop {
        match tcp::read(peer.stream(), bytes)? {
            Moved::Bytes(count) => {
                peer.on_bytes(&bytes[..count])?;
                if count < bytes.len() {
                    break;
                }
            }
            Moved::WouldBlock => break,
            Moved::End => return Err(BenchError::new("the server has ended a consumer's connection")),
        }
    }
    peer.write()
}

/// What a run came to; the tallies begin anew.
fn summary(peers: &mut [impl Peer], run: u32) -> Value {
    let mut all = Tally::default();
    for peer in peers {
        let tally = std::mem::take(peer.tally());
        all.latencies.merge(&tally.latencies);
        all.updates += tally.updates;
        all.last_ns = all.last_ns.max(tally.last_ns);
    }
    seen(run, all.updates, &all.latencies, all.last_ns)
}

/// The server may still be starting.
pub(super) fn connect(port: u16) -> Result<TcpStream, BenchError> {
    let deadline = clock::monotonic().after(START_LIMIT);
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if clock::monotonic() > deadline => return Err(error.into()),
            Err(_) => clock::sleep_until(clock::monotonic().after(Duration::from_millis(20))),
        }
    }
}
