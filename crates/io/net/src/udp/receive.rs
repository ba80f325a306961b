use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::UdpSocket;
use super::socket::set_option;

/// Bytes a coalesced run may have.
const SLOT_BYTES: usize = 65_536;
/// Room for the control message `UDP_GRO`.
const CONTROL_BYTES: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy)]
struct Slot {
    from: SocketAddrV4,
    len: usize,
    segment_bytes: usize,
}

/// How a socket takes what comes.
///
/// A call that takes coalesced runs reads and writes a header, a vector and room for control messages in the
/// process: 0.42 us where there is nothing, 0.29 us without all that (x86-64 VM). A spinning receiver of single
/// messages pays for it before and with each. So a socket on which nobody waits in vain takes runs, one whose owner
/// asks all the time takes datagrams, one a call and none coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveMode {
    /// Runs of datagrams.
    Runs {
        /// Calls that found nothing, since the last that found something.
        idle: u32,
        /// Of those this many change the mode.
        patience: u32,
    },
    /// Runs that were coalesced before may still come, until so many calls in a row find nothing. (What is on its
    /// way at that moment for longer would be taken for one malformed datagram, which is lost and repaired.)
    Draining {
        /// Calls that found nothing, since the last that found something.
        idle: u32,
    },
    /// Datagrams.
    Single {
        /// Calls that found something, one after the other.
        busy: u32,
    },
    /// Datagrams that suffer faults, in simulations.
    Faulty,
}

impl Default for ReceiveMode {
    fn default() -> ReceiveMode {
        ReceiveMode::Runs { idle: 0, patience: IDLE_PATIENCE }
    }
}

/// So many calls in vain end the taking of runs: some 30 us of a spinning receiver, more than the pause between the
/// runs of a stream at full speed.
const IDLE_PATIENCE: u32 = 64;
/// So many if a run has come: some 30 ms.
const RUN_PATIENCE: u32 = 65_536;
/// So many datagrams one after the other begin the taking of runs.
const BUSY_MAX: u32 = 4;

/// Buffers for one receive call, reused from call to call: 64 KiB a slot, a slot a (coalesced) run of
/// datagrams.
pub struct ReceiveBatch {
    // Vectors that never grow, into which pointers lead, and not boxes: a box that is moved claims that no
    // other pointer leads to what it holds, and so does a mutable slice.
    bytes: Vec<u8>,
    control: Vec<Control>,
    names: Vec<libc::sockaddr_in>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    slots: Vec<Slot>,
    /// Slots that the next [`UdpSocket::poll`] asks for. One that has filled all it asked for asks for twice as many: after a single
    /// datagram the kernel is not asked in vain for another, which would delay it.
    wanted: usize,
}

// SAFETY: the raw pointers inside `vectors` and `headers` lead to what the batch owns and never replaces, and what
// stays where it is when the batch moves.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Buffers for `slot_count` runs a call (at least one). Memory: 64 KiB each.
    #[must_use]
    pub fn new(slot_count: usize) -> ReceiveBatch {
        let n = slot_count.max(1);
        let name = sockaddr(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: an all-zero mmsghdr is a valid value of that plain C struct.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut batch = ReceiveBatch {
            bytes: vec![0; n * SLOT_BYTES],
            control: vec![Control([0; CONTROL_BYTES]); n],
            names: vec![name; n],
            vectors: vec![vector; n],
            headers: vec![header; n],
            slots: Vec::with_capacity(n),
            wanted: 1,
        };
        batch.prepare(n);
        batch
    }

    /// Makes the first `count` slots ready for a call; those that a call did not fill still are.
    fn prepare(&mut self, count: usize) {
        let (bytes, names) = (self.bytes.as_mut_ptr(), self.names.as_mut_ptr());
        let (vectors, control) = (self.vectors.as_mut_ptr(), self.control.as_mut_ptr());
        for (i, header) in self.headers.iter_mut().enumerate().take(count) {
            // SAFETY: each header has its vector, name, control room and `SLOT_BYTES` of the bytes: `new` has made
            // as many of all, and none ever grows or shrinks.
            let (bytes, name, vector, control) =
                unsafe { (bytes.add(i * SLOT_BYTES), names.add(i), vectors.add(i), control.add(i)) };
            // SAFETY: as above; nothing borrows the vectors.
            unsafe { vector.write(libc::iovec { iov_base: bytes.cast(), iov_len: SLOT_BYTES }) };
            header.msg_hdr.msg_name = name.cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            header.msg_hdr.msg_flags = 0;
            header.msg_len = 0;
        }
    }

    /// The mode of a socket that takes runs after what the batch holds has come.
    fn runs(&self, patience: u32) -> ReceiveMode {
        let has_run = self.slots.iter().any(|slot| slot.segment_bytes < slot.len);
        ReceiveMode::Runs { idle: 0, patience: if has_run { RUN_PATIENCE } else { patience } }
    }

    fn received(&self) -> Received<'_> {
        Received { bytes: &self.bytes, slots: &self.slots, slots_max: self.headers.len() }
    }

    fn collect(&mut self, filled: usize) {
        for i in 0..filled {
            let len = (self.headers[i].msg_len as usize).min(SLOT_BYTES);
            let mut slot = Slot { from: address(&self.names[i]), len, segment_bytes: len };
            for (level, kind, value) in control_values(&self.headers[i].msg_hdr) {
                if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) && value > 0 {
                    slot.segment_bytes = value as usize;
                }
            }
            self.slots.push(slot);
        }
    }
}

