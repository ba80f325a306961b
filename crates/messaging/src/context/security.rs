//! Keys and certificates are read again.

use std::io;

use lbt::authentication::Keys;
use lbt::encryption::PayloadKeys;
use units::Nanos;

use super::Context;
use crate::Handler;
use crate::error::ContextError;
use crate::outgoing::NewKeys;
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
        match loaded {
            Loaded::RmKeys(keys) => self.rekey_rm(keys),
            Loaded::RuKeys(keys) => self.rekey_ru(keys),
            Loaded::RmPayloadKeys(keys) => self.rekey_rm_payloads(keys),
            Loaded::RuPayloadKeys(keys) => self.rekey_ru_payloads(keys),
            Loaded::ResolverKeys(keys) => {
                let window = self.base.config.resolver_authentication_window();
                self.base.resolver.authenticate(keys, window);
            }
            Loaded::Server(server) => self.base.tls.server = server,
            Loaded::Client(client) => self.base.tls.client = client,
        }
    }

    fn rekey_rm(&mut self, keys: Keys) {
        self.publishing.rekey(&NewKeys::Rm(&keys));
        self.receiving.rekey_rm(&keys);
        self.base.keys = Some(keys);
    }

    fn rekey_ru(&mut self, keys: Keys) {
        self.publishing.rekey(&NewKeys::Ru(&keys));
        self.receiving.rekey_ru(&keys);
        self.base.ru_keys = Some(keys);
    }

    fn rekey_rm_payloads(&mut self, keys: PayloadKeys) {
        self.publishing.rekey(&NewKeys::RmPayloads(&keys));
        self.receiving.rekey_rm_payloads(&keys);
        self.base.payload_keys.rm = Some(keys);
    }

    fn rekey_ru_payloads(&mut self, keys: PayloadKeys) {
        self.publishing.rekey(&NewKeys::RuPayloads(&keys));
        self.receiving.rekey_ru_payloads(&keys);
        self.base.payload_keys.ru = Some(keys);
    }
}
