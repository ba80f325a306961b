//! Files that an operator names, read whole: keys, certificates, authorities, lists of users, configurations.
//!
//! They are read again while others wait for the thread, so a file that is no file, has no end or is far too long is an
//! error and not a wait.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// With this flag (`O_NONBLOCK`) the opening of a pipe does not wait for its other end.
pub const NONBLOCK: i32 = libc::O_NONBLOCK;

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read_if(path, max, |_| Ok(()))
}

/// The same of a file with a secret: one that everybody can write is refused.
///
/// # Errors
/// As [`read`], and that.
pub(crate) fn read_secret(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read_if(path, max, |found| match found.mode() & 0o7777 {
        mode if mode & 0o002 == 0 => Ok(()),
        mode => {
            let text = format!("everybody can write it (mode {mode:03o}), so what it holds is no secret");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    })
}

/// What is to be said of a file with a secret that others than its owner can read, or change: none if all is well, or it
/// cannot be looked at. Its group may read what is another user's: there is no other way then.
#[must_use]
pub fn exposure_of(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let mode = found.mode() & 0o7777;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    let of_group = if is_ours { 0o060 } else { 0o020 };
    let who = match mode {
        _ if mode & 0o006 != 0 => "everybody",
        _ if mode & of_group != 0 => "its group",
        _ => return None,
    };
    Some(format!("{} is a secret, and {who} can open it (mode {mode:03o}): chmod 600", path.display()))
}

fn read_if(
    path: &Path,
    max: u64,
    is_fit: impl FnOnce(&std::fs::Metadata) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    // Nobody waits for the other end of a pipe.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !found.is_file() {
        return Err(wrong("it is no regular file".to_owned()));
    }
    is_fit(&found)?;
    // It may grow while it is read.
    let mut bytes = Vec::with_capacity(found.len().min(max) as usize + 1);
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(wrong(format!("it has more than {max} bytes")));
    }
    Ok(bytes)
}

/// Opens a file, a terminal or a device to append to; the file is made if it is not there. Writes to what is no regular
/// file may be refused with `WouldBlock`.
///
/// # Errors
/// It cannot be opened, or is a named pipe, at which opening would wait for a reader.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let pipe = || io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe");
    let mut options = File::options();
    let file = match options.append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // A pipe without a reader.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Err(pipe()),
        opened => opened?,
    };
    if file.metadata()?.file_type().is_fifo() { Err(pipe()) } else { Ok(file) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_everybody_can_write_is_refused_and_one_that_others_can_read_is_told() {
        let folder = testkit::Folder::new();
        let file = folder.join("secret");
        std::fs::write(&file, b"secret").expect("a writable place");
        let cases = [
            (0o600, true, None),
            (0o400, true, None),
            (0o640, true, Some("its group")),
            (0o660, true, Some("its group")),
            (0o644, true, Some("everybody")),
            (0o602, false, Some("everybody")),
        ];
        for (mode, is_taken, who) in cases {
            let mode_of = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, mode_of).expect("it is ours");
            let taken = read_secret(&file, 100);
            assert_eq!(taken.is_ok(), is_taken, "{mode:o}: {taken:?}");
            let told = exposure_of(&file);
            assert_eq!(told.is_some(), who.is_some(), "{mode:o}: {told:?}");
            assert!(told.is_none_or(|text| text.contains(who.unwrap_or_default())), "{mode:o}");
        }
        std::fs::remove_file(&file).expect("made above");
        assert_eq!(exposure_of(&file), None);
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let directory = testkit::Folder::new();
        let (file, pipe) = (directory.join("file"), directory.join("pipe"));
        std::fs::write(&file, [7; 100]).expect("a writable place");
        assert_eq!(read(&file, 100).expect("as long as it may be"), [7; 100]);
        let error = |path: &Path, max| read(path, max).expect_err("refused").to_string();
        assert!(error(&file, 99).contains("more than 99 bytes"));
        // Of a gigabyte without a byte on the disk.
        File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("it is sparse");
        assert!(error(&file, 1 << 16).contains("more than 65536 bytes"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .expect("a writable place");
        for path in [&*pipe, &directory, Path::new("/dev/zero")] {
            assert!(error(path, 100).contains("no regular file"), "{}", path.display());
        }
        let reader = File::options().read(true).write(true).open(&pipe).expect("a pipe");
        assert!(open_to_append(&pipe).is_err_and(|error| error.to_string().contains("named pipe")));
        drop(reader);
        assert!(open_to_append(&pipe).is_err_and(|error| error.to_string().contains("named pipe")));
        open_to_append(&directory.join("new")).expect("it is made");
        assert_eq!(read(&directory.join("none"), 1).expect_err("not there").kind(), io::ErrorKind::NotFound);
    }
}
