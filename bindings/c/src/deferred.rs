//! What callbacks want done: it waits until the context is free.

use std::collections::VecDeque;

use messaging::{Asked, Context, SendError, SendFlags, Source};

use crate::error::Failure;

/// Most sends and answers that wait, and most bytes of them.
const ACTIONS_MAX: usize = 4_096;
const BYTES_MAX: usize = 64 << 20;

/// Sends and answers in the order in which callbacks asked for them.
#[derive(Default)]
pub(crate) struct Deferred {
    actions: VecDeque<(Action, usize)>,
    /// Their payloads, one behind the other; those in front of `done` are of no use any more.
    bytes: Vec<u8>,
    done: usize,
}

pub(crate) enum Action {
    Send(Source, SendFlags),
    SendHotFailover(Source, u64, SendFlags),
    Respond(Asked),
}

impl Deferred {
    /// Takes one down.
    pub(crate) fn push(&mut self, action: Action, payload: &[u8]) -> Result<(), Failure> {
        if self.actions.len() >= ACTIONS_MAX || self.bytes.len() + payload.len() > BYTES_MAX {
            return Err(Failure::Send(SendError::WouldBlock));
        }
        self.bytes.extend_from_slice(payload);
        self.actions.push_back((action, payload.len()));
        Ok(())
    }

    /// Does all, or as far as the transports take it.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] if something still waits; else the first other error, after which the rest
    /// was done all the same.
    #[inline]
    pub(crate) fn run(&mut self, context: &mut Context) -> Result<(), Failure> {
        if self.actions.is_empty() { Ok(()) } else { self.run_all(context) }
    }

    #[cold]
    fn run_all(&mut self, context: &mut Context) -> Result<(), Failure> {
        let mut first = Ok(());
        while let Some((action, length)) = self.actions.front() {
            let payload = &self.bytes[self.done..self.done + length];
            let result = match action {
                Action::Send(source, flags) => {
                    context.send_flagged(*source, *flags, &[payload]).map(drop).map_err(Failure::Send)
                }
                Action::SendHotFailover(source, number, flags) => {
                    let sent = context.send_hot_failover(*source, *number, *flags, &[payload]);
                    sent.map(drop).map_err(Failure::Send)
                }
                Action::Respond(asked) => context.respond(*asked, payload).map_err(Failure::Io),
            };
            if matches!(result, Err(Failure::Send(SendError::WouldBlock))) {
                return result;
            }
            self.done += length;
            self.actions.pop_front();
            first = first.and(result);
        }
        self.bytes.clear();
        self.done = 0;
        first
    }
}
