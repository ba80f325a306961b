use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::head::{HEAD_BYTES, Head, RECORD_BYTES, SUM_BYTES};
use crate::{Clock, Record};

/// Records that are read at once.
const BLOCK: usize = 4096;

/// Why a file of observations cannot be read.
#[derive(Debug)]
pub enum FileError {
    /// The system refuses.
    Io(io::Error),
    /// What is in it is wrong: what, where, and what could be there.
    Wrong(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => error.fmt(f),
            FileError::Wrong(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FileError {}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        FileError::Io(error)
    }
}

/// Reads a file of observations from its beginning to its end, in 64 KiB of memory whatever its length.
///
/// Only after [`Reader::next`] has returned none is it known that the file is as it was written.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    head: Head,
    sum: crc32fast::Hasher,
    block: Vec<u8>,
    /// Of the block, bytes that were handed out.
    used: usize,
    /// Records that are not in a block yet, and those handed out.
    left: u64,
    given: u64,
}

impl Reader<File> {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// It cannot be opened, is no regular file, or its head or its length is wrong.
    pub fn open(path: &Path) -> Result<Reader<File>, FileError> {
        // Nobody waits for the other end of a pipe.
        let file = File::options().read(true).custom_flags(net::small_file::NONBLOCK).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(FileError::Wrong("it is no regular file".to_owned()));
        }
        Reader::new(file, found.len())
    }
}

impl<R: Read> Reader<R> {
    /// Reads `source`, which has `bytes` bytes.
    ///
    /// # Errors
    /// The source's, or its head or its length is wrong.
    pub fn new(mut source: R, bytes: u64) -> Result<Reader<R>, FileError> {
        let least = (HEAD_BYTES + SUM_BYTES) as u64;
        if bytes < least {
            return Err(FileError::Wrong(format!(
                "it has {bytes} bytes; a file of observations has {least} at least"
            )));
        }
        let mut head_bytes = [0; HEAD_BYTES];
        source.read_exact(&mut head_bytes)?;
        let head = Head::parse(&head_bytes).map_err(FileError::Wrong)?;
        if bytes != head.file_bytes() {
            let (records, want) = (head.records, head.file_bytes());
            let text =
                format!("it has {bytes} bytes; with the {records} records of its head it would have {want}");
            return Err(FileError::Wrong(text));
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head_bytes);
        let left = head.records;
        Ok(Reader { source, head, sum, block: Vec::new(), used: 0, left, given: 0 })
    }

    /// What the records are of.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next record; none behind the last one, if the check sum is right.
    ///
    /// # Errors
    /// The source's; a record's time is not between the start of the recorder and the writing of the file; the check sum is
    /// wrong.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record>, FileError> {
        if self.used == self.block.len() && !self.fill()? {
            return Ok(None);
        }
        let [id, ticks] = [0, 8].map(|at| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.block[self.used + at..self.used + at + 8]);
            u64::from_le_bytes(bytes)
        });
        if !(self.head.start.ticks..=self.head.end.ticks).contains(&ticks) {
            return Err(self.wrong_time(ticks));
        }
        self.used += RECORD_BYTES;
        self.given += 1;
        Ok(Some(Record { id, ticks }))
    }

    #[cold]
    fn wrong_time(&self, ticks: u64) -> FileError {
        let (number, from, to) = (self.given, self.head.start.ticks, self.head.end.ticks);
        let at = HEAD_BYTES as u64 + number * RECORD_BYTES as u64 + 8;
        FileError::Wrong(format!(
            "byte {at}: record {number} is of time {ticks}; the recorder lived from {from} to {to}"
        ))
    }

    /// Reads the next block. False behind the last one.
    #[cold]
    fn fill(&mut self) -> Result<bool, FileError> {
        self.used = 0;
        let records = self.left.min(BLOCK as u64);
        self.block.resize(records as usize * RECORD_BYTES, 0);
        if records > 0 {
            self.source.read_exact(&mut self.block)?;
            self.sum.update(&self.block);
            self.left -= records;
            return Ok(true);
        }
        if self.given == self.head.records {
            let mut sum = [0; SUM_BYTES];
            self.source.read_exact(&mut sum)?;
            let (is, want) = (u32::from_le_bytes(sum), self.sum.clone().finalize());
            if is != want {
                let text = format!(
                    "its check sum is {is:08x}, of what is in it {want:08x}: it was changed or damaged"
                );
                return Err(FileError::Wrong(text));
            }
            // The end is told once more, not read.
            self.given += 1;
        }
        Ok(false)
    }
}

impl Head {
    /// What makes its times doubtful though the file is whole; none if nothing does.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        let [start, end] = &self.clock_sources;
        (self.clock == Clock::Tsc && end != "tsc").then(|| {
            format!("the kernel left the TSC during the recording ({start} at its start, {end} at its end)")
        })
    }
}
