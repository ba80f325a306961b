//! Keys and certificates are read again.

use std::io;

use units::Nanos;

use super::Context;
use crate::Handler;
use crate::error::ContextError;
use crate::keys::NewKeys;
use crate::security::Loaded;

impl Context {
    /// Reads the files of keys and certificates again, now, whether they have changed or not; they are in force
    /// when it returns. The context does the same by itself every `security_reload_interval_us` with those that
    /// have changed, and reports it by [`Handler::on_security`].
    ///
    /// # Errors
    /// Files that cannot be used, each named; what was in force of those stays. The others are in force.
    /// [`ContextError::Forked`] in a child made by `fork`.
    pub fn reload_security(&mut self) -> Result<(), ContextError> {
        self.base.check_home()?;
        let (all, failed) = self.base.security.read_all(&self.base.config, &self.base.counters.context);
        all.into_iter().for_each(|loaded| self.put_in_force(loaded));
        if failed.is_empty() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, failed.join("; ")).into())
    }

    /// Looks whether files have changed, and tells what has happened.
    pub(crate) fn wake_security(&mut self, now: Nanos, handler: &mut impl Handler) {
        let (config, counters) = (&self.base.config, &self.base.counters.context);
        let changed = self.base.security.read_changed(now, config, counters);
        changed.into_iter().for_each(|loaded| self.put_in_force(loaded));
        self.base.security.tell(now, handler);
    }

    fn put_in_force(&mut self, loaded: Loaded) {
        let Context { base, publishing, receiving, .. } = self;
        let mut rekey = |keys: NewKeys<'_>| {
            publishing.rekey(&keys);
            receiving.incoming.rekey(&keys);
        };
        match loaded {
            Loaded::RmKeys(keys) => {
                rekey(NewKeys::Rm(&keys));
                base.keys = Some(keys);
            }
            Loaded::RuKeys(keys) => {
                rekey(NewKeys::Ru(&keys));
                base.ru_keys = Some(keys);
            }
            Loaded::RmPayloadKeys(keys) => {
                rekey(NewKeys::RmPayloads(&keys));
                base.payload_keys.rm = Some(keys);
            }
            Loaded::RuPayloadKeys(keys) => {
                rekey(NewKeys::RuPayloads(&keys));
                base.payload_keys.ru = Some(keys);
            }
            Loaded::ResolverKeys(keys) => {
                base.resolution.resolver.authenticate(keys, base.config.resolver.authentication_window());
            }
            Loaded::Server(server) => base.tls.server = server,
            Loaded::Client(client) => base.tls.client = client,
        }
    }
}
