//! What a child made by `fork` has of its parent's sockets, files and shared memory: nothing that reaches outside.
//!
//! Such a child has copies of all descriptors and mappings. They are the same connections, locks and rings: what it
//! writes, its parent writes; what it keeps open stays open when its parent closes it or dies. So what this crate
//! opens is known here, and a handler of `pthread_atfork` puts `/dev/null` in place of each descriptor and zeroed
//! private memory in place of each mapping, before `fork` returns in the child. Numbers and addresses stay valid, so
//! objects of the parent can be dropped there. A program that the child executes gets none of this anyway: all
//! descriptors are close-on-exec.
//!
//! [`Home`] tells an object whether it is in the process that made it. That holds for children too that were made
//! around the C library (`clone`, `_Fork`), of which the handler does not hear, where [`Home::is_certain`] is asked.

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tells a process from those it was forked from: 0 in the first one, and what no number that is given once comes to
/// (the low 24 bits are zero) in its children.
static MARK: AtomicU32 = AtomicU32::new(0);

/// The first of those numbers.
const GENERATION: u32 = 1 << 24;

/// The mark of this process; see [`Home`].
#[inline]
#[must_use]
pub fn mark() -> u32 {
    MARK.load(Ordering::Relaxed)
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    mark: u32,
    process: u32,
}

impl Home {
    /// This process.
    #[must_use]
    pub fn here() -> Home {
        watch();
        Home { mark: mark(), process: std::process::id() }
    }

    /// Whether this is no child made by `fork`. It costs one comparison.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.mark == mark()
    }

    /// The same, of children made around the C library too. It costs a system call.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.is_here() && self.process == std::process::id()
    }

    /// That of a process that is neither this one nor one that it was forked from.
    #[cfg(test)]
    pub(crate) fn elsewhere() -> Home {
        Home { mark: u32::MAX, process: 0 }
    }

    /// Refuses what a child made by `fork` asks of its parent's object.
    ///
    /// # Errors
    /// [`Forked`], as an [`io::Error`] that holds it.
    #[inline]
    pub fn check(&self) -> io::Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.forked().into()) }
    }

    /// What to say there.
    #[cold]
    #[must_use]
    pub fn forked(&self) -> Forked {
        Forked { parent: self.process }
    }
}

/// A child made by `fork` has used what its parent has made. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The process that made it, as that one knows itself.
    pub parent: u32,
}

impl Forked {
    /// Whether this is what an error says.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Forked>())
    }
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} has made it: a child made by fork cannot use it and makes its own", self.parent)
    }
}

impl std::error::Error for Forked {}

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, forked)
    }
}

/// A descriptor that a child does not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    /// A socket or a file, which its inode names: one that has taken the number since is left alone.
    Inode(u64, u64),
    /// One of those that have an inode in common (epoll, eventfd, bpf): known until [`Unshared`] closes it.
    Exactly,
}

/// What a child does not get.
struct Table {
    /// By number.
    descriptors: Vec<Known>,
    /// Start and length in bytes.
    pages: Vec<(usize, usize)>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { descriptors: Vec::new(), pages: Vec::new() });
/// Held for writing during a fork.
static FORKING: RwLock<()> = RwLock::new(());

/// What the thread that forks holds meanwhile, so that the child finds neither locked nor half changed.
type Held = (RwLockWriteGuard<'static, ()>, MutexGuard<'static, Table>);

struct Place(UnsafeCell<Option<Held>>);

// SAFETY: only the handlers of a fork use it, from when the first has got both locks until the last gives them back,
// on one thread: the locks keep others out.
unsafe impl Sync for Place {}

static HELD: Place = Place(UnsafeCell::new(None));

/// The thread that forks and has both locks, or 0.
static FORKER: AtomicI32 = AtomicI32::new(0);

/// No fork happens as long as it lives. For threads of the library that hold a lock which a child needs too.
#[must_use]
pub struct Hold {
    _held: RwLockReadGuard<'static, ()>,
}

/// Keeps forks waiting. Not to be called where it is held already.
pub fn hold() -> Hold {
    watch();
    Hold { _held: FORKING.read().unwrap_or_else(PoisonError::into_inner) }
}

fn table() -> MutexGuard<'static, Table> {
    watch();
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What [`WATCHED`] says once the C library calls the handlers.
const WATCHED_BY_ALL: u32 = u32::MAX;

