//! Names of users and groups of this host.

use std::ffi::{CStr, CString};
use std::io;

/// The number of a group: of that name, or the number itself.
///
/// # Errors
/// There is no such group; the error names it. Or it cannot be looked up.
pub fn group_id(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{name}`"));
    let text = CString::new(name).map_err(|_| unknown())?;
    let mut buffer = vec![0; 1_024];
    loop {
        // SAFETY: a structure of pointers and integers, for which zero is a value.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: a C string, room for the structure, and a buffer with its length.
        let error = unsafe {
            libc::getgrnam_r(text.as_ptr(), &raw mut group, buffer.as_mut_ptr(), buffer.len(), &raw mut found)
        };
        match error {
            0 if found.is_null() => return Err(unknown()),
            0 => return Ok(group.gr_gid),
            // A group of many members.
            libc::ERANGE if buffer.len() < BUFFER_MAX_BYTES => buffer.resize(2 * buffer.len(), 0),
            error => {
                let error = io::Error::from_raw_os_error(error);
                return Err(io::Error::new(error.kind(), format!("cannot look up group `{name}`: {error}")));
            }
        }
    }
}

/// Most bytes of the members of a group.
const BUFFER_MAX_BYTES: usize = 1 << 20;

/// A user as people know it: `1000 (ann)`, or the number alone.
#[must_use]
pub fn user(number: u32) -> String {
    let mut buffer = [0; 1_024];
    // SAFETY: a structure of pointers and integers, for which zero is a value.
    let mut user: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: room for the structure, and a buffer with its length.
    let error =
        unsafe { libc::getpwuid_r(number, &raw mut user, buffer.as_mut_ptr(), buffer.len(), &raw mut found) };
    if error != 0 || found.is_null() || user.pw_name.is_null() {
        return number.to_string();
    }
    // SAFETY: a C string in `buffer`.
    let name = unsafe { CStr::from_ptr(user.pw_name) };
    format!("{number} ({})", name.to_string_lossy())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn groups_and_users_are_known_by_name_and_number() {
        assert_eq!(group_id("root").expect("every host has it"), 0);
        assert_eq!(group_id("4711").expect("a number"), 4_711);
        assert!(group_id("no such group").unwrap_err().to_string().contains("no such group"));
        assert_eq!(user(0), "0 (root)");
        assert_eq!(user(4_000_000_000), "4000000000");
    }
}
