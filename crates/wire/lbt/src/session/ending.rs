//! What stands behind the messages of each datagram of a session: which run of its source it is of, and the keyed code.

use super::runs::{RUN_LEN, RunId};
use crate::authentication::{Keys, SEAL_LEN, Sealer};
use crate::error::WireError;
use counters::table::ReliableSource;

/// The end of each datagram of a source; nothing unless something was set.
#[derive(Default)]
pub(crate) struct DatagramEnd {
    run: Option<RunId>,
    /// Signs what goes out and checks what comes in.
    sealer: Option<Box<Sealer>>,
    len: usize,
}

impl DatagramEnd {
    pub(crate) fn set_run(&mut self, run: RunId) {
        self.run = Some(run);
        self.measure();
    }

    pub(crate) fn authenticate(&mut self, sealer: Sealer) {
        self.sealer = Some(Box::new(sealer));
        self.measure();
    }

    fn measure(&mut self) {
        self.len = self.run.map_or(0, |_| RUN_LEN) + self.sealer.as_ref().map_or(0, |_| SEAL_LEN);
    }

    /// What a receiver has sent, without its keyed code if it must have one.
    ///
    /// # Errors
    /// It is not signed as it must be, which is counted.
    pub(crate) fn open<'a>(
        &self,
        datagram: &'a [u8],
        counters: &ReliableSource,
    ) -> Result<&'a [u8], WireError> {
        match &self.sealer {
            None => Ok(datagram),
            Some(sealer) => sealer.open(datagram).inspect_err(|_| counters.nak_pckts_unauthentic.inc()),
        }
    }

    /// Goes on with other keys, if it has some at all.
    pub(crate) fn rekey(&mut self, keys: Keys) {
        Sealer::rekey(&mut self.sealer, keys);
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes it into the last [`DatagramEnd::len`] bytes of a datagram.
    pub(crate) fn write(&self, datagram: &mut [u8]) {
        if let Some(run) = self.run {
            let seal_len = if self.sealer.is_some() { SEAL_LEN } else { 0 };
            let end = datagram.len() - seal_len;
            run.write(&mut datagram[..end]);
        }
        if let Some(sealer) = &self.sealer {
            sealer.seal(datagram);
        }
    }

    /// Appends it to a datagram.
    pub(crate) fn append(&self, datagram: &mut Vec<u8>) {
        if self.len > 0 {
            datagram.resize(datagram.len() + self.len, 0);
            self.write(datagram);
        }
    }
}
