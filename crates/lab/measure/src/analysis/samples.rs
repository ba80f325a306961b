//! Every matched message as a row of a file: for spreadsheets and NumPy.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use net::whole_file::Unfinished;

/// Bytes of the head of a `.npy` file, which has room for any number of rows.
const NPY_HEAD: usize = 192;

/// Writes rows of id, time at the first point, latency: CSV, or by its name a NumPy array (`.npy`). The file has its name when it
/// is whole.
pub(super) struct Samples {
    unfinished: Unfinished,
    file: BufWriter<File>,
    is_npy: bool,
    rows: u64,
}

impl Samples {
    pub(super) fn new(path: &Path) -> io::Result<Samples> {
        let is_npy = path.extension().is_some_and(|extension| extension == "npy");
        let (unfinished, file) = Unfinished::create(path)?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        if is_npy {
            file.write_all(&npy_head(0))?;
        } else {
            file.write_all(b"id,sent_ns,latency_ns\n")?;
        }
        Ok(Samples { unfinished, file, is_npy, rows: 0 })
    }

    #[inline]
    pub(super) fn row(&mut self, id: u64, sent_ns: i64, latency_ns: i64) -> io::Result<()> {
        self.rows += 1;
        if !self.is_npy {
            return writeln!(self.file, "{id},{sent_ns},{latency_ns}");
        }
        self.file.write_all(&id.to_le_bytes())?;
        self.file.write_all(&sent_ns.to_le_bytes())?;
        self.file.write_all(&latency_ns.to_le_bytes())
    }

    pub(super) fn finish(mut self) -> io::Result<u64> {
        if self.is_npy {
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&npy_head(self.rows))?;
        }
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        self.unfinished.finish()?;
        Ok(self.rows)
    }
}

/// Of format 1.0: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
fn npy_head(rows: u64) -> [u8; NPY_HEAD] {
    let fields = "[('id', '<u8'), ('sent_ns', '<i8'), ('latency_ns', '<i8')]";
    let text = format!("{{'descr': {fields}, 'fortran_order': False, 'shape': ({rows},), }}");
    let mut head = [b' '; NPY_HEAD];
    head[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    head[8..10].copy_from_slice(&((NPY_HEAD - 10) as u16).to_le_bytes());
    head[10..10 + text.len()].copy_from_slice(text.as_bytes());
    head[NPY_HEAD - 1] = b'\n';
    head
}