/// The datagrams of one receive call.
pub struct Received<'b> {
    bytes: &'b [u8],
    slots: &'b [Slot],
    slots_max: usize,
}

impl<'b> Received<'b> {
    /// Whether the call brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether all slots were filled, so that more may have arrived.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slots.len() == self.slots_max
    }

    /// Sender and payload of each datagram, in the order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddrV4, &'b [u8])> + use<'b> {
        let bytes = self.bytes;
        self.slots.iter().enumerate().flat_map(move |(i, slot)| {
            let run = &bytes[i * SLOT_BYTES..][..slot.len];
            run.chunks(slot.segment_bytes.max(1)).map(move |datagram| (slot.from, datagram))
        })
    }
}

impl UdpSocket {
    /// Takes what has arrived, up to the batch's slots; nothing when there is nothing. For sockets that a poller
    /// watches.
    ///
    /// # Errors
    /// The socket is broken. Errors that ICMP reports of earlier sends are passed over.
    pub fn receive<'b>(&self, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        if self.mode.get() == ReceiveMode::Faulty {
            return self.receive_faulty(batch);
        }
        let count = self.take_runs(batch, batch.headers.len())?;
        match self.mode.get() {
            ReceiveMode::Single { busy } => self.mode.set(self.single(busy, count as u32)),
            ReceiveMode::Runs { patience, .. } if count > 0 => self.mode.set(batch.runs(patience)),
            _ => {}
        }
        Ok(batch.received())
    }

    /// The same for who asks without pause: as quick as can be about a single datagram, and about runs once there
    /// are any.
    ///
    /// # Errors
    /// As [`UdpSocket::receive`].
    pub fn poll<'b>(&self, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        let mode = self.mode.get();
        let count = match mode {
            ReceiveMode::Single { .. } => self.take_one(batch)?,
            ReceiveMode::Faulty => return self.receive_faulty(batch),
            ReceiveMode::Runs { .. } | ReceiveMode::Draining { .. } => self.take_wanted(batch)?,
        };
        let next = match mode {
            ReceiveMode::Single { busy } => self.single(busy, count as u32),
            ReceiveMode::Draining { .. } if count > 0 => ReceiveMode::Draining { idle: 0 },
            ReceiveMode::Draining { idle } if idle < IDLE_PATIENCE => {
                ReceiveMode::Draining { idle: idle + 1 }
            }
            ReceiveMode::Draining { .. } => ReceiveMode::Single { busy: 0 },
            ReceiveMode::Runs { patience, .. } if count > 0 => batch.runs(patience),
            ReceiveMode::Runs { idle, patience } if idle < patience => {
                ReceiveMode::Runs { idle: idle + 1, patience }
            }
            ReceiveMode::Runs { .. } => self.coalesce(false, ReceiveMode::Draining { idle: 0 }),
            ReceiveMode::Faulty => mode,
        };
        if next != mode {
            self.mode.set(next);
        }
        Ok(batch.received())
    }

    /// What of that which has arrived is seen in a simulation.
    #[cold]
    #[inline(never)]
    fn receive_faulty<'b>(&self, batch: &'b mut ReceiveBatch) -> io::Result<Received<'b>> {
        let count = self.take_runs(batch, (batch.headers.len() / 2).max(1))?;
        let received = batch.received();
        let arrived = received.datagrams().map(|(from, bytes)| (from, bytes.to_vec())).collect();
        let seen = self.faults.pass(arrived);
        batch.prepare(count);
        batch.slots.clear();
        for (room, (from, bytes)) in batch.bytes.chunks_mut(SLOT_BYTES).zip(seen) {
            room[..bytes.len()].copy_from_slice(&bytes);
            batch.slots.push(Slot { from, len: bytes.len(), segment_bytes: bytes.len() });
        }
        Ok(batch.received())
    }

    /// The mode of a socket that takes single datagrams after a call that took `count`.
    fn single(&self, busy: u32, count: u32) -> ReceiveMode {
        match count {
            0 => ReceiveMode::Single { busy: 0 },
            _ if busy + count <= BUSY_MAX => ReceiveMode::Single { busy: busy + count },
            _ => self.coalesce(true, ReceiveMode::default()),
        }
    }

    /// Has runs coalesced or not, for the mode `then`; where the kernel cannot, the mode is as it begins.
    #[cold]
    fn coalesce(&self, on: bool, then: ReceiveMode) -> ReceiveMode {
        match set_option(self.plain(), libc::SOL_UDP, libc::UDP_GRO, on.into()) {
            Ok(()) => then,
            Err(_) => ReceiveMode::default(),
        }
    }

    fn take_wanted(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let wanted = batch.wanted;
        let count = self.take_runs(batch, wanted)?;
        let more = if count == wanted { 2 * count } else { count };
        batch.wanted = more.clamp(1, batch.headers.len());
        Ok(count)
    }

    /// Takes up to `wanted` runs, which are no more than the batch has slots.
    fn take_runs(&self, batch: &mut ReceiveBatch, wanted: usize) -> io::Result<usize> {
        batch.prepare(batch.slots.len());
        batch.slots.clear();
        let wanted = wanted.min(batch.headers.len());
        // SAFETY: `prepare` has pointed every header at its own slot of the batch's buffers with their true
        // lengths, those that the last call filled anew, and the batch is borrowed mutably. `wanted` is at most
        // the number of headers.
        let filled = unsafe {
            libc::recvmmsg(
                self.fd(),
                batch.headers.as_mut_ptr(),
                wanted as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(filled).or_else(|_| nothing())?;
        batch.collect(count);
        Ok(count)
    }

    fn take_one(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let mut name_len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        batch.prepare(batch.slots.len());
        batch.slots.clear();
        // Not `recvfrom` of the C library, which lets the thread be cancelled for the time of each call: 20 ns.
        //
        // SAFETY: the buffer has at least one slot, and name and length are the batch's first ones and a local; the
        // kernel writes no more than the lengths say.
        let len = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                self.fd(),
                batch.bytes.as_mut_ptr(),
                SLOT_BYTES,
                libc::MSG_DONTWAIT,
                batch.names.as_mut_ptr(),
                &raw mut name_len,
            )
        };
        let Ok(len) = usize::try_from(len) else { return nothing() };
        batch.slots.push(Slot { from: address(&batch.names[0]), len, segment_bytes: len });
        Ok(1)
    }
}

