use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Record;
use crate::head::{HEAD_BYTES, Head, RECORD_BYTES, SUM_BYTES};

/// Words that are written at once.
const BLOCK_WORDS: usize = 64 << 10;

/// Writes a file whole or not at all: under another name beside it, which it gets when everything is on the disk.
pub(crate) fn write(
    path: &Path,
    head: &Head,
    words: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> io::Result<()> {
    let unfinished = Unfinished::beside(path)?;
    let mut file = File::options().write(true).create_new(true).open(&unfinished.0)?;
    let total = head.file_bytes();
    let head = head.encode();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head);
    file.write_all(&head)?;
    let mut written = HEAD_BYTES as u64;
    let mut bytes = Vec::with_capacity(BLOCK_WORDS * 8);
    for block in words.chunks(BLOCK_WORDS) {
        bytes.clear();
        block.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        sum.update(&bytes);
        file.write_all(&bytes)?;
        written += bytes.len() as u64;
        progress(written, total);
    }
    file.write_all(&sum.finalize().to_le_bytes())?;
    file.sync_all()?;
    progress(written + SUM_BYTES as u64, total);
    fs::rename(&unfinished.0, path)
}

/// A file as it would be written, from what is in it: for files of another source than a recorder, as a test that makes its own
/// times.
///
/// # Errors
/// The head does not fit the records, or its clocks are none: the text says what.
pub fn encode(head: &Head, records: &[Record]) -> Result<Vec<u8>, String> {
    if head.records != records.len() as u64 {
        return Err(format!("{} records, and {} in the head", records.len(), head.records));
    }
    let bytes = head.encode();
    Head::parse(&bytes)?;
    let mut file = Vec::with_capacity(HEAD_BYTES + records.len() * RECORD_BYTES + SUM_BYTES);
    file.extend_from_slice(&bytes);
    for record in records {
        file.extend_from_slice(&record.id.to_le_bytes());
        file.extend_from_slice(&record.ticks.to_le_bytes());
    }
    let sum = crc32fast::hash(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    Ok(file)
}

/// A file that is not whole yet; it goes with this value, unless it has got its name.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(path: &Path) -> io::Result<Unfinished> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = path.file_name().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()))
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        Ok(Unfinished(path.with_file_name(hidden)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // One that was renamed is not there any more.
        let _ = fs::remove_file(&self.0);
    }
}