/// 0 at first; then the process of which a thread registers the handlers; then [`WATCHED_BY_ALL`].
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Has the C library call the handlers.
#[inline]
fn watch() {
    if WATCHED.load(Ordering::Acquire) != WATCHED_BY_ALL {
        register();
    }
}

/// Registers the handlers. No [`std::sync::Once`]: a child that is forked while another thread is at it would wait for
/// that thread for ever. Such a child registers them again, and has them called once or twice at each fork.
#[cold]
fn register() {
    if cfg!(miri) {
        return;
    }
    let here = std::process::id();
    loop {
        match WATCHED.compare_exchange(0, here, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(WATCHED_BY_ALL) => return,
            Err(process) if process == here => std::thread::yield_now(),
            Err(parent) => {
                if WATCHED.compare_exchange(parent, here, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    break;
                }
            }
        }
    }
    // SAFETY: the handlers are functions of this library, which stays loaded or takes them with it. Without
    // memory for them, `Home::is_certain` remains.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    WATCHED.store(WATCHED_BY_ALL, Ordering::Release);
}

fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

extern "C" fn before() {
    let this = thread_id();
    if FORKER.load(Ordering::Relaxed) == this {
        return;
    }
    let forking = FORKING.write().unwrap_or_else(PoisonError::into_inner);
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: both locks are held.
    unsafe { *HELD.0.get() = Some((forking, table)) };
    FORKER.store(this, Ordering::Relaxed);
}

extern "C" fn after() {
    if FORKER.load(Ordering::Relaxed) != thread_id() {
        return;
    }
    FORKER.store(0, Ordering::Relaxed);
    // SAFETY: `before` has got both locks on this thread, and they are given back at the end.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    FORKER.store(0, Ordering::Relaxed);
    // SAFETY: the child has this thread alone, and both locks as they were held. The second call finds nothing.
    let Some((_forking, mut table)) = (unsafe { (*HELD.0.get()).take() }) else { return };
    MARK.store(mark().wrapping_add(GENERATION), Ordering::Relaxed);
    let mut null = -1;
    for (number, known) in table.descriptors.iter().enumerate() {
        let number = number as RawFd;
        if known.is_at(number) {
            replace(number, &mut null);
        }
    }
    if null >= 0 && !table.descriptors.get(null as usize).is_some_and(|known| *known != Known::No) {
        // SAFETY: it was opened here, and is nobody else's.
        unsafe { libc::close(null) };
    }
    for (start, bytes) in &table.pages {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
        );
        // SAFETY: the pages are those of a mapping that lives, whose owner reads and writes them as memory that
        // others may change at any time. If the kernel has no memory for that, the mapping stays as it is.
        unsafe { libc::mmap(*start as *mut libc::c_void, *bytes, access, flags, -1, 0) };
    }
    // No memory is given back here: another thread of the parent may have held the allocator.
    table.descriptors.clear();
    table.pages.clear();
}

/// Puts `/dev/null` in place of a descriptor; `null` is a descriptor of it, or -1. Only calls that are allowed in a
/// child of a process with threads.
fn replace(number: RawFd, null: &mut RawFd) {
    let open = || {
        // SAFETY: a path that is a C string.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }
    };
    if *null < 0 {
        *null = open();
    }
    if *null < 0 {
        // There are no more descriptors: this one's number, or a lower one, is free then.
        // SAFETY: the caller has seen that it is one of ours, whose owner finds `/dev/null` there.
        unsafe { libc::close(number) };
        *null = open();
    }
    if *null != number {
        // SAFETY: as above.
        unsafe { libc::dup3(*null, number, libc::O_CLOEXEC) };
    }
}

impl Known {
    /// Whether it still has this number.
    fn is_at(self, number: RawFd) -> bool {
        match self {
            Known::No => false,
            Known::Exactly => true,
            Known::Inode(..) => self == Known::of(number),
        }
    }

    fn of(number: RawFd) -> Known {
        // SAFETY: a structure of integers, for which zero is a value.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `found` is room for what the call writes.
        match unsafe { libc::fstat(number, &raw mut found) } {
            0 => Known::Inode(found.st_dev as u64, found.st_ino as u64),
            _ => Known::No,
        }
    }
}

