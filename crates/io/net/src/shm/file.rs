//! The file of a ring, which its source owns, found by name.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::layout::{CONTROL_BYTES, Geometry, Identity};
use super::region::{Mapping, Region};
use super::wake;
use crate::owned_file;

/// The byte whose lock the owner of a slot holds; the first is the source's.
pub(super) fn slot_lock(index: usize) -> u64 {
    1 + index as u64
}

/// What a ring is called: `LBTIPC_<session id>_<transport id>`, the one in hexadecimal, the other in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionName {
    /// Tells contexts apart; a new source takes a new one.
    pub session_id: u32,
    /// Tells the sessions of a context apart.
    pub transport_id: u16,
}

const PREFIX: &str = "LBTIPC_";

impl SessionName {
    /// Where it lies in `directory`.
    #[must_use]
    pub fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.to_string())
    }

    fn parse(name: &str) -> Option<SessionName> {
        let (session, transport) = name.strip_prefix(PREFIX)?.split_once('_')?;
        let session_id = u32::from_str_radix(session, 16).ok()?;
        let transport_id = transport.parse().ok()?;
        let parsed = SessionName { session_id, transport_id };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:x}_{}", self.session_id, self.transport_id)
    }
}

/// Makes the file of a ring and its memory. It gets its name when everything in it is in place and the lock
/// of the source is held, so nobody ever sees half of it, and it vanishes with its maker before.
///
/// `access`: permissions, and the group if it is not to be the system's choice.
pub(super) fn create(
    path: &Path,
    identity: &Identity,
    access: (u32, Option<u32>),
) -> io::Result<(File, Region)> {
    let named = |what: &str, e: io::Error| {
        io::Error::new(e.kind(), format!("cannot {what} shared memory {}: {e}", path.display()))
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let file = owned_file::create_unnamed(directory, 0o600).map_err(|e| named("make", e))?;
    let bytes = CONTROL_BYTES as u64 + identity.ring_bytes;
    // Room that is not there is told now, and not by a signal when it is first written.
    fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|e| named("get room for", e.into()))?;
    std::os::unix::fs::FileExt::write_all_at(&file, &identity.emit(), 0).map_err(|e| named("write", e))?;
    let region = map(&file, identity, true).map_err(|e| named("map", e))?;
    // Before anybody can open it.
    owned_file::set_access(&file, access.0, access.1).map_err(|e| named("set the access of", e))?;
    owned_file::link(&file, path).map_err(|e| named("name", e))?;
    Ok((file, region))
}

/// Maps the file of a ring that was checked.
pub(super) fn map(file: &File, identity: &Identity, is_source: bool) -> io::Result<Region> {
    let geometry = Geometry::new(identity.ring_bytes).map_err(io::Error::other)?;
    let control = Mapping::new(file, 0, CONTROL_BYTES, true)?;
    let ring = Mapping::new(file, CONTROL_BYTES as u64, geometry.ring_bytes() as usize, is_source)?;
    Ok(Region::mapped(control, ring, geometry))
}

/// Removes what dead sources and receivers have left in `directory`. Returns how many rings that were.
///
/// Every source does so when it is made; receivers remove the ring whose source they see die. Files that this
/// user may not write are left alone.
///
/// # Errors
/// The directory cannot be read.
pub fn clean(directory: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = entry.path();
        if SessionName::parse(name).is_some() {
            // What another user's is stays.
            removed += usize::from(owned_file::reclaim(&path).unwrap_or(false));
        } else if let Some(session) = wake::session_of(name).and_then(SessionName::parse)
            && !session.path(directory).exists()
        {
            // As above.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = SessionName { session_id: 0xbeef, transport_id: 20 };
        assert_eq!(name.to_string(), "LBTIPC_beef_20");
        assert_eq!(SessionName::parse("LBTIPC_beef_20"), Some(name));
        for other in ["LBTIPC_beef", "LBTIPC_BEEF_20", "LBTIPC_beef_020", "LBTIPC_beef_20.w0", "x", ""] {
            assert_eq!(SessionName::parse(other), None, "{other}");
        }
    }
}
