//! The file of saved images.
//!
//! Numbers are little endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `TCKSAVE1` |
//! | 8 | when it was begun, milliseconds since 1970 |
//! | 4 | length of a message, not 0 |
//! | so many | the message: RWF, first the directory, then refreshes of items |
//! | | further messages |
//! | 4 | 0 |
//! | 8 | how many messages there were |
//! | 4 | CRC-32 (IEEE 802.3) of all before |

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

const MAGIC: &[u8; 8] = b"TCKSAVE1";
/// So many bytes are alike in all versions.
const MAGIC_COMMON: usize = 7;
/// Longer messages are no images: those come in parts.
const MESSAGE_MAX: u32 = 64 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Puts a message at the end of what is to be written.
pub(super) fn put(chunk: &mut Vec<u8>, message: &[u8]) {
    if (1..=MESSAGE_MAX as usize).contains(&message.len()) {
        chunk.extend_from_slice(&(message.len() as u32).to_le_bytes());
        chunk.extend_from_slice(message);
    }
}

/// A file that is being written.
pub(super) struct Writing<W> {
    to: W,
    sum: crc32fast::Hasher,
    written: u64,
    max: u64,
}

impl<W: Write> Writing<W> {
    /// Begins one of at most `max` bytes.
    pub(super) fn begin(to: W, max: u64, unix_ms: u64) -> io::Result<Writing<W>> {
        let mut writing = Writing { to, sum: crc32fast::Hasher::new(), written: 0, max };
        writing.append(MAGIC)?;
        writing.append(&unix_ms.to_le_bytes())?;
        Ok(writing)
    }

    /// Appends what [`put`] has made.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        if self.written > self.max {
            let text = format!(
                "it would be longer than {} bytes (source_distributor.saved_images.bytes_max)",
                self.max
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        self.sum.update(bytes);
        self.to.write_all(bytes)
    }

    /// Ends it; returns what was written to, and how many bytes.
    pub(super) fn end(mut self, messages: u64) -> io::Result<(W, u64)> {
        self.append(&0u32.to_le_bytes())?;
        self.append(&messages.to_le_bytes())?;
        let sum = self.sum.clone().finalize();
        self.append(&sum.to_le_bytes())?;
        Ok((self.to, self.written))
    }
}

/// Why a file is not used.
#[derive(Debug)]
pub(super) enum Unusable {
    Io(io::Error),
    /// It is somebody else's.
    NotSaved,
    Version(u8),
    Count,
    Truncated,
    Damaged {
        sum: u32,
        expected: u32,
    },
    Message {
        number: u64,
        bytes: u32,
    },
    TooLong {
        bytes: u64,
        max: u64,
    },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Io(error) => write!(f, "it cannot be read: {error}"),
            Unusable::NotSaved => write!(f, "it is no file of saved images"),
            Unusable::Version(version) => {
                let ours = MAGIC[MAGIC_COMMON].escape_ascii();
                write!(f, "it is of version {}, this program reads {ours}", version.escape_ascii())
            }
            Unusable::Count => write!(f, "it has more, or less, than it says"),
            Unusable::Truncated => write!(f, "it ends in the middle"),
            Unusable::Damaged { sum, expected } => {
                write!(f, "it is damaged: its sum is {sum:08x}, {expected:08x} is expected")
            }
            Unusable::Message { number, bytes } => {
                write!(f, "message {number} has {bytes} bytes, 1 to {MESSAGE_MAX} are allowed")
            }
            Unusable::TooLong { bytes, max } => {
                write!(
                    f,
                    "it has {bytes} bytes, {max} are allowed (source_distributor.saved_images.bytes_max)"
                )
            }
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        if error.kind() == io::ErrorKind::UnexpectedEof { Unusable::Truncated } else { Unusable::Io(error) }
    }
}

/// A whole file, whose sum is right: its messages one by one.
#[derive(Debug)]
pub(super) struct Reading<R> {
    from: BufReader<R>,
    unix_ms: u64,
    read: u64,
    left: u64,
    message: Vec<u8>,
}

/// Whether a file may be ours. One that is cut off within the first bytes is, as far as it goes.
fn check_begin(from: &mut impl BufRead) -> Result<(), Unusable> {
    let begin = from.fill_buf()?;
    match MAGIC.starts_with(&begin[..begin.len().min(MAGIC_COMMON)]) {
        true => Ok(()),
        false => Err(Unusable::NotSaved),
    }
}

impl Reading<File> {
    /// Reads a file to its end, and begins anew if it is right.
    pub(super) fn open(file: File, max: u64) -> Result<Reading<File>, Unusable> {
        let bytes = file.metadata()?.len();
        if bytes > max {
            check_begin(&mut BufReader::with_capacity(MAGIC.len(), file))?;
            return Err(Unusable::TooLong { bytes, max });
        }
        Reading::of(file)
    }
}

