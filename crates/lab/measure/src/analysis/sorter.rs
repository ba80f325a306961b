//! Sorts more than there is memory for: runs on disk, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Of each run when runs are merged.
const READ_BYTES: usize = 256 << 10;

/// Takes rows of `N` words in any order, and gives them in ascending order.
pub(super) struct Sorter<const N: usize> {
    rows: Vec<[u64; N]>,
    most: usize,
    runs: Vec<File>,
    folder: PathBuf,
}

impl<const N: usize> Sorter<N> {
    /// One that holds at most so many bytes in memory, and puts what is more into files without a name in `folder`.
    pub(super) fn new(bytes: usize, folder: &Path) -> Sorter<N> {
        let most = (bytes / (8 * N)).max(1024);
        Sorter { rows: Vec::new(), most, runs: Vec::new(), folder: folder.to_owned() }
    }

    #[inline]
    pub(super) fn push(&mut self, row: [u64; N]) -> io::Result<()> {
        if self.rows.len() == self.most {
            self.spill()?;
        }
        self.rows.push(row);
        Ok(())
    }

    #[cold]
    fn spill(&mut self) -> io::Result<()> {
        self.rows.sort_unstable();
        let mut file = BufWriter::with_capacity(READ_BYTES, unnamed(&self.folder)?);
        for word in self.rows.iter().flatten() {
            file.write_all(&word.to_le_bytes())?;
        }
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        self.rows.clear();
        Ok(())
    }

    /// All rows in their order.
    pub(super) fn finish(mut self) -> io::Result<Sorted<N>> {
        if self.runs.is_empty() {
            self.rows.sort_unstable();
            return Ok(Sorted::Memory(self.rows.into_iter()));
        }
        self.spill()?;
        let mut runs: Vec<_> =
            self.runs.into_iter().map(|run| BufReader::with_capacity(READ_BYTES, run)).collect();
        let mut next = BinaryHeap::with_capacity(runs.len());
        for (at, run) in runs.iter_mut().enumerate() {
            next.extend(row(run)?.map(|row| Reverse((row, at))));
        }
        Ok(Sorted::Merged { runs, next })
    }
}

/// The rows of a [`Sorter`].
pub(super) enum Sorted<const N: usize> {
    Memory(std::vec::IntoIter<[u64; N]>),
    Merged { runs: Vec<BufReader<File>>, next: BinaryHeap<Reverse<([u64; N], usize)>> },
}

impl<const N: usize> Sorted<N> {
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<[u64; N]>> {
        match self {
            Sorted::Memory(rows) => Ok(rows.next()),
            Sorted::Merged { runs, next } => {
                let Some(Reverse((least, at))) = next.pop() else { return Ok(None) };
                next.extend(row(&mut runs[at])?.map(|row| Reverse((row, at))));
                Ok(Some(least))
            }
        }
    }
}

fn row<const N: usize>(run: &mut BufReader<File>) -> io::Result<Option<[u64; N]>> {
    let mut row = [0; N];
    for (at, word) in row.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        match run.read_exact(&mut bytes) {
            Ok(()) => *word = u64::from_le_bytes(bytes),
            Err(error) if at == 0 && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(row))
}

/// A file that goes when it is closed.
fn unnamed(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(format!("tickcast-analyse-{process}-{number}"));
    let wrong = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(wrong)?;
    std::fs::remove_file(&path).map_err(wrong)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_their_order_from_memory_and_from_disk() {
        let _repeat = testkit::repeat!();
        let mut rng = units::Rng::new(5);
        for count in [0, 1, 1_000, 10_000] {
            let rows: Vec<[u64; 2]> = (0..count).map(|_| [rng.next_u64() % 500, rng.next_u64()]).collect();
            let mut sorter = Sorter::new(0, &std::env::temp_dir());
            rows.iter().for_each(|row| sorter.push(*row).expect("a place for temporary files"));
            assert_eq!(sorter.runs.is_empty(), count <= 1_024, "{count}");
            let mut sorted = sorter.finish().expect("a place for temporary files");
            let mut want = rows;
            want.sort_unstable();
            let got: Vec<_> = std::iter::from_fn(|| sorted.next().expect("it is there")).collect();
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        let mut sorter = Sorter::<1>::new(0, Path::new("/nowhere"));
        let fault = (0..2_000).find_map(|word| sorter.push([word]).err()).expect("it is full");
        assert!(fault.to_string().contains("/nowhere/tickcast-analyse-"), "{fault}");
    }
}
