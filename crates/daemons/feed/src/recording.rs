use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::binance::Frame;

/// A line that could not be taken from a recording.
#[derive(Debug)]
pub struct RecordingError {
    /// The file.
    pub path: PathBuf,
    /// Its line, from 1; 0 if the file could not be opened.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for RecordingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.what),
        }
    }
}

impl std::error::Error for RecordingError {}

/// One recorded file, plain or compressed with zstd, read line by line.
pub struct Recording {
    path: PathBuf,
    lines: Box<dyn BufRead + Send>,
    line: u64,
    text: String,
}

impl Recording {
    /// Opens a file; zstd is told by the file's first bytes, not by its name.
    ///
    /// # Errors
    /// It does not exist or cannot be read.
    pub fn open(path: &Path) -> Result<Recording, RecordingError> {
        let attempt = || -> io::Result<Box<dyn BufRead + Send>> {
            let mut magic = [0; 4];
            let is_zstd = File::open(path)?.read_exact(&mut magic).is_ok() && magic == ZSTD_MAGIC;
            let file = File::open(path)?;
            Ok(if is_zstd {
                Box::new(BufReader::with_capacity(1 << 16, zstd::Decoder::new(file)?))
            } else {
                Box::new(BufReader::with_capacity(1 << 16, file))
            })
        };
        let lines = attempt().map_err(|e| RecordingError {
            path: path.to_owned(),
            line: 0,
            what: format!("cannot open the recording: {e}"),
        })?;
        Ok(Recording { path: path.to_owned(), lines, line: 0, text: String::new() })
    }

    /// The next frame, `None` at the end.
    ///
    /// # Errors
    /// The line is not a frame, and the next call goes on behind it; or the file cannot be read on, and the
    /// next call is at its end.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, RecordingError> {
        loop {
            self.text.clear();
            self.line += 1;
            match self.lines.read_line(&mut self.text) {
                Ok(0) => return Ok(None),
                Ok(_) if self.text.trim().is_empty() => {}
                Ok(_) => return Frame::parse(self.text.trim_end()).map(Some).map_err(|e| self.failed(&e)),
                Err(e) => {
                    self.lines = Box::new(io::empty());
                    return Err(self.failed(&e));
                }
            }
        }
    }

    fn failed(&self, error: &dyn std::error::Error) -> RecordingError {
        RecordingError { path: self.path.clone(), line: self.line, what: error.to_string() }
    }
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Several recordings as one, in the order of their receive times.
pub struct Merged {
    sources: Vec<Source>,
}

struct Source {
    recording: Recording,
    next: Option<Frame>,
}

impl Merged {
    /// Opens all files.
    ///
    /// # Errors
    /// The first one that cannot be opened or whose first line is not a frame.
    pub fn open(paths: &[PathBuf]) -> Result<Merged, RecordingError> {
        let open = |path: &PathBuf| {
            let mut recording = Recording::open(path)?;
            let next = recording.next_frame()?;
            Ok(Source { recording, next })
        };
        Ok(Merged { sources: paths.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The receive time of the earliest frame left.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.sources.iter().filter_map(|s| s.next.as_ref()).map(|frame| frame.received_ns).min()
    }

    /// The next frame of each file that has one, with the file's number.
    pub fn upcoming(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.sources.iter().enumerate().filter_map(|(i, s)| Some((i, s.next.as_ref()?)))
    }

    /// The earliest frame left, with the number of the file it is from.
    ///
    /// # Errors
    /// The line behind it is not a frame; the next call goes on behind that.
    pub fn next_frame(&mut self) -> Result<Option<(usize, Frame)>, RecordingError> {
        let earliest = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((s.next.as_ref()?.received_ns, i)))
            .min();
        let Some((_, i)) = earliest else { return Ok(None) };
        let source = &mut self.sources[i];
        let following = source.recording.next_frame()?;
        Ok(std::mem::replace(&mut source.next, following).map(|frame| (i, frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binance::{Book, Event};

    fn sample(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/binance").join(name)
    }

    #[test]
    fn files_are_merged_by_time_and_read_to_their_end() {
        let files = ["binance-spot_btcusdt_20240808.jsonl.zst", "binance-spot_ethusdt_20240808.jsonl.zst"];
        let mut merged = Merged::open(&files.map(sample)).expect("the sample is part of the project");
        let (mut last, mut count) = (0, [0; 2]);
        while let Some((i, frame)) = merged.next_frame().expect("every line is a frame") {
            assert!(frame.received_ns >= last);
            last = frame.received_ns;
            count[i] += 1;
        }
        assert_eq!(count, [41_249, 33_618], "one frame a line");
    }

    #[test]
    fn every_recorded_diff_follows_and_no_book_ends_crossed() {
        for file in [
            "binance-spot_btcusdt_20240808.jsonl.zst",
            "binance-spot_ethusdt_20240808.jsonl.zst",
            "binance-usdm_btcusdt_20240808-first-2min.jsonl.zst",
            "binance-cm_btcusd_perp_20240808-first-2min.jsonl.zst",
        ] {
            let mut recording = Recording::open(&sample(file)).expect("the sample is part of the project");
            let mut book = Book::default();
            while let Some(frame) = recording.next_frame().expect("every line is a frame") {
                match frame.event {
                    Event::Depth(depth) => drop(book.on_depth(depth).expect("recorded without a gap")),
                    Event::Snapshot(snapshot) => {
                        book.on_snapshot(&snapshot).expect("fits the diffs before it")
                    }
                    Event::Quote(_) | Event::Trade(_) => {}
                }
            }
            let best = |side| book.levels().filter(move |l| l.side == side).map(|l| l.price);
            let (bid, ask) = (best(crate::binance::Side::Bid).max(), best(crate::binance::Side::Ask).min());
            assert!(book.is_live() && bid < ask && bid.is_some(), "{file}: {bid:?} {ask:?}");
        }
    }

    #[test]
    fn a_missing_file_and_a_bad_line_are_named() {
        let error = Recording::open(Path::new("/nonexistent/x.zst")).err().expect("it does not exist");
        assert!(error.to_string().starts_with("/nonexistent/x.zst: cannot open"), "{error}");
        let folder = testkit::Folder::new();
        let path = folder.join("recording");
        std::fs::write(&path, "\n1 {}\n").expect("the temporary directory is writable");
        let mut recording = Recording::open(&path).expect("it exists");
        let error = recording.next_frame().expect_err("not a frame");
        assert!(error.to_string().contains(":2: not a frame"), "{error}");
        assert_eq!(recording.next_frame().expect("behind it"), None);
        let cut =
            std::fs::read(sample("binance-spot_ethusdt_20240808.jsonl.zst")).expect("part of the project");
        std::fs::write(&path, &cut[..100_000]).expect("the temporary directory is writable");
        let mut recording = Recording::open(&path).expect("it exists");
        let error = loop {
            match recording.next_frame() {
                Ok(frame) => assert!(frame.is_some(), "the file is cut"),
                Err(error) => break error,
            }
        };
        assert!(error.line > 1, "{error}");
        assert_eq!(recording.next_frame().expect("nothing more can be read"), None);
    }
}
