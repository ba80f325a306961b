use super::framing::Framing;
use super::source::Source;
use super::window::Run;
use units::{Nanos, Sqn};

/// Datagrams to be sent: `count` of them in one slice, each `segment_len` long except that the last may be
/// shorter. That is the shape UDP segmentation offload takes.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The datagrams, one behind the other.
    pub bytes: &'a [u8],
    /// Length of each but the last.
    pub segment_len: usize,
    /// How many.
    pub count: u32,
}

impl<'a> Transmit<'a> {
    /// One datagram.
    pub(crate) fn one(datagram: &'a [u8]) -> Transmit<'a> {
        Transmit { bytes: datagram, segment_len: datagram.len(), count: 1 }
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.segment_len)
    }
}

impl<T: Framing> Source<T> {
    pub(crate) fn lend(&self, run: Run) -> Transmit<'_> {
        let bytes = self.window.slice(run.at, run.bytes);
        Transmit { bytes, segment_len: run.segment_len, count: run.count }
    }

    /// The number that the next datagram to be closed gets.
    #[must_use]
    pub fn next_datagram(&self) -> Sqn {
        self.window.next()
    }

    /// Gives `each` the LBMC messages, in clear, of every datagram closed since number `from`, sent or not, and moves
    /// `from` behind them: for who [retains](crate::recovery::Responder::retain) them. To be called before
    /// more is sent than the window holds; what has left the window is passed over.
    pub fn written(&mut self, from: &mut Sqn, mut each: impl FnMut(&[u8])) {
        if from.precedes(self.window.trail()) {
            *from = self.window.trail();
        }
        while from.precedes(self.window.next()) {
            let (at, len) = (self.window.offset_of(*from), self.window.len_of(*from) as usize);
            let datagram = self.window.slice(at, len);
            let messages = &datagram[T::DATA_HEADER_LEN..len - self.transport.seal_len()];
            match &mut self.encryptor {
                None => each(messages),
                Some(encryptor) => each(encryptor.reveal(*from, messages)),
            }
            *from = from.next();
        }
    }

    /// From when on new data may go out.
    pub(crate) fn data_due(&self) -> Nanos {
        if self.window.unsent_count() == 0 {
            return Nanos::NEVER;
        }
        self.data_limit.ready_at(self.window.len_of(self.window.unsent()))
    }

    /// From when on a retransmission of `len` bytes may go out.
    pub(crate) fn repeat_due(&self, len: u64) -> Nanos {
        self.repeat_limit.ready_at(len).max(self.data_limit.ready_at(len))
    }

    /// The unsent datagrams that may go out now.
    pub(crate) fn next_data(&mut self, now: Nanos) -> Option<Run> {
        let count_max = self.window.unsent_count().min(self.run_count_max);
        if count_max == 0 {
            return None;
        }
        let bytes_max = self.data_bytes_max(now);
        self.window.run(self.window.unsent(), count_max, bytes_max)
    }

    /// Bytes of one run of new data.
    pub(crate) fn data_bytes_max(&mut self, now: Nanos) -> u64 {
        self.data_limit.available(now).min(self.run_bytes_max.max(self.datagram_max as u64))
    }

    /// Bytes of one run of retransmissions.
    pub(crate) fn repeat_bytes_max(&mut self, now: Nanos) -> u64 {
        self.repeat_limit.available(now).min(self.data_bytes_max(now))
    }

    /// Marks datagrams that are to go out once more, and signs them anew where they are signed.
    pub(crate) fn mark_retransmissions(&mut self, first: Sqn, count: u32) {
        let trail = self.window.trail();
        for sqn in (0..count).map(|i| first.plus(i)) {
            let at = self.window.offset_of(sqn);
            T::mark_retransmission(trail, self.window.bytes_mut(at, T::DATA_HEADER_LEN));
            if self.transport.seal_len() > 0 {
                let len = self.window.len_of(sqn) as usize;
                self.transport.seal(self.window.bytes_mut(at, len));
            }
        }
    }

    /// Counts new datagrams that went out.
    pub(crate) fn data_went_out(&mut self, now: Nanos, count: u32, bytes: u64) {
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.msgs_sent.add(u64::from(count));
        self.counters.bytes_sent.add(bytes);
        self.sent.datagrams += u64::from(count);
        self.sent.bytes += bytes;
        self.show_window();
    }

    /// Shows how full the window is.
    pub(crate) fn show_window(&self) {
        self.counters.rctlr_data_msgs.set(u64::from(self.window.unsent_count()));
        self.counters.txw_msgs.set(u64::from(self.window.count()));
        self.counters.txw_bytes.set(self.window.live_bytes());
    }

    /// Counts retransmissions that went out.
    pub(crate) fn repeats_went_out(&mut self, now: Nanos, count: u32, bytes: u64) {
        self.repeat_limit.take(bytes);
        self.data_limit.take(bytes);
        self.schedule.on_datagram(now);
        self.counters.rxs_sent.add(u64::from(count));
        self.counters.rx_bytes_sent.add(bytes);
        self.sent.retransmissions += u64::from(count);
        self.sent.retransmitted_bytes += bytes;
    }
}
