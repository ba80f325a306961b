//! How many descriptors, so connections, the process may have.

use std::error::Error;
use std::fmt;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest that the system allows this process without rights, and returns it;
/// `u64::MAX` where there is none. Systems commonly begin with 1,024, for programs that use `select`.
///
/// # Errors
/// The kernel refuses.
pub fn raise_limit() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}

/// How many the process may have now; `u64::MAX` where there is no limit.
#[must_use]
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Connections that strangers open may have descriptors below this number. The others are kept for the rest of the
/// process: its admin port, its log, its own connections, files that it reads again.
#[must_use]
pub fn share_of_strangers() -> u64 {
    share_of(limit())
}

fn share_of(limit: u64) -> u64 {
    limit - (limit / RESERVED_PART).clamp(RESERVED_MIN, RESERVED_MAX).min(limit)
}

/// So many of the descriptors are kept, within the bounds below.
const RESERVED_PART: u64 = 8;
const RESERVED_MIN: u64 = 16;
const RESERVED_MAX: u64 = 256;

/// Whether an error says that the process, or the system, is out of descriptors or memory, which may pass.
#[must_use]
pub fn are_exhausted(error: &io::Error) -> bool {
    let explained = error.get_ref().and_then(|inner| inner.downcast_ref::<Explained>());
    let error = explained.map_or(error, |explained| &explained.error);
    let errors = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
    error.raw_os_error().is_some_and(|code| errors.contains(&code))
        || error.kind() == io::ErrorKind::OutOfMemory
}

/// The error with what was attempted before it; [`are_exhausted`] still knows what it is.
pub(crate) fn explain(error: io::Error, what: String) -> io::Error {
    io::Error::new(error.kind(), Explained { what, error })
}

#[derive(Debug)]
struct Explained {
    what: String,
    error: io::Error,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.error)
    }
}

impl Error for Explained {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_descriptors_is_known_whatever_was_attempted() {
        let error = |code| explain(io::Error::from_raw_os_error(code), "open it".to_owned());
        assert!(
            are_exhausted(&error(libc::EMFILE)) && are_exhausted(&io::Error::from_raw_os_error(libc::ENFILE))
        );
        assert!(!are_exhausted(&error(libc::ECONNREFUSED)) && !are_exhausted(&io::Error::other("x")));
        assert!(error(libc::EMFILE).to_string().starts_with("cannot open it: "));
    }

    #[test]
    fn some_descriptors_are_never_given_to_strangers() {
        let shares = [(0, 0), (10, 0), (100, 84), (1024, 896), (20_000, 19_744), (u64::MAX, u64::MAX - 256)];
        shares.iter().for_each(|(limit, share)| assert_eq!(share_of(*limit), *share));
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).expect("a limit may be lowered");
        assert_eq!(raise_limit().expect("up to the maximum needs no rights"), maximum.unwrap_or(u64::MAX));
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        assert_eq!(raise_limit().expect("nothing is left to do"), maximum.unwrap_or(u64::MAX));
    }
}
