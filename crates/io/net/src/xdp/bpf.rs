//! The few commands of bpf(2) that are needed: maps, one program, its link to an interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::fork::Unshared;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;

const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum MapKind {
    Hash = 1,
    Array = 2,
    Sockets = 17,
}

/// A table that programs in the kernel look into, with keys `K` and values `V` of plain bytes.
#[derive(Debug)]
pub(super) struct Map<K, V> {
    fd: Unshared,
    types: std::marker::PhantomData<(K, V)>,
}

/// Types without padding, of which any bits are a value: what goes into maps.
///
/// # Safety
/// The type has no padding and every pattern of bits is a value of it.
pub(super) unsafe trait Plain: Copy + Default {}

// SAFETY: a number has no padding, any bits are one.
unsafe impl Plain for u32 {}
// SAFETY: as for u32.
unsafe impl Plain for u64 {}
// SAFETY: an array of bytes has no padding, any bits are one.
unsafe impl Plain for [u8; 8] {}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C, align(8))]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C, align(8))]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

impl<K: Plain, V: Plain> Map<K, V> {
    pub(super) fn new(kind: MapKind, entries_max: u32) -> io::Result<Map<K, V>> {
        let request = MapCreate {
            kind: kind as u32,
            key_bytes: size_of::<K>() as u32,
            value_bytes: size_of::<V>() as u32,
            entries_max,
            flags: 0,
        };
        // SAFETY: the request holds no pointers.
        let fd = unsafe { descriptor(MAP_CREATE, &request)? };
        Ok(Map { fd, types: std::marker::PhantomData })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The map is full (`E2BIG`).
    pub(super) fn insert(&self, key: K, value: V) -> io::Result<()> {
        // SAFETY: key and value are read in the sizes that the map was made for, and outlive the call.
        unsafe { self.element(MAP_UPDATE, &raw const key, (&raw const value).cast_mut()) }
    }

    pub(super) fn remove(&self, key: K) -> io::Result<()> {
        // SAFETY: the key is read in the size that the map was made for; the value is not used.
        unsafe { self.element(MAP_DELETE, &raw const key, std::ptr::null_mut()) }
    }

    pub(super) fn get(&self, key: K) -> io::Result<V> {
        let mut value = V::default();
        // SAFETY: the kernel writes a value of the size that the map was made for into a local of that type.
        unsafe { self.element(MAP_LOOKUP, &raw const key, &raw mut value)? };
        Ok(value)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// # Safety
    /// The key is readable, the value readable or writable as the command needs, in the sizes of the map.
    unsafe fn element(&self, command: libc::c_long, key: *const K, value: *mut V) -> io::Result<()> {
        let request = MapElement {
            map: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: key as u64,
            value: value as u64,
            flags: 0,
        };
        // SAFETY: what the caller promises.
        unsafe { bpf(command, &request).map(drop) }
    }
}

/// One instruction as the kernel reads it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination in the low half, source in the high half (little-endian layout of the bit field).
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Loads an XDP program.
///
/// # Errors
/// The rights are missing, or the verifier refuses it; what the verifier says is in the error.
pub(super) fn load_xdp(name: &str, code: &[Instruction]) -> io::Result<Unshared> {
    let mut log = vec![0u8; 32 << 10];
    let load = |log: &mut [u8]| {
        let mut request = ProgramLoad {
            kind: PROGRAM_TYPE_XDP,
            instruction_count: code.len() as u32,
            instructions: code.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kernel_version: 0,
            flags: 0,
            name: [0; 16],
            interface: 0,
            attach_type: ATTACH_TYPE_XDP,
        };
        let name_len = name.len().min(request.name.len() - 1);
        request.name[..name_len].copy_from_slice(&name.as_bytes()[..name_len]);
        // SAFETY: the instructions and the licence are read, the log is written up to the length given; all
        // outlive the call.
        unsafe { descriptor(PROGRAM_LOAD, &request) }
    };
    load(&mut []).or_else(|refusal| match refusal.raw_os_error() {
        Some(libc::EPERM) => Err(refusal),
        // Once more with a log, which says why.
        _ => load(&mut log).map_err(|e| {
            let said = String::from_utf8_lossy(&log);
            let said = said.trim_end_matches(['\0', '\n']).lines().last().unwrap_or_default();
            io::Error::new(e.kind(), format!("{e} (verifier: {said})"))
        }),
    })
}

/// A program on an interface. It comes off when this is dropped, at the latest with the process.
#[derive(Debug)]
pub(super) struct Link(Unshared);

impl Link {
    /// Attaches an XDP program to an interface.
    pub(super) fn attach_xdp(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<Link> {
        let program = program.as_raw_fd() as u32;
        let request = LinkCreate { program, interface, attach_type: ATTACH_TYPE_XDP, flags };
        // SAFETY: the request holds no pointers.
        unsafe { descriptor(LINK_CREATE, &request).map(Link) }
    }
}

impl Drop for Link {
    /// Closing alone would leave it attached while a child between fork and exec has a copy.
    fn drop(&mut self) {
        let request = self.0.as_raw_fd() as u32;
        // SAFETY: the request is the descriptor alone. An interface that is gone has no program to detach.
        let _ = unsafe { bpf(LINK_DETACH, &request) };
    }
}

/// # Safety
/// The request is of the layout that the command reads, and its pointers are valid for it.
unsafe fn descriptor<T>(command: libc::c_long, request: &T) -> io::Result<Unshared> {
    // SAFETY: what the caller promises.
    let fd = unsafe { bpf(command, request)? };
    // SAFETY: the commands that this is used for return a new descriptor, which nobody else has.
    Ok(Unshared::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// # Safety
/// As for [`descriptor`].
unsafe fn bpf<T>(command: libc::c_long, request: &T) -> io::Result<RawFd> {
    let size = size_of::<T>() as libc::c_long;
    // SAFETY: the kernel reads `size` bytes of the request, and what it points to as the caller promises.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(request), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}