impl<R: Read + Seek> Reading<R> {
    fn of(from: R) -> Result<Reading<R>, Unusable> {
        let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
        let mut sum = crc32fast::Hasher::new();
        let mut take = |from: &mut BufReader<R>, bytes: &mut [u8]| -> Result<(), Unusable> {
            from.read_exact(bytes)?;
            sum.update(bytes);
            Ok(())
        };
        let (mut four, mut eight) = ([0; 4], [0; 8]);
        check_begin(&mut from)?;
        take(&mut from, &mut eight)?;
        if eight != *MAGIC {
            return Err(Unusable::Version(eight[MAGIC_COMMON]));
        }
        take(&mut from, &mut eight)?;
        let unix_ms = u64::from_le_bytes(eight);
        let (mut messages, mut piece) = (0, vec![0; BUFFER_BYTES]);
        loop {
            take(&mut from, &mut four)?;
            let bytes = u32::from_le_bytes(four);
            if bytes == 0 {
                break;
            }
            messages += 1;
            if bytes > MESSAGE_MAX {
                return Err(Unusable::Message { number: messages, bytes });
            }
            let mut left = bytes as usize;
            while left > 0 {
                let now = left.min(piece.len());
                take(&mut from, &mut piece[..now])?;
                left -= now;
            }
        }
        take(&mut from, &mut eight)?;
        let expected = sum.finalize();
        from.read_exact(&mut four)?;
        let sum = u32::from_le_bytes(four);
        if sum != expected {
            return Err(Unusable::Damaged { sum, expected });
        }
        if u64::from_le_bytes(eight) != messages || from.read(&mut four)? != 0 {
            return Err(Unusable::Count);
        }
        from.seek(SeekFrom::Start(16))?;
        Ok(Reading { from, unix_ms, read: 0, left: messages, message: Vec::new() })
    }

    /// When it was begun, milliseconds since 1970.
    pub(super) fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// The next message; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Unusable> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 4];
        self.from.read_exact(&mut bytes)?;
        let bytes = u32::from_le_bytes(bytes);
        (self.left, self.read) = (self.left - 1, self.read + 1);
        // The file was right when it was opened.
        if bytes == 0 || bytes > MESSAGE_MAX {
            return Err(Unusable::Message { number: self.read, bytes });
        }
        self.message.resize(bytes as usize, 0);
        self.from.read_exact(&mut self.message)?;
        Ok(Some(&self.message))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn written(messages: &[&[u8]]) -> Vec<u8> {
        let mut chunk = Vec::new();
        messages.iter().for_each(|message| put(&mut chunk, message));
        let mut writing = Writing::begin(Vec::new(), 1 << 20, 77).expect("memory");
        writing.append(&chunk).expect("memory");
        writing.end(messages.len() as u64).expect("memory").0
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Unusable> {
        let mut reading = Reading::of(Cursor::new(bytes))?;
        assert_eq!(reading.unix_ms(), 77);
        let mut messages = Vec::new();
        while let Some(message) = reading.next()? {
            messages.push(message.to_vec());
        }
        Ok(messages)
    }

    #[test]
    fn what_was_written_is_read_and_nothing_that_was_changed() {
        let bytes = written(&[b"directory", b"a", b"an image"]);
        assert_eq!(read(&bytes).expect("right"), [&b"directory"[..], b"a", b"an image"]);
        assert_eq!(read(&written(&[])).expect("right"), Vec::<Vec<u8>>::new());
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "the first {len} bytes of {}", bytes.len());
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Reading::of(Cursor::new(&changed)).is_err(), "bit {bit} of byte {at}");
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(read(&longer), Err(Unusable::Count)));
    }

    #[test]
    fn a_file_of_somebody_else_is_told_from_one_of_ours_that_cannot_be_used() {
        let bytes = written(&[b"directory"]);
        for len in 0..bytes.len() {
            assert!(matches!(read(&bytes[..len]), Err(Unusable::Truncated)), "the first {len} bytes");
        }
        let mut later = bytes.clone();
        later[7] = b'2';
        let error = read(&later).expect_err("of the next version").to_string();
        assert_eq!(error, "it is of version 2, this program reads 1");
        for other in [&b"root:x:0:0"[..], b"T", b"[admin]", &[0; 100]] {
            let result = read(other);
            assert_eq!(matches!(result, Err(Unusable::NotSaved)), other != b"T", "{other:?}: {result:?}");
        }
    }

    #[test]
    fn a_file_has_its_bounds() {
        let mut writing = Writing::begin(Vec::new(), 40, 77).expect("16 bytes");
        writing.append(&[1; 24]).expect("40 bytes");
        let error = writing.append(&[1]).expect_err("one byte more").to_string();
        assert!(error.contains("longer than 40 bytes"), "{error}");
        let mut chunk = Vec::new();
        put(&mut chunk, b"");
        assert_eq!(chunk, b"", "an end would look like that");
    }
}
