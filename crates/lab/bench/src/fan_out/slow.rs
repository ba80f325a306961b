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
const READ_BYTES: usize = 256 << 10;

pub(crate) fn slow_mounts(args: &SlowMountsArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let params = Arc::new(ClientConfig::default().check()?);
    let watchlist = Watchlist { common: args.common, mount: 0, own_from: 0, own: 0, own_of: 1 };
    let make = |number, transport| Mount::new(watchlist, number, transport, &params);
    let mut mounts = args.target.connect_all(args.frozen + args.slow, make)?;
    let mut bytes = vec![0; READ_BYTES];
    mounts.iter_mut().try_for_each(Mount::write)?;
    let deadline = clock::monotonic().after(START_LIMIT);
    while !mounts.iter().all(Mount::is_ready) {
        if clock::monotonic() > deadline {
            return Err(BenchError::new("slow readers have not got their images"));
        }
        std::thread::sleep(TICK);
        mounts.iter_mut().try_for_each(|mount| read_some(mount, &mut bytes))?;
    }
    let commands = process::commands();
    answer(&json!({ "ready": true }));
    let (mut bytes_per_s, mut ticks) = (0.0, 0_u32);
    loop {
        match commands.try_recv() {
            Ok(command) => bytes_per_s = command["bytes_per_s"].as_f64().unwrap_or(0.0),
            Err(TryRecvError::Empty) => std::thread::sleep(TICK),
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        let share = ((bytes_per_s * TICK.as_secs_f64()) as usize).clamp(1, READ_BYTES);
        let slow = &mut mounts[args.frozen as usize..];
        slow.iter_mut().try_for_each(|mount| read_some(mount, &mut bytes[..share]))?;
        ticks += 1;
        if ticks.is_multiple_of(TIMERS) {
            mounts.iter_mut().try_for_each(Mount::on_wakeup)?;
        }
    }
}

/// One read.
fn read_some(mount: &mut Mount, bytes: &mut [u8]) -> Result<(), BenchError> {
    match mount.transport().read(bytes)? {
        Moved::Bytes(count) => mount.on_bytes(&bytes[..count])?,
        Moved::WouldBlock => {}
        Moved::End => return Err(BenchError::new("the server has ended a slow reader's connection")),
    }
    mount.write()
}
