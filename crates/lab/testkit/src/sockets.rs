use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Has the kernel refuse segmentation offload to a UDP socket, as it does where a path or a driver cannot do
/// it. It needs neither hosts nor rights.
///
/// # Errors
/// The kernel refuses.
pub fn refuse_offload(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // Offload makes the checksums of what it cuts, and is refused where there are to be none.
    //
    // SAFETY: the pointer and the length describe `on`, which outlives the call; the descriptor is open, as
    // it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
