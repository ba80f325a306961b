use std::io::{self, Write};
use std::path::Path;

use net::whole_file::Unfinished;

use crate::Record;
use crate::head::{HEAD_BYTES, Head, RECORD_BYTES, SUM_BYTES};

/// Words that are written at once.
const BLOCK_WORDS: usize = 64 << 10;

/// Writes a file whole or not at all: under another name beside it, and its own when everything is on the disk.
pub(crate) fn write(
    path: &Path,
    head: &Head,
    words: &[u64],
    mut progress: impl FnMut(u64, u64),
) -> io::Result<()> {
    let (unfinished, mut file) = Unfinished::create(path)?;
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
    unfinished.finish()
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
