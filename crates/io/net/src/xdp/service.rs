use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;
use units::Nanos;

use super::XdpSocket;
use super::option::get_option;

/// The kernel's counts are read, and each route is looked at anew, about so often.
const INTERVAL: Duration = Duration::from_secs(1);
/// However many routes there are, looks are as far apart as this; each takes some microseconds.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

impl XdpSocket {
    /// Does the upkeep that is due: reads the kernel's counts, looks whether the interface is there, and
    /// follows changes of Ethernet addresses.
    ///
    /// # Errors
    /// The interface is gone: open another socket when it is back.
    pub fn service(&mut self, now: Nanos) -> io::Result<()> {
        if now >= self.watch.refresh_due {
            let interval = INTERVAL / u32::try_from(self.flows.count().max(1)).unwrap_or(u32::MAX);
            self.watch.refresh_due = now.after(interval.max(INTERVAL_MIN));
            self.flows.refresh_one(self.interface)?;
        }
        if now >= self.watch.counts_due {
            self.watch.counts_due = now.after(INTERVAL);
            self.look_for_interface()?;
            self.read_counts()?;
        }
        Ok(())
    }

    /// When [`XdpSocket::service`] has something to do next.
    #[must_use]
    pub fn next_service(&self) -> Nanos {
        self.watch.refresh_due.min(self.watch.counts_due)
    }

    /// The error of a socket whose interface was taken away.
    #[cold]
    pub(super) fn look_for_interface(&mut self) -> io::Result<()> {
        // The kernel tells the error once.
        if let Some(error) = SockRef::from(&self.fd).take_error()? {
            self.watch.is_gone |= error.raw_os_error() == Some(libc::ENETDOWN);
        }
        if self.watch.is_gone { Err(self.gone()) } else { Ok(()) }
    }

    /// What a refused system call means.
    #[cold]
    pub(super) fn broken(&mut self, error: &io::Error) -> io::Error {
        if error.raw_os_error() == Some(libc::ENXIO) {
            self.watch.is_gone = true;
            return self.gone();
        }
        io::Error::new(error.kind(), format!("AF_XDP on interface {}: cannot send: {error}", self.name))
    }

    fn gone(&self) -> io::Error {
        let said = format!("AF_XDP on interface {}: the interface is gone", self.name);
        io::Error::new(io::ErrorKind::NotConnected, said)
    }

    fn read_counts(&mut self) -> io::Result<()> {
        let mut kernel = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        get_option(self.fd.as_fd(), libc::XDP_STATISTICS, &mut kernel)?;
        let passed = self.program.passed()?;
        let counters = &self.counters;
        counters.datagrams_dropped_by_kernel.set(kernel.rx_dropped + kernel.rx_ring_full);
        counters.fill_ring_empty.set(kernel.rx_fill_ring_empty_descs);
        counters.fragments_passed.set(passed.fragmented);
        counters.other_queue_passed.set(passed.other_queue);
        counters.flows_forgotten.set(self.flows.forgotten());
        Ok(())
    }
}
