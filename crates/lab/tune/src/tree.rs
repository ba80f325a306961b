//! The one place that reads the machine: files below a root, and its network cards.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use net::card::{self, Coalescing, Rings};

/// What was read, or why it could not be.
pub type Told<T> = Result<T, String>;

/// Longest file that is read, and most entries of a folder.
const BYTES_MAX: u64 = 4 << 20;
const ENTRIES_MAX: usize = 65_536;

/// Network cards by the names of their interfaces.
pub trait Cards {
    /// The lengths of an interface's rings.
    ///
    /// # Errors
    /// It has none to speak of.
    fn rings(&self, interface: &str) -> io::Result<Rings>;
    /// Sets them.
    ///
    /// # Errors
    /// The card or the kernel refuses.
    fn set_rings(&self, interface: &str, rx: u32, tx: u32) -> io::Result<()>;
    /// How long a card holds interrupts back.
    ///
    /// # Errors
    /// It does not do that.
    fn coalescing(&self, interface: &str) -> io::Result<Coalescing>;
    /// Sets it.
    ///
    /// # Errors
    /// The card or the kernel refuses.
    fn set_coalescing(&self, interface: &str, wanted: Coalescing) -> io::Result<()>;
}

/// Those of this machine.
#[derive(Debug)]
struct Own;

impl Cards for Own {
    fn rings(&self, interface: &str) -> io::Result<Rings> {
        card::rings(interface)
    }

    fn set_rings(&self, interface: &str, rx: u32, tx: u32) -> io::Result<()> {
        card::set_rings(interface, rx, tx)
    }

    fn coalescing(&self, interface: &str) -> io::Result<Coalescing> {
        card::coalescing(interface)
    }

    fn set_coalescing(&self, interface: &str, wanted: Coalescing) -> io::Result<()> {
        card::set_coalescing(interface, wanted)
    }
}

/// Those of a tree of files: none.
#[derive(Debug)]
struct Files;

fn no_cards<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a tree of files has no cards"))
}

impl Cards for Files {
    fn rings(&self, _: &str) -> io::Result<Rings> {
        no_cards()
    }

    fn set_rings(&self, _: &str, _: u32, _: u32) -> io::Result<()> {
        no_cards()
    }

    fn coalescing(&self, _: &str) -> io::Result<Coalescing> {
        no_cards()
    }

    fn set_coalescing(&self, _: &str, _: Coalescing) -> io::Result<()> {
        no_cards()
    }
}

/// A machine: the root below which `/proc`, `/sys` and `/dev` are, and its cards.
pub struct Tree {
    root: PathBuf,
    cards: Box<dyn Cards>,
}

impl Tree {
    /// This machine, or a tree of files that looks like one, without network cards.
    #[must_use]
    pub fn at(root: &Path) -> Tree {
        let cards: Box<dyn Cards> = if root == Path::new("/") { Box::new(Own) } else { Box::new(Files) };
        Tree { root: root.to_owned(), cards }
    }

    /// With these cards.
    #[must_use]
    pub fn with_cards(self, cards: Box<dyn Cards>) -> Tree {
        Tree { cards, ..self }
    }

    /// Whether this is the machine itself: only that can be measured.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Its network cards.
    #[must_use]
    pub fn cards(&self) -> &dyn Cards {
        &*self.cards
    }

    /// Where a path of the machine is.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file, without white space at its ends.
    ///
    /// # Errors
    /// Why it cannot be read, with its path.
    pub fn text(&self, path: &str) -> Told<String> {
        self.read(path).map_err(|error| told(path, &error))
    }

    /// The same with the system's error.
    ///
    /// # Errors
    /// It cannot be read, is no text, or is longer than any setting.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        File::open(self.path(path))?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it has more than {BYTES_MAX} bytes"),
            ));
        }
        Ok(text.trim().to_owned())
    }

    /// Reads a file that holds a number.
    ///
    /// # Errors
    /// As [`Tree::text`]; it holds something else.
    pub fn number<N: std::str::FromStr>(&self, path: &str) -> Told<N> {
        let text = self.text(path)?;
        text.parse().map_err(|_| format!("{path} has no number: {:?}", shorten(&text)))
    }

    /// The names in a folder, sorted, numbers by their value.
    ///
    /// # Errors
    /// Why it cannot be read, with its path.
    pub fn names(&self, path: &str) -> Told<Vec<String>> {
        let entries = fs::read_dir(self.path(path)).map_err(|error| told(path, &error))?;
        let names = entries.take(ENTRIES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_by_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
        Ok(names)
    }

    /// Where a symbolic link leads.
    #[must_use]
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok()?.into_os_string().into_string().ok()
    }

    /// Whether something is there.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether the caller may write a file.
    #[must_use]
    pub fn may_write(&self, path: &str) -> bool {
        rustix::fs::access(self.path(path), rustix::fs::Access::WRITE_OK).is_ok()
    }

    /// Writes a setting into its file, which must be there.
    ///
    /// # Errors
    /// It cannot be opened, or the kernel refuses the value.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        // In one call: for the kernel each is a value of its own.
        File::options().write(true).truncate(true).open(self.path(path))?.write_all(value.as_bytes())
    }
}

fn told(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {path} here"),
        io::ErrorKind::PermissionDenied => format!("{path} may not be read by this user"),
        _ => format!("{path}: {error}"),
    }
}

/// The beginning of a text from outside, for a message.
pub(crate) fn shorten(text: &str) -> String {
    let begin: String = text.chars().take(60).collect();
    if begin.len() < text.len() { format!("{begin}...") } else { begin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_says_why() {
        let folder = testkit::Folder::new();
        folder.put("number", "12\n");
        folder.put("word", "twelve");
        folder.put("binary", [0xff, 0xfe]);
        let tree = Tree::at(&folder);
        assert_eq!(tree.number::<u32>("/number"), Ok(12));
        assert_eq!(tree.number::<u32>("/word"), Err("/word has no number: \"twelve\"".to_owned()));
        assert_eq!(tree.text("/none"), Err("there is no /none here".to_owned()));
        assert!(tree.text("/binary").is_err_and(|said| said.contains("UTF-8")));
        assert!(tree.write("/none", "1").is_err(), "no file is made");
        assert!(!tree.is_own() && tree.cards().rings("eth0").is_err());
    }
}
