//! What the consumers of both protocols have alike.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use net::tcp::Moved;
use net::tls::ClientTls;
use net::{Interest, Poller, Token, Transport, clock};
use serde_json::json;

use super::seen::Seen;
use super::tls;
use crate::BenchError;
use crate::process::{START_LIMIT, answer};

/// What a consumer has counted in a run.
#[derive(Default)]
pub(crate) struct Tally {
    pub(in crate::fan_out) seen: Seen,
    pub(in crate::fan_out) has_ended: bool,
}

/// A consumer.
pub(crate) trait Peer {
    fn transport(&mut self) -> &mut Transport;
    /// Takes what was read.
    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), BenchError>;
    /// Writes what there is to say.
    fn write(&mut self) -> Result<(), BenchError>;
    /// Looks after timers.
    fn on_wakeup(&mut self) -> Result<(), BenchError>;
    /// It has all images.
    fn is_ready(&self) -> bool;
    fn tally(&mut self) -> &mut Tally;
    /// That it could make something of all that has come.
    fn check(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

const READ_BYTES: usize = 256 << 10;
/// How often timers are looked at.
const LOOK_UP: Duration = Duration::from_millis(500);

/// Lets them all read, says when they are ready, and tells what each run came to.
pub(super) fn serve<P: Peer>(mut peers: Vec<P>) -> Result<(), BenchError> {
    let mut poller = Poller::new()?;
    for (number, peer) in peers.iter_mut().enumerate() {
        poller.registrar().add(peer.transport(), Token(number as u64), Interest::Read)?;
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
            summary(&mut peers);
            answer(&json!({ "ready": true }));
        }
        if peers.iter_mut().all(|peer| peer.tally().has_ended) {
            run += 1;
            peers.iter().try_for_each(P::check)?;
            answer(&summary(&mut peers).to_json(run));
        }
    }
}

/// Reads what there is, and writes what there is to say.
pub(crate) fn read(peer: &mut impl Peer, bytes: &mut [u8]) -> Result<(), BenchError> {
    loop {
        match peer.transport().read(bytes)? {
            Moved::Bytes(count) => {
                peer.on_bytes(&bytes[..count])?;
                peer.tally().seen.bytes += count as u64;
                if count < bytes.len() && !peer.transport().may_hold_input() {
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
fn summary(peers: &mut [impl Peer]) -> Seen {
    let mut all = Seen::default();
    for peer in peers {
        let seen = std::mem::take(peer.tally()).seen;
        all.add(&seen);
    }
    all
}

/// Where consumers connect to.
#[derive(Debug, Args)]
pub(super) struct Target {
    #[arg(long)]
    port: u16,
    /// The port is an encrypted one, with a certificate of this authority.
    #[arg(long)]
    ca: Option<PathBuf>,
}

impl Target {
    /// Consumers, each with its number and its connection.
    pub(super) fn connect_all<P>(
        &self,
        numbers: std::ops::Range<u32>,
        mut make: impl FnMut(u32, Transport) -> P,
    ) -> Result<Vec<P>, BenchError> {
        let tls = tls::client(self.ca.as_ref())?;
        numbers.map(|number| Ok(make(number, self.connect(tls.as_ref())?))).collect()
    }

    /// The server may still be starting.
    fn connect(&self, tls: Option<&ClientTls>) -> Result<Transport, BenchError> {
        let deadline = clock::monotonic().after(START_LIMIT);
        loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
                Ok(stream) => {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    return Ok(match tls {
                        Some(tls) => tls.connect(stream, "localhost")?,
                        None => Transport::Plain(stream),
                    });
                }
                Err(error) if clock::monotonic() > deadline => return Err(error.into()),
                Err(_) => clock::sleep_until(clock::monotonic().after(Duration::from_millis(20))),
            }
        }
    }
}