fn enter(number: RawFd, known: Known) {
    let descriptors = &mut table().descriptors;
    let at = number as usize;
    if at >= descriptors.len() {
        descriptors.resize(at + 1, Known::No);
    }
    descriptors[at] = known;
}

/// Keeps a socket or a file from children. It may be closed like any other.
pub(crate) fn unshare<T: AsFd>(descriptor: T) -> T {
    if !cfg!(miri) {
        let number = descriptor.as_fd().as_raw_fd();
        enter(number, Known::of(number));
    }
    descriptor
}

/// Whether a descriptor is a socket or a file that this crate has opened.
#[cfg(any(test, feature = "faults"))]
pub(crate) fn is_ours(number: RawFd) -> bool {
    matches!(table().descriptors.get(number as usize), Some(known @ Known::Inode(..)) if known.is_at(number))
}

/// An epoll set, an eventfd or an object of the kernel that a child does not get.
#[derive(Debug)]
pub(crate) struct Unshared(OwnedFd);

impl Unshared {
    pub(crate) fn new(descriptor: OwnedFd) -> Unshared {
        enter(descriptor.as_raw_fd(), Known::Exactly);
        Unshared(descriptor)
    }
}

impl AsRawFd for Unshared {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Unshared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        // Before the number is free.
        enter(self.0.as_raw_fd(), Known::No);
    }
}

/// Keeps mapped pages from children, which find zeros of their own there. To be taken back by [`share_pages`] before
/// they are unmapped.
pub(crate) fn unshare_pages(start: usize, bytes: usize) {
    table().pages.push((start, bytes));
}

