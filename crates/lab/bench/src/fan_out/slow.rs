//! Consumers of the common items that do not keep up: some read nothing, some at a pace that they are told.

use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use clap::Args;
use net::clock;
use net::tcp::Moved;
use rssl::ClientConfig;
use serde_json::json;

use super::peers::{Peer, Target};
use super::{Mount, Watchlist};
use crate::BenchError;
use crate::options::Cpu;
use crate::process::{self, START_LIMIT, answer};

#[derive(Debug, Args)]
pub(crate) struct SlowMountsArgs {
    #[command(flatten)]
    target: Target,
    /// Items that each of them watches.
    #[arg(long)]
    common: u32,
    /// Those that read nothing.
    #[arg(long)]
    frozen: u32,
    /// Those that read slowly.
    #[arg(long)]
    slow: u32,
    #[command(flatten)]
    cpu: Cpu,
}

/// How often the slow ones read.
const TICK: Duration = Duration::from_millis(10);
/// Ticks between two looks at the timers: pings go on.
const TIMERS: u32 = 100;
/// When nothing has come for so many ticks, all has come.
const QUIET_TICKS: u32 = 20;
const READ_BYTES: usize = 256 << 10;

pub(crate) fn slow_mounts(args: &SlowMountsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    // Those that stand still do not hear the server's pings either.
    let params = Arc::new(ClientConfig { ping_timeout_s: u8::MAX, ..ClientConfig::default() }.check()?);
    let watchlist = Watchlist { common: args.common, mount: 0, own_from: 0, own: 0, own_of: 1 };
    let make = |number, transport| Mount::new(watchlist, number, transport, &params);
    let mut mounts = args.target.connect_all(0..args.frozen + args.slow, make)?;
    let mut bytes = vec![0; READ_BYTES];
    mounts.iter_mut().try_for_each(Mount::write)?;
    let deadline = clock::monotonic().after(START_LIMIT);
    while !mounts.iter().all(Mount::is_ready) {
        if clock::monotonic() > deadline {
            return Err(BenchError::new("slow readers have not got their images"));
        }
        std::thread::sleep(TICK);
        mounts.iter_mut().try_for_each(|mount| read_some(mount, &mut bytes).map(drop))?;
    }
    let commands = process::commands();
    answer(&json!({ "ready": true }));
    let (mut bytes_per_s, mut ticks) = (0.0, 0_u32);
    loop {
        match commands.try_recv() {
            Ok(command) => {
                bytes_per_s = command["bytes_per_s"].as_f64().unwrap_or(0.0);
                if bytes_per_s == 0.0 {
                    drain(&mut mounts, &mut bytes)?;
                    answer(&json!({ "drained": true }));
                }
            }
            Err(TryRecvError::Empty) => std::thread::sleep(TICK),
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        let share = ((bytes_per_s * TICK.as_secs_f64()) as usize).clamp(1, READ_BYTES);
        let slow = &mut mounts[args.frozen as usize..];
        slow.iter_mut().try_for_each(|mount| read_some(mount, &mut bytes[..share]).map(drop))?;
        ticks += 1;
        if ticks.is_multiple_of(TIMERS) {
            mounts.iter_mut().try_for_each(Mount::on_wakeup)?;
        }
    }
}

/// A run is over: all read what there is, so that the next run begins as this one did.
fn drain(mounts: &mut [Mount], bytes: &mut [u8]) -> Result<(), BenchError> {
    let mut quiet = 0;
    while quiet < QUIET_TICKS {
        quiet += 1;
        for mount in &mut *mounts {
            while read_some(mount, bytes)? {
                quiet = 0;
            }
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// One read; whether there was something.
fn read_some(mount: &mut Mount, bytes: &mut [u8]) -> Result<bool, BenchError> {
    let has_read = match mount.transport().read(bytes)? {
        Moved::Bytes(count) => {
            mount.on_bytes(&bytes[..count])?;
            true
        }
        Moved::WouldBlock => false,
        Moved::End => return Err(BenchError::new("the server has ended a slow reader's connection")),
    };
    mount.write()?;
    Ok(has_read)
}
