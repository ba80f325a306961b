//! The same bytes to as many connections without protocol, caches and watchlists.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use clap::Args;
use net::tcp::Moved;
use net::{Interest, Poller, Token, clock, tcp};
use serde_json::json;
use units::Nanos;

use super::mounts::TIME_EVERY;
use super::seen::Seen;
use crate::BenchError;
use crate::chain::{record, record_bytes, run_number};
use crate::end_to_end::Pacing;
use crate::every::{Every, TimeEvery};
use crate::options::Cpu;
use crate::process::{self, answer};
use crate::update::Profile;

#[derive(Debug, Args)]
pub(crate) struct BareServerArgs {
    /// Connections of all servers, the first of this one, and how many it has.
    #[arg(long)]
    mounts: u32,
    #[arg(long)]
    first: u32,
    #[arg(long)]
    here: u32,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    cpu: Cpu,
}

/// Makes all records, as if they came from a backbone. Copies each to the connections of this server that would watch it, and writes what has gathered.
pub(crate) fn bare_server(args: &BareServerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    answer(&json!({ "port": listener.local_addr()?.port() }));
    let mut mounts = Vec::new();
    for _ in 0..args.here {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        mounts.push((stream, Vec::with_capacity(64 << 10)));
    }
    answer(&json!({ "ready": true }));
    let (mut count, mut made, length) = (0usize, Vec::new(), record_bytes(args.profile));
    let first = args.first as usize;
    for command in process::commands() {
        let sent = Pacing::Sleep.run(&command, |due| {
            for intended in due {
                count += 1;
                made.clear();
                record(&mut made, length, *intended, 0);
                if count.is_multiple_of(2) {
                    mounts.iter_mut().for_each(|(_, bytes)| bytes.extend_from_slice(&made));
                } else {
                    let at = (count / 2).wrapping_mul(7919) % args.mounts as usize;
                    if let Some((_, bytes)) = at.checked_sub(first).and_then(|at| mounts.get_mut(at)) {
                        bytes.extend_from_slice(&made);
                    }
                }
            }
            mounts.iter_mut().try_for_each(write)
        })?;
        made.clear();
        record(&mut made, length, sent.end, run_number(&command));
        mounts.iter_mut().for_each(|(_, bytes)| bytes.extend_from_slice(&made));
        mounts.iter_mut().try_for_each(write)?;
        answer(&sent.answer());
    }
    Ok(())
}

fn write((stream, bytes): &mut (TcpStream, Vec<u8>)) -> Result<(), BenchError> {
    if !bytes.is_empty() {
        stream.write_all(bytes)?;
        bytes.clear();
    }
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct BareMountsArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    mounts: u32,
    #[command(flatten)]
    time_every: TimeEvery,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    cpu: Cpu,
}

/// One connection: what is left of a record that has come in part.
struct Mount {
    stream: TcpStream,
    rest: Vec<u8>,
    has_ended: bool,
    times: Every,
}

const READ_BYTES: usize = 256 << 10;

pub(crate) fn bare_mounts(args: &BareMountsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut poller = Poller::new()?;
    let mut mounts = Vec::new();
    for number in 0..args.mounts {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, args.port))?;
        stream.set_nonblocking(true)?;
        poller.registrar().add(&stream, Token(number.into()), Interest::Read)?;
        let times = Every::new(args.time_every.or(TIME_EVERY));
        mounts.push(Mount { stream, rest: Vec::new(), has_ended: false, times });
    }
    answer(&json!({ "ready": true }));
    let (mut bytes, mut seen, mut run) = (vec![0; READ_BYTES], Seen::default(), 0);
    let length = record_bytes(args.profile);
    loop {
        let ready: Vec<usize> = poller.wait(None)?.map(|ready| ready.token.0 as usize).collect();
        for at in ready {
            mounts[at].turn(&mut bytes, length, &mut seen)?;
        }
        if mounts.iter().all(|mount| mount.has_ended) {
            run += 1;
            answer(&seen.to_json(run));
            seen = Seen::default();
            mounts.iter_mut().for_each(|mount| mount.has_ended = false);
        }
    }
}

impl Mount {
    fn turn(&mut self, bytes: &mut [u8], length: usize, seen: &mut Seen) -> Result<(), BenchError> {
        loop {
            let kept = self.rest.len();
            bytes[..kept].copy_from_slice(&self.rest);
            let count = match tcp::read(&self.stream, &mut bytes[kept..])? {
                Moved::Bytes(count) => count,
                Moved::WouldBlock => return Ok(()),
                Moved::End => return Err(BenchError::new("the bare server has ended a connection")),
            };
            let records = bytes[..kept + count].chunks_exact(length);
            self.rest.clear();
            self.rest.extend_from_slice(records.remainder());
            records.for_each(|record| self.has_ended |= take(record, seen, &mut self.times));
            if kept + count < bytes.len() {
                return Ok(());
            }
        }
    }
}

/// Returns whether a run ends with this record.
#[inline]
fn take(record: &[u8], seen: &mut Seen, times: &mut Every) -> bool {
    let age_ns = || {
        let intended = record.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        clock::monotonic().since(Nanos(intended)).as_nanos() as u64
    };
    seen.bytes += record.len() as u64;
    if record[8] != 0 {
        seen.last_ns = seen.last_ns.max(age_ns());
        return true;
    }
    seen.updates += 1;
    if times.is_due() {
        seen.latencies.record(age_ns());
    }
    false
}
