//! Receiving, as applications call it.

use super::Context;
use crate::error::ContextError;
use crate::{Handler, Receiver, ReceiverOptions};

impl Context {
    /// Begins to receive a topic, from all sources there are and will be. Several receivers of one topic are
    /// each told everything.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the name cannot be sent. [`ContextError::FailoverOrder`]: options that do not
    /// go together. [`ContextError::Closed`] after [`Context::close`] or [`Context::settle`].
    /// [`ContextError::Forked`] in a child made by `fork`.
    pub fn create_receiver(
        &mut self,
        topic: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.receiving.create_receiver(&mut self.base, &mut self.direct, topic, options)
    }

    /// Begins to receive all topics whose names begin with `prefix`.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the prefix as a pattern cannot be sent. Else as [`Context::create_receiver`].
    pub fn create_prefix_receiver(
        &mut self,
        prefix: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.receiving.create_prefix_receiver(&mut self.base, &mut self.direct, prefix, options)
    }

    /// Begins to receive all topics in whose names a pattern is found. It is in the syntax of Perl, as far
    /// as that can be matched in time linear in a name's length.
    ///
    /// # Errors
    /// [`ContextError::Topic`]: the pattern is not understood or too long; the error says which. Else as
    /// [`Context::create_receiver`].
    pub fn create_pattern_receiver(
        &mut self,
        pattern: &str,
        options: &ReceiverOptions,
    ) -> Result<Receiver, ContextError> {
        self.receiving.create_pattern_receiver(&mut self.base, &mut self.direct, pattern, options)
    }

    /// Stops receiving; no event for this receiver follows.
    pub fn delete_receiver(&mut self, receiver: Receiver) {
        self.receiving.delete_receiver(&mut self.base, &mut self.direct, receiver)
    }

    /// Why a session of shared memory was not opened last that this user may not open, or must not trust: the file, its
    /// owner and permissions, and who this user is. They are counted in `messaging_ipc_opens_denied`.
    #[must_use]
    pub fn ipc_denied(&self) -> Option<&str> {
        self.receiving.incoming.ipc.ipc_denied()
    }

    /// Tells a hot failover receiver that the numbers of its topics begin anew, higher or lower: what is held
    /// is delivered now, with the loss before it, and the next message of each topic begins it. To be called
    /// when all sources of the old numbers have ended.
    pub fn restart_hot_failover(&mut self, receiver: Receiver, handler: &mut impl Handler) {
        if self.base.home.is_here() {
            self.receiving.restart_failover(receiver, handler);
        }
    }

    /// The source of a ring has rung.
    pub(crate) fn on_bell(&mut self, at: usize, handler: &mut impl Handler) {
        let reads = self.standalone.has_poller();
        self.receiving.on_bell(at);
        if reads {
            self.receiving.poll_ipc(&mut self.base, &mut self.direct, handler);
        }
        // Else it is read before this thread may sleep.
    }
}
