//! Keys and certificates of a context are read again when their files change, and on demand.
//!
//! The files are looked at every `security_reload_interval_us`, never on the way of a message. One that has
//! changed, and is the same at the next look, is put in force: a file that is being written is not read half
//! done. What cannot be used is reported, and what was in force stays. Sessions that stand go on: those of
//! LBT-RM and LBT-RU with the new keys, connections with what TLS has agreed on.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use counters::table::MessagingContext;
use lbt::authentication::Keys;
use lbt::encryption::PayloadKeys;
use lbt::error::WireError;
use lbt::resolution::TransportSession;
use net::WatchedFiles;
use net::tls::{ClientTls, ServerTls, UnixSeconds};
use units::Nanos;

use crate::error::ContextError;
use crate::event::SecurityEvent;
use crate::tls::Tls;
use crate::{Handler, MessagingConfig, keys};

/// The files of a context's keys and certificates, and what is to be reported of them.
pub(crate) struct Security {
    watched: Vec<Watched>,
    look_at: Nanos,
    notices: VecDeque<(SecurityEvent, String)>,
    /// What strangers did that may still be reported, until the next full second.
    notices_left: usize,
    refill_at: Nanos,
}

/// Files that are read together.
struct Watched {
    what: What,
    files: WatchedFiles,
    /// Those of them that nobody else is to read.
    secrets: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    RmKeys,
    RuKeys,
    RmPayloadKeys,
    RuPayloadKeys,
    ResolverKeys,
    Server,
    Client,
}

/// What was read.
/// What was read again.
pub(crate) enum Loaded {
    RmKeys(Keys),
    RuKeys(Keys),
    RmPayloadKeys(PayloadKeys),
    RuPayloadKeys(PayloadKeys),
    ResolverKeys(Keys),
    Server(Option<ServerTls>),
    Client(Option<ClientTls>),
}

/// Refused certificates and unreadable sessions that are reported in a second: strangers can make as many as they like.
const NOTICES_MAX: usize = 16;

const A_SECOND: Duration = Duration::from_secs(1);

impl Security {
    /// Begins to watch. To be made before the files are read: what changes meanwhile is seen.
    pub(crate) fn new(config: &MessagingConfig) -> Security {
        let files = [
            (What::RmKeys, vec![&config.lbtrm.authentication_key_file]),
            (What::RuKeys, vec![&config.lbtru.authentication_key_file]),
            (What::RmPayloadKeys, vec![&config.lbtrm.encryption_key_file]),
            (What::RuPayloadKeys, vec![&config.lbtru.encryption_key_file]),
            (What::ResolverKeys, vec![&config.resolver.authentication_key_file]),
            (
                What::Server,
                vec![
                    &config.tcp.tls_certificate_file,
                    &config.tcp.tls_key_file,
                    &config.tcp.tls_client_ca_file,
                ],
            ),
            (
                What::Client,
                vec![
                    &config.tcp.tls_ca_file,
                    &config.tcp.tls_client_certificate_file,
                    &config.tcp.tls_client_key_file,
                ],
            ),
        ];
        let watched = files.into_iter().map(|(what, files)| {
            let secret = match what {
                What::Server => &config.tcp.tls_key_file,
                What::Client => &config.tcp.tls_client_key_file,
                _ => files[0],
            };
            let secrets = secret.iter().map(PathBuf::from).collect();
            let files: Vec<PathBuf> = files.into_iter().flatten().map(PathBuf::from).collect();
            Watched { what, files: WatchedFiles::new(files), secrets }
        });
        let watched: Vec<Watched> = watched.filter(|watched| !watched.files.files().is_empty()).collect();
        let is_idle = watched.is_empty() || config.security_reload_interval_us == 0;
        let look_at = if is_idle { Nanos::NEVER } else { Nanos::ZERO };
        let mut notices = VecDeque::new();
        // Several transports often have one file.
        for exposure in watched.iter().flat_map(Watched::exposures) {
            if !notices.contains(&exposure) {
                notices.push_back(exposure);
            }
        }
        Security { watched, look_at, notices, notices_left: NOTICES_MAX, refill_at: Nanos::ZERO }
    }

    /// When something is to be told or looked at.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        if self.notices.is_empty() { self.look_at } else { Nanos::ZERO }
    }

    /// A certificate was refused, by us or by the peer.
    #[cold]
    pub(crate) fn refused(&mut self, text: String) {
        if self.notices_left > 0 {
            self.notices_left -= 1;
            self.notices.push_back((SecurityEvent::CertificateRefused, text));
        }
    }

    /// A session brings what cannot be read; told once for each.
    #[cold]
    pub(crate) fn unreadable(&mut self, session: &TransportSession, error: WireError) {
        if self.notices_left > 0 {
            self.notices_left -= 1;
            self.note(SecurityEvent::Unreadable, format!("{session}: {error}"));
        }
    }

    fn note(&mut self, event: SecurityEvent, text: String) {
        self.notices.push_back((event, text));
    }
}

