//! The keys of signed topic resolution, read again when their file changes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lbt::authentication::Keys;
use net::authentication::HmacSha256;
use net::{SecretKeys, WatchedFiles};
use tracing::{info, warn};
use units::Nanos;

/// The file of the keys, if there is one.
pub(crate) struct KeyFile {
    file: Option<(String, WatchedFiles)>,
    look_at: Nanos,
}

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

impl KeyFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be used; the error names it.
    pub(crate) fn open(path: Option<&str>) -> io::Result<(KeyFile, Option<Keys>)> {
        let Some(path) = path else { return Ok((KeyFile { file: None, look_at: Nanos::NEVER }, None)) };
        let files = WatchedFiles::new(vec![PathBuf::from(path)]);
        let keys = load(path)?;
        Ok((KeyFile { file: Some((path.to_owned(), files)), look_at: Nanos::ZERO }, Some(keys)))
    }

    /// The keys from now on, if the file has changed. One that cannot be used is logged, and the keys before
    /// stay.
    pub(crate) fn refresh(&mut self, now: Nanos) -> Option<Keys> {
        let (path, files) = self.file.as_mut().filter(|_| now >= self.look_at)?;
        self.look_at = now + INTERVAL;
        if !files.has_changed() {
            return None;
        }
        files.mark_read();
        match load(path) {
            Ok(keys) => {
                info!(file = %path, "keys of topic resolution were read again");
                Some(keys)
            }
            Err(error) => {
                warn!(%error, "the keys of topic resolution in use are kept, the new ones are no good");
                None
            }
        }
    }

    /// When [`KeyFile::refresh`] is worth a call.
    pub(crate) fn next_wakeup(&self) -> Nanos {
        self.look_at
    }
}

fn load(path: &str) -> io::Result<Keys> {
    let SecretKeys { signing, accepted } = SecretKeys::read(path, HmacSha256::coder)?;
    Ok(Keys::new(signing, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_once_it_stays_and_a_bad_one_changes_nothing() {
        let folder = testkit::Folder::new();
        let path = folder.join("resolver-keys");
        let put = |text: &str| std::fs::write(&path, text).expect("a writable place");
        let secret = "000102030405060708090a0b0c0d0e0f";
        put(&format!("1 {secret}"));
        let (mut file, keys) = KeyFile::open(path.to_str()).expect("a key");
        assert_eq!(keys.map(|keys| keys.signing.id), Some(1));
        let mut now = Nanos::ZERO;
        let mut look = || {
            now += INTERVAL;
            file.refresh(now).map(|keys| keys.signing.id)
        };
        assert_eq!([look(), look()], [None, None], "nothing has changed");
        put(&format!("22 {secret}"));
        assert_eq!([look(), look(), look()], [None, Some(22), None]);
        put("3 no secret");
        assert_eq!([look(), look(), look()], [None, None, None]);
        put(&format!("333 {secret}"));
        assert_eq!([look(), look()], [None, Some(333)]);
        assert!(KeyFile::open(Some("/no/such/file")).is_err_and(|e| e.to_string().contains("/no/such/file")));
    }
}
