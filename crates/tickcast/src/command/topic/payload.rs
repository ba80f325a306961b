//! What `tickcast pub` sends: a text, the lines of standard input, or test messages.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use units::Nanos;

use super::stamp::{Stamp, clock_id};
use crate::failure::Failure;

/// Lines that were read and not yet sent.
const LINES_MAX: usize = 1_024;

/// Where payloads come from, one after another.
pub(super) enum Payloads {
    Text(Vec<u8>),
    Lines { lines: Receiver<io::Result<Vec<u8>>>, current: Vec<u8>, has_current: bool },
    Test { payload: Vec<u8>, clock: u64 },
}

/// What there is to send.
pub(super) enum Next<'a> {
    Payload(&'a [u8]),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    End,
}

impl Payloads {
    pub(super) fn text(text: &str) -> Payloads {
        Payloads::Text(text.as_bytes().to_vec())
    }

    /// The lines of standard input, without their ends; they are read by a thread of their own.
    pub(super) fn stdin() -> Result<Payloads, Failure> {
        let (sender, lines) = sync_channel(LINES_MAX);
        thread::Builder::new().name("stdin".to_owned()).spawn(move || read_lines(&sender))?;
        Ok(Payloads::Lines { lines, current: Vec::new(), has_current: false })
    }

    pub(super) fn test(size: usize) -> Payloads {
        Payloads::Test { payload: vec![0; size], clock: clock_id() }
    }

    /// The payload to be sent now; the same one again until [`Payloads::advance`]. `number` and `at` are
    /// those of a test message.
    pub(super) fn next(&mut self, number: u64, at: Nanos) -> Result<Next<'_>, Failure> {
        match self {
            Payloads::Text(text) => Ok(Next::Payload(text)),
            Payloads::Test { payload, clock } => {
                Stamp { clock: *clock, number, at }.write(payload);
                Ok(Next::Payload(payload))
            }
            Payloads::Lines { current, has_current: true, .. } => Ok(Next::Payload(current)),
            Payloads::Lines { lines, current, has_current } => match lines.try_recv() {
                Ok(line) => {
                    *current = line.map_err(|e| Failure::Run(format!("cannot read standard input: {e}")))?;
                    *has_current = true;
                    Ok(Next::Payload(current))
                }
                Err(TryRecvError::Empty) => Ok(Next::Later),
                Err(TryRecvError::Disconnected) => Ok(Next::End),
            },
        }
    }

    /// What `next` gave was sent.
    pub(super) fn advance(&mut self) {
        if let Payloads::Lines { has_current, .. } = self {
            *has_current = false;
        }
    }
}

fn read_lines(sender: &SyncSender<io::Result<Vec<u8>>>) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let result = match input.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                Ok(line)
            }
            Err(e) => Err(e),
        };
        let is_end = result.is_err();
        if sender.send(result).is_err() || is_end {
            return;
        }
    }
}
