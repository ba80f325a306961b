//! Files that are there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is not whole yet, under a hidden name beside its own. It goes with this value, unless it has got its name.
#[derive(Debug)]
pub struct Unfinished {
    hidden: PathBuf,
    path: PathBuf,
}

impl Unfinished {
    /// Begins a file; one that is there stays until [`Unfinished::finish`].
    ///
    /// # Errors
    /// The path names no file; or it is there and is no regular file: what is renamed over is gone, and a device or a pipe
    /// would be a file from then on; or the hidden one cannot be made.
    pub fn create(path: &Path) -> io::Result<(Unfinished, File)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let wrong =
            |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{} {what}", path.display()));
        let name = path.file_name().ok_or_else(|| wrong("names no file"))?;
        if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(wrong("is there and no regular file"));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        let unfinished = Unfinished { hidden: path.with_file_name(hidden), path: path.to_owned() };
        let file = File::options().write(true).create_new(true).open(&unfinished.hidden)?;
        Ok((unfinished, file))
    }

    /// The file gets its name, in place of one that has it.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.hidden, &self.path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // One that was renamed is not there any more.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`Unfinished::create`], or it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (unfinished, mut file) = Unfinished::create(path)?;
    file.write_all(bytes)?;
    unfinished.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_stays() {
        let folder = testkit::Folder::new();
        let path = folder.join("report");
        write(&path, b"first").expect("a writable place");
        let (unfinished, mut file) = Unfinished::create(&path).expect("beside the first");
        file.write_all(b"second, not whole").expect("written");
        drop(unfinished);
        assert_eq!(fs::read(&path).expect("there"), b"first");
        write(&path, b"second").expect("a writable place");
        assert_eq!(fs::read(&path).expect("there"), b"second");
        assert_eq!(fs::read_dir(&*folder).expect("ours").count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let folder = testkit::Folder::new();
        std::os::unix::fs::symlink("/dev/null", folder.join("link")).expect("ours");
        for path in
            [folder.join("link"), folder.to_path_buf(), PathBuf::from("/dev/null"), PathBuf::from("..")]
        {
            let error = write(&path, b"x").expect_err("it is none").to_string();
            assert!(error.contains("no regular file") || error.contains("names no file"), "{error}");
        }
        assert!(fs::symlink_metadata(folder.join("link")).expect("it stays").is_symlink());
    }
}
