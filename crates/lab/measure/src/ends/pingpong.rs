//! A message to and fro.

use std::sync::mpsc::{Receiver, TryRecvError};

use net::clock;
use serde_json::{Value, json};

use super::play::{LOOK_EVERY, answer, next, seconds, send};
use super::{End, Failure, Link};
use crate::Latencies;

/// Sends back what comes.
pub(crate) fn reflect(end: &End, link: &mut impl Link, commands: &Receiver<Value>) -> Result<(), Failure> {
    let mut message = vec![0; end.size];
    let mut turns = 0u32;
    loop {
        let mut is_whole = true;
        let count = link.receive(|bytes| {
            is_whole = bytes.len() == message.len();
            if is_whole {
                message.copy_from_slice(bytes);
            }
        })?;
        if !is_whole {
            return Err(format!("a message that is not of {} bytes", end.size).into());
        }
        if count > 0 {
            send(link, &message)?;
        }
        link.turn_beside_receive()?;
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(LOOK_EVERY) && commands.try_recv() == Err(TryRecvError::Disconnected) {
            return Ok(());
        }
    }
}

/// Sends one message after the other, each when the last is back.
pub(crate) fn ask<L: Link>(end: &End, link: &mut L, commands: &Receiver<Value>) -> Result<(), Failure> {
    let message = vec![7; end.size];
    while let Some(command) = next(std::slice::from_mut(link), commands)? {
        let span = seconds(&command)?;
        let mut latencies = Latencies::default();
        // Until caches and branches know the way.
        let warm = clock::monotonic().after(span / 5);
        let over = warm.after(span);
        loop {
            let start = clock::monotonic();
            send(link, &message)?;
            while link.receive(|_| ())? == 0 {
                link.turn_beside_receive()?;
            }
            let now = clock::monotonic();
            if start >= warm {
                latencies.record(now.since(start).as_nanos() as u64 / 2);
            }
            // One at least, however busy the machine is.
            if now >= over && start >= warm {
                break;
            }
        }
        answer(&json!({ "half_round_trip": latencies.spread() }));
    }
    Ok(())
}