/// See [`unshare_pages`]. In a child there is nothing to take back.
pub(crate) fn share_pages(start: usize) {
    table().pages.retain(|(known, _)| *known != start);
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::time::{Duration, Instant};

    use testkit::Folder;

    use super::*;
    use crate::shm::{Pacing, Receiver, SessionName, Source, SourceOptions};
    use crate::tcp::Moved;
    use crate::{Poller, Token, Waker, tcp};

    fn child(there: impl FnOnce() -> bool) -> testkit::child::Child {
        testkit::child::fork(there).expect("processes are left")
    }

    fn assert_good(child: testkit::child::Child) {
        assert!(child.has_ended_well(), "what the child has to say is above");
    }

    const NAME: SessionName = SessionName { session_id: 7, transport_id: 1 };

    fn ring(place: &Folder) -> (Source, Receiver) {
        let options = SourceOptions {
            directory: place.to_path_buf(),
            ring_bytes: 1 << 16,
            pacing: Pacing::Receiver { drop_stopped_after: None },
            ..SourceOptions::default()
        };
        let source = Source::create(NAME, &options).expect("there is room");
        let mut receiver = Receiver::open(NAME, place).expect("it was just made");
        receiver.enable_sleep().expect("a slot is free");
        (source, receiver)
    }

    /// What a receiver reads until it has `count` messages.
    fn read(receiver: &mut Receiver, count: usize) -> Vec<Vec<u8>> {
        let (mut messages, give_up) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while messages.len() < count && Instant::now() < give_up {
            receiver.poll(usize::MAX, |frame| messages.push(frame.bytes.to_vec())).expect("it reads all");
        }
        messages
    }

    #[test]
    fn a_ring_is_not_written_ended_or_removed_by_a_child_that_drops_it() {
        let place = Folder::in_memory();
        let (mut source, mut receiver) = ring(&place);
        source.push(0, &[b"before"]).unwrap();
        source.publish();
        let bell = place.join(format!("{NAME}.w0"));
        assert!(bell.exists() && source.path().exists());
        let (mut both, home) = (std::mem::ManuallyDrop::new((source, receiver)), Home::here());
        assert_good(child(|| {
            let is_foreign = !home.is_here() && !home.is_certain() && home.check().is_err();
            both.0.push(0, &[b"from the child"]).is_ok() && {
                both.0.publish();
                // SAFETY: in this process they are dropped here alone.
                unsafe { std::mem::ManuallyDrop::drop(&mut both) };
                is_foreign && Home::here().is_certain()
            }
        }));
        assert!(home.is_certain() && bell.exists());
        (source, receiver) = std::mem::ManuallyDrop::into_inner(both);
        source.push(0, &[b"after"]).unwrap();
        source.publish();
        assert_eq!(read(&mut receiver, 2), [&b"before"[..], b"after"]);
        assert!(!receiver.is_over() && source.path().exists());
        drop(source);
        assert!(receiver.is_over() && receiver.has_closed());
    }

    #[test]
    fn a_child_that_lives_on_keeps_no_lock_no_connection_and_no_wake_up_of_its_parent() {
        let place = Folder::in_memory();
        let (source, mut receiver) = ring(&place);
        let listener = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let far = tcp::connect(address).expect("it listens");
        let near = loop {
            if let Some((near, _)) = tcp::accept(&listener).expect("it listens") {
                break near;
            }
        };
        let mut poller = Poller::new().expect("descriptors are left");
        let waker = Waker::new(poller.registrar(), Token(1)).expect("descriptors are left");
        let (mut stop, mut done) = ([0; 2], [0; 2]);
        // SAFETY: room for two descriptors each. They are this test's own and known to nobody.
        assert_eq!(unsafe { libc::pipe(stop.as_mut_ptr()) | libc::pipe(done.as_mut_ptr()) }, 0);
        let living = child(|| {
            let is_cut = tcp::write(&near, b"from the child").is_err();
            waker.wake();
            let mut byte = 0_u8;
            // SAFETY: room for one byte; the pipe's other end is closed when the parent has seen enough.
            let ended = unsafe {
                libc::write(done[1], (&raw const byte).cast(), 1);
                libc::close(stop[1]);
                libc::read(stop[0], (&raw mut byte).cast(), 1)
            };
            is_cut && ended == 0
        });
        let mut byte = 0_u8;
        // SAFETY: room for one byte, which the child writes when it has done all it does.
        assert_eq!(unsafe { libc::read(done[0], (&raw mut byte).cast(), 1) }, 1);
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0, "the child woke its own");
        // As if the parent had died: nothing says that the stream is over but the lock.
        source.lose();
        // Children that other tests make at this moment have everything until their handler has run.
        let give_up = Instant::now() + Duration::from_secs(60);
        let in_time = |what: &str| assert!(Instant::now() < give_up, "the child keeps the {what}");
        while !receiver.is_over() {
            in_time("lock");
        }
        assert!(!receiver.has_closed());
        drop(near);
        while tcp::read(&far, &mut [0; 16]).expect("a clean end") != Moved::End {
            in_time("connection");
        }
        drop(listener);
        let std::net::SocketAddr::V4(address) = address else { unreachable!("bound to IPv4") };
        while tcp::listen(address).is_err() {
            in_time("port");
        }
        // SAFETY: the ends are this test's own.
        unsafe { (libc::close(stop[1]), libc::close(stop[0]), libc::close(done[1]), libc::close(done[0])) };
        assert_good(living);
    }

    #[test]
    fn a_child_made_while_another_thread_was_registering_the_handlers_registers_them_itself() {
        let other = Home::here();
        assert_good(child(|| {
            // As that thread left it, if it had got as far as registering them.
            WATCHED.store(other.process, Ordering::Relaxed);
            let home = Home::here();
            let twice = || {
                let is_forked = !home.is_here() && Home::here().is_certain();
                drop(table());
                is_forked && child(|| !home.is_here()).has_ended_well()
            };
            let is_good = WATCHED.load(Ordering::Relaxed) == WATCHED_BY_ALL && child(twice).has_ended_well();
            drop(table());
            is_good && home.is_certain() && child(|| !home.is_here()).has_ended_well()
        }));
    }

    #[test]
    fn a_number_that_somebody_else_has_by_now_is_left_alone() {
        let socket = unshare(std::net::UdpSocket::bind("127.0.0.1:0").expect("a port is free"));
        let set = Unshared::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap());
        let numbers = [socket.as_raw_fd(), set.as_raw_fd()];
        drop((socket, set));
        // The lowest numbers that are free; other tests may take one of them first.
        let others: Vec<_> = (0..64).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let again: Vec<_> = others.iter().filter(|other| numbers.contains(&other.as_raw_fd())).collect();
        let target = others[0].local_addr().unwrap();
        assert_good(child(|| again.iter().all(|other| other.send_to(b"x", target).is_ok())));
    }
}
