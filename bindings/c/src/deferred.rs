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

/// Something to do with a payload.
pub(crate) enum Action {
    Send(Source, SendFlags),
    SendHotFailover(Source, u64, SendFlags),
    Respond(Asked),
}

impl Action {
    /// Does it; returns the number of the message, 0 of an answer.
    #[inline(always)]
    pub(crate) fn run(&self, context: &mut Context, payload: &[u8]) -> Result<u32, Failure> {
        let sent = match *self {
            Action::Send(source, flags) => context.send_flagged(source, flags, &[payload]),
            Action::SendHotFailover(source, number, flags) => {
                context.send_hot_failover(source, number, flags, &[payload])
            }
            Action::Respond(asked) => {
                return context.respond(asked, payload).map(|()| 0).map_err(Failure::Io);
            }
        };
        sent.map(|sqn| sqn.0).map_err(Failure::Send)
    }
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
    /// The first that did not have what was asked for done, after which the rest was done all the same;
    /// [`SendError::WouldBlock`] if there was none and something still waits.
    #[inline]
    pub(crate) fn run(&mut self, context: &mut Context) -> Result<(), Failure> {
        if self.actions.is_empty() { Ok(()) } else { self.run_all(context) }
    }

    #[cold]
    fn run_all(&mut self, context: &mut Context) -> Result<(), Failure> {
        let mut first = Ok(());
        while let Some((action, length)) = self.actions.front() {
            let payload = &self.bytes[self.done..self.done + length];
            let result = action.run(context, payload).map(drop);
            if matches!(result, Err(Failure::Send(SendError::WouldBlock))) {
                return first.and(result);
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

#[cfg(test)]
mod tests {
    use messaging::{MessagingConfig, SourceOptions};

    use super::*;
    use crate::callbacks::AskedValue;

    #[test]
    fn an_error_is_told_though_what_follows_it_has_to_wait() {
        let port = 24_000 + std::process::id() % 2_000;
        let settings = [
            "interface=127.0.0.1".to_owned(),
            format!("resolver_multicast_port={port}"),
            format!("transport_lbtrm_destination_port={port}"),
            "transport_lbtrm_source_port_low=30000".to_owned(),
            "transport_lbtrm_source_port_high=40000".to_owned(),
            "transport_lbtrm_data_rate_limit_bits_per_second=100000".to_owned(),
            "transport_lbtrm_retransmit_rate_limit_bits_per_second=0".to_owned(),
        ];
        let config = MessagingConfig::load(None, settings).expect("sound");
        let mut context = Context::standalone(&config).expect("loopback is there");
        let source = context.create_source("c.deferred", &SourceOptions::default()).expect("a port is free");
        while context.send(source, &[&[0; 60_000]]).is_ok() {}
        let mut deferred = Deferred::default();
        // Nobody can be connected to there.
        let nobody = AskedValue { index: 0, address: u32::MAX, port: 1 };
        deferred.push(Action::Respond(nobody.into()), b"answer").expect("there is room");
        deferred.push(Action::Send(source, SendFlags::default()), b"later").expect("there is room");
        assert!(matches!(deferred.run(&mut context), Err(Failure::Io(_))));
        let waits = deferred.run(&mut context);
        assert!(
            matches!(waits, Err(Failure::Send(SendError::WouldBlock))),
            "the rest goes on, without that error"
        );
    }
}