/// What a call that failed found: nothing, unless the socket is broken.
fn nothing() -> io::Result<usize> {
    let error = io::Error::last_os_error();
    let passing = [libc::EAGAIN, libc::EINTR, libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH];
    if error.raw_os_error().is_some_and(|code| passing.contains(&code)) { Ok(0) } else { Err(error) }
}

/// Level, type and value of each 32-bit control message.
fn control_values(header: &libc::msghdr) -> impl Iterator<Item = (libc::c_int, libc::c_int, u32)> + use<'_> {
    // SAFETY: the kernel has filled `msg_control` up to `msg_controllen` with well-formed control messages,
    // in a buffer that the batch still owns.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a control message that lies whole inside the
        // buffer; the kind that this socket asked for carries 32 bits.
        unsafe {
            let this = &*next;
            let value = libc::CMSG_DATA(next).cast::<u32>().read_unaligned();
            next = libc::CMSG_NXTHDR(header, next);
            Some((this.cmsg_level, this.cmsg_type, value))
        }
    })
}

pub(super) fn sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn address(name: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()), u16::from_be(name.sin_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does to a slot what the kernel does, through the pointers that it is given: so this runs under Miri.
    fn fill(batch: &mut ReceiveBatch, slot: usize, from: SocketAddrV4, bytes: &[u8], segment_bytes: u32) {
        let header = &mut batch.headers[slot];
        header.msg_len = bytes.len() as u32;
        // SAFETY: name, vector and control are as long as the header says, and this writes no more: a control
        // message of 32 bits has room.
        unsafe {
            header.msg_hdr.msg_name.cast::<libc::sockaddr_in>().write(sockaddr(from));
            let vector = header.msg_hdr.msg_iov.read();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), vector.iov_base.cast(), bytes.len());
            let control = libc::CMSG_FIRSTHDR(&raw const header.msg_hdr);
            (*control).cmsg_level = libc::SOL_UDP;
            (*control).cmsg_type = libc::UDP_GRO;
            (*control).cmsg_len = libc::CMSG_LEN(4) as _;
            libc::CMSG_DATA(control).cast::<u32>().write_unaligned(segment_bytes);
            header.msg_hdr.msg_controllen = libc::CMSG_SPACE(4) as usize;
        }
    }

    fn collected(batch: &mut ReceiveBatch, count: usize) -> Vec<(SocketAddrV4, Vec<u8>)> {
        batch.collect(count);
        let received = batch.received();
        received.datagrams().map(|(from, bytes)| (from, bytes.to_vec())).collect()
    }

    #[test]
    fn a_batch_gives_what_was_put_behind_its_pointers_and_can_be_filled_again() {
        let from = |port| SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), port);
        let mut batch = Box::new(ReceiveBatch::new(2));
        fill(&mut batch, 0, from(1), b"first", 2);
        assert_eq!(
            collected(&mut batch, 1),
            [(from(1), b"fi".to_vec()), (from(1), b"rs".to_vec()), (from(1), b"t".to_vec())]
        );
        // The other slot is as it was prepared at the start.
        for _ in 0..2 {
            let used = batch.slots.len();
            batch.prepare(used);
            batch.slots.clear();
            fill(&mut batch, 0, from(2), b"next", 9);
            fill(&mut batch, 1, from(3), b"last", 9);
            assert_eq!(collected(&mut batch, 2), [(from(2), b"next".to_vec()), (from(3), b"last".to_vec())]);
        }
    }
}
