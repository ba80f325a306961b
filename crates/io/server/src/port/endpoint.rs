//! Connections of the shared [`Machine`] as the ends of a port's connections, whatever they speak.

use std::ops::DerefMut;

use connection::{Backlog, Disconnect, Machine, Output, Wire};
use units::Nanos;

use super::protocol::Endpoint;
use super::status::Traffic;

impl<C, W> Endpoint for C
where
    C: DerefMut<Target = Machine<W>>,
    W: Wire<Output: 'static> + 'static,
{
    type Reason = W::Reason;

    fn pending(&mut self) -> &[u8] {
        self.outbound().flush()
    }

    fn consume(&mut self, count_bytes: usize) {
        self.outbound().consume(count_bytes);
    }

    fn keep(&mut self, frames: &[u8], written_bytes: usize) -> Result<(), W::Reason> {
        let machine: &mut Machine<W> = self;
        machine.outbound().keep(frames, written_bytes).map_err(|stop| machine.stop(stop))
    }

    fn backlog(&mut self) -> Backlog {
        self.outbound().buffer().backlog()
    }

    fn traffic(&mut self) -> Traffic {
        let sent = self.outbound().buffer().flow();
        Traffic { received: self.flow_in(), sent, compression: self.compression() }
    }

    fn memory_bytes(&self) -> usize {
        Machine::memory_bytes(self)
    }

    fn on_sign_of_life(&mut self, now: Nanos) {
        Machine::on_sign_of_life(self, now);
    }

    fn on_wakeup(&mut self, now: Nanos) -> Result<(), W::Reason> {
        Machine::on_wakeup(self, now)
    }

    fn next_wakeup(&self) -> Nanos {
        Machine::next_wakeup(self)
    }

    fn on_disconnected(&mut self, cause: Disconnect) -> W::Reason {
        Machine::on_disconnected(self, cause)
    }

    fn give_up(&mut self, waited_ms: u32) -> W::Reason {
        Machine::stop(self, <W::Output as Output>::stalled(waited_ms))
    }

    fn stop(&mut self) -> W::Reason {
        Machine::stop(self, <W::Output as Output>::APPLICATION)
    }
}
