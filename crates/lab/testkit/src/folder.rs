use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder of one owner, which removes it with all that is in it. It is the path of the folder.
///
/// ```
/// # use tickcast_testkit as testkit;
/// let folder = testkit::Folder::new();
/// let file = folder.put("keys", "secret");
/// assert_eq!(file, folder.join("keys"));
/// ```
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder under the system's folder for temporary files.
    ///
    /// # Panics
    /// It cannot be made. So do the other functions.
    #[must_use]
    pub fn new() -> Folder {
        Folder::within(&std::env::temp_dir())
    }

    /// A new folder in memory, where shared memory lies.
    #[must_use]
    pub fn in_memory() -> Folder {
        Folder::within(Path::new("/dev/shm"))
    }

    fn within(parent: &Path) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("tickcast-test-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => {
                    // Whatever the umask: other users look into it in some tests.
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
                    return Folder(path);
                }
                // Left by a process that was killed and had this number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// Writes a file; its path. It is written beside and renamed, as tools that replace keys do.
    pub fn put(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> PathBuf {
        let (file, beside) = (self.0.join(name.as_ref()), self.0.join(".beside"));
        fs::write(&beside, content).expect("a temporary folder can be written to");
        fs::rename(&beside, &file).expect("a temporary folder can be written to");
        file
    }

    /// The names of what is in it, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is ours");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("it is ours").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The path of a file as text.
    #[must_use]
    pub fn text(&self, name: impl AsRef<Path>) -> String {
        self.0.join(name).to_str().expect("folders of tests have such names").to_owned()
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test may have removed it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_owners_and_goes_with_it() {
        let (one, other) = (Folder::new(), Folder::new());
        assert_ne!(*one, *other);
        let file = one.put("keys", "old");
        assert_eq!((one.put("keys", "new"), one.text("keys")), (file.clone(), file.display().to_string()));
        assert_eq!(
            (&*fs::read(&file).expect("it is there"), one.names()),
            (&b"new"[..], vec!["keys".to_owned()])
        );
        fs::create_dir(one.join("a folder")).expect("ours");
        assert_eq!(one.names(), ["a folder", "keys"]);
        let path = one.to_path_buf();
        drop(one);
        assert!(!path.exists() && other.exists());
        let memory = Folder::in_memory();
        assert!(memory.starts_with("/dev/shm") && memory.is_dir());
    }
}
