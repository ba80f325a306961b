//! Options of sockets, as plain C values.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option.
pub(super) fn set_option<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: pointer and length describe a value that outlives the call. The memory that `XDP_UMEM_REG`
    // names is pinned by the kernel, so that it may be unmapped at any time.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of AF_XDP into a plain C struct.
pub(super) fn get_option<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `len` bytes, numbers alone, into a value of that size.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, &raw mut len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