impl Security {
    /// Reads all files again; returns what they hold, and what was wrong with the others.
    pub(crate) fn read_all(
        &mut self,
        config: &MessagingConfig,
        counters: &MessagingContext,
    ) -> (Vec<Loaded>, Vec<String>) {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for files in &mut self.watched {
            match files.read(config, counters) {
                Ok(loaded) => all.push(loaded),
                Err(error) => failed.push(error.to_string()),
            }
        }
        (all, failed)
    }

    /// Reads the files that have changed, if a look at them is due; returns what they hold.
    pub(crate) fn read_changed(
        &mut self,
        now: Nanos,
        config: &MessagingConfig,
        counters: &MessagingContext,
    ) -> Vec<Loaded> {
        if now >= self.look_at { self.look_at_files(now, config, counters) } else { Vec::new() }
    }

    #[cold]
    fn look_at_files(
        &mut self,
        now: Nanos,
        config: &MessagingConfig,
        counters: &MessagingContext,
    ) -> Vec<Loaded> {
        self.look_at = now + Duration::from_micros(config.security_reload_interval_us);
        let mut all = Vec::new();
        let mut watched = std::mem::take(&mut self.watched);
        for files in watched.iter_mut().filter_map(|files| files.files.has_changed().then_some(files)) {
            match files.read(config, counters) {
                Ok(loaded) => {
                    all.push(loaded);
                    self.note(SecurityEvent::Reloaded, files.names());
                    self.notices.extend(files.exposures());
                }
                Err(error) => self.note(SecurityEvent::ReloadFailed, error.to_string()),
            }
        }
        self.watched = watched;
        all
    }

    /// Tells what has happened.
    pub(crate) fn tell(&mut self, now: Nanos, handler: &mut impl Handler) {
        if now >= self.refill_at {
            (self.refill_at, self.notices_left) = (now + A_SECOND, NOTICES_MAX);
        }
        while let Some((event, text)) = self.notices.pop_front() {
            handler.on_security(event, &text);
        }
    }
}

impl Watched {
    /// Of the files with secrets, those that others can read.
    fn exposures(&self) -> impl Iterator<Item = (SecurityEvent, String)> {
        let secrets = self.secrets.iter().filter_map(|file| net::exposure_of(file));
        secrets.map(|text| (SecurityEvent::Exposed, text))
    }

    /// Reads the files again, and counts it.
    fn read(
        &mut self,
        config: &MessagingConfig,
        counters: &MessagingContext,
    ) -> Result<Loaded, ContextError> {
        let loaded = self.load(config);
        if loaded.is_ok() { &counters.security_reloads } else { &counters.security_reload_failures }.inc();
        loaded
    }

    fn load(&mut self, config: &MessagingConfig) -> Result<Loaded, ContextError> {
        self.files.mark_read();
        let key_file = || {
            let file = self.files.files().first().and_then(|file| file.to_str());
            file.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))
        };
        Ok(match self.what {
            What::RmKeys => Loaded::RmKeys(keys::load(key_file()?)?),
            What::RuKeys => Loaded::RuKeys(keys::load(key_file()?)?),
            What::RmPayloadKeys => Loaded::RmPayloadKeys(keys::load_payload_keys(key_file()?)?),
            What::RuPayloadKeys => Loaded::RuPayloadKeys(keys::load_payload_keys(key_file()?)?),
            What::ResolverKeys => Loaded::ResolverKeys(keys::load(key_file()?)?),
            // What has expired is not put in the place of what may work.
            What::Server => {
                let server = Tls::server(config)?;
                server.iter().try_for_each(|tls| tls.check_dates(UnixSeconds::now()))?;
                Loaded::Server(server)
            }
            What::Client => {
                let client = Tls::client(config)?;
                client.iter().try_for_each(|tls| tls.check_dates(UnixSeconds::now()))?;
                Loaded::Client(client)
            }
        })
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.files.files().iter().map(|file| file.display().to_string()).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::context::tests::lone_with;
    use crate::{Message, Wait};

    #[derive(Default)]
    struct Told(Vec<(SecurityEvent, String)>);

    impl Handler for Told {
        fn on_message(&mut self, _: &Message<'_>) {}
        fn on_security(&mut self, event: SecurityEvent, text: &str) {
            self.0.push((event, text.to_owned()));
        }
    }

    #[test]
    fn a_file_of_keys_that_others_can_read_is_told_when_it_is_loaded() {
        let folder = testkit::Folder::new();
        let file = folder.join("exposed");
        std::fs::write(&file, "1 00112233445566778899aabbccddeeff").expect("a writable place");
        for (mode, is_told) in [(0o600, false), (0o644, true)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, mode).expect("it is ours");
            let mut context = lone_with(78, |config| {
                config.wait = Wait::Block;
                config.lbtrm.authentication_key_file = file.to_str().map(str::to_owned);
                config.lbtru.authentication_key_file = file.to_str().map(str::to_owned);
            });
            let mut told = Told::default();
            context.on_wakeup(context.base.now, &mut told);
            let is_about_it = |(event, text): &(SecurityEvent, String)| {
                *event == SecurityEvent::Exposed && text.contains(&*file.to_string_lossy())
            };
            assert_eq!(told.0.iter().filter(|told| is_about_it(told)).count(), usize::from(is_told));
            assert_eq!(told.0.len(), usize::from(is_told), "{:?}", told.0);
        }
    }
}
