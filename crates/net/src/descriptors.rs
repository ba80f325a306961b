//! How many descriptors, so connections, the process may have.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).expect("a limit may be lowered");
        assert_eq!(raise_limit().expect("up to the maximum needs no rights"), maximum.unwrap_or(u64::MAX));
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        assert_eq!(raise_limit().expect("nothing is left to do"), maximum.unwrap_or(u64::MAX));
    }
}
