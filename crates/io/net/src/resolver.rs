//! Host names are looked up on threads of their own: the system's resolver blocks for as long as its name
//! servers keep it waiting, which is seconds where one of them is gone.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::fork::{self, Home};

/// Threads of [`Resolver::system`], of which as many names can hang before further ones wait for a thread.
const THREADS_MAX: usize = 8;
/// How long a thread without work stays.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Looks up host names without keeping its callers waiting. A clone is the same resolver.
///
/// Threads are started when they are needed, end when they have had nothing to do for some seconds, and are
/// never more than the resolver was made for. A look-up cannot be stopped, but it is done once for all who
/// want the same name meanwhile: a name whose look-up hangs occupies one thread, however often it is tried.
/// With as many such names as threads, others wait for a thread.
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

/// The look-up of one name. It is given up when it is dropped.
///
/// Its descriptor ([`AsFd`]) is to be waited for with [`Interest::Read`](crate::Interest::Read); when it is
/// ready, [`answer`](Lookup::answer) has the answer.
pub struct Lookup {
    shared: Arc<Shared>,
    name: String,
    id: u64,
    answer: Receiver<Vec<SocketAddr>>,
    /// At its end when the answer is there.
    done: PipeReader,
}

/// Resolves a name to addresses, whose ports do not matter; to none if that fails.
type Function = dyn Fn(&str) -> Vec<SocketAddr> + Send + Sync;

struct Shared {
    home: Home,
    function: Box<Function>,
    threads_max: usize,
    idle_max: Duration,
    state: Mutex<State>,
    queued: Condvar,
}

#[derive(Default)]
struct State {
    /// Who waits, by name: for names in the queue, and for those that a thread is at.
    waiting: BTreeMap<String, Vec<Waiter>>,
    /// Names that no thread is at yet.
    queue: VecDeque<String>,
    threads: usize,
    /// Threads that wait for a name.
    idle: usize,
    last_id: u64,
}

struct Waiter {
    id: u64,
    answer: SyncSender<Vec<SocketAddr>>,
    /// Dropped behind the answer.
    _done: PipeWriter,
}

impl Resolver {
    /// The system's resolver (`getaddrinfo`), one for the process, with at most 8 threads.
    #[must_use]
    pub fn system() -> Resolver {
        static SYSTEM: Mutex<Option<Resolver>> = Mutex::new(None);
        // Who forks meanwhile waits: the child would find it locked for ever.
        let _held = fork::hold();
        let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(resolver) = system.as_ref().filter(|resolver| resolver.0.home.is_here()) {
            return resolver.clone();
        }
        let addresses = |name: &str| (name, 0).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        let resolver = Resolver::new(THREADS_MAX, addresses);
        *system = Some(resolver.clone());
        resolver
    }

    /// A resolver on at most `threads_max` threads (at least one). `function` resolves a name to addresses,
    /// whose ports do not matter, or to none; it may take its time, and must not panic.
    #[must_use]
    pub fn new(
        threads_max: usize,
        function: impl Fn(&str) -> Vec<SocketAddr> + Send + Sync + 'static,
    ) -> Resolver {
        Resolver(Arc::new(Shared {
            home: Home::here(),
            function: Box::new(function),
            threads_max: threads_max.max(1),
            idle_max: IDLE_MAX,
            state: Mutex::default(),
            queued: Condvar::new(),
        }))
    }

    /// Begins to look up a name.
    ///
    /// # Errors
    /// The process is out of descriptors, or has no thread and gets none; or it is a child made by `fork`, which does
    /// not have its parent's threads ([`Forked`](fork::Forked)).
    pub fn look_up(&self, name: &str) -> io::Result<Lookup> {
        self.0.home.check()?;
        let (done, _done) = io::pipe()?;
        let (sender, answer) = mpsc::sync_channel(1);
        let mut state = self.0.lock();
        state.last_id += 1;
        let id = state.last_id;
        let waiter = Waiter { id, answer: sender, _done };
        if let Some(waiters) = state.waiting.get_mut(name) {
            waiters.push(waiter);
        } else {
            self.0.employ(&mut state)?;
            state.waiting.insert(name.to_owned(), vec![waiter]);
            state.queue.push_back(name.to_owned());
        }
        drop(state);
        Ok(Lookup { shared: Arc::clone(&self.0), name: name.to_owned(), id, answer, done })
    }
}

impl Lookup {
    /// The addresses, with any port, once they are known; none if the name stands for none, or that could
    /// not be found out. To be asked until it has answered.
    #[must_use]
    pub fn answer(&self) -> Option<Vec<SocketAddr>> {
        if !self.shared.home.is_here() {
            // Its thread is the parent's.
            return Some(Vec::new());
        }
        match self.answer.try_recv() {
            Ok(addresses) => Some(addresses),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Vec::new()),
        }
    }
}

impl AsFd for Lookup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        if !self.shared.home.is_here() {
            // A thread that is not there may have locked it.
            return;
        }
        let State { waiting, queue, .. } = &mut *self.shared.lock();
        let Some(waiters) = waiting.get_mut(&self.name) else { return };
        waiters.retain(|waiter| waiter.id != self.id);
        if waiters.is_empty()
            && let Some(at) = queue.iter().position(|name| *name == self.name)
        {
            queue.remove(at);
            waiting.remove(&self.name);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that somebody comes for one more name.
    fn employ(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.idle > state.queue.len() {
            self.queued.notify_one();
        } else if state.threads < self.threads_max {
            let shared = Arc::clone(self);
            let thread = thread::Builder::new().name("tickcast-names".to_owned());
            match thread.spawn(move || {
                crate::affinity::step_aside();
                shared.work();
            }) {
                Ok(_) => state.threads += 1,
                // The threads there are will come for it.
                Err(_) if state.threads > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(name) = state.queue.pop_front() {
                drop(state);
                let addresses = (self.function)(&name);
                state = self.lock();
                for waiter in state.waiting.remove(&name).into_iter().flatten() {
                    // Who has given it up has taken its waiter away.
                    let _ = waiter.answer.send(addresses.clone());
                }
                continue;
            }
            state.idle += 1;
            let waited = self.queued.wait_timeout(state, self.idle_max);
            let (locked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("threads_max", &self.0.threads_max).finish_non_exhaustive()
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;
    use crate::{Interest, Poller, Token};

    const LIMIT: Duration = Duration::from_secs(30);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 0))
    }

    /// A resolver that tells of each name it begins with, and answers when it is told to, in that order.
    struct Bench {
        resolver: Resolver,
        begun: Receiver<String>,
        answers: Sender<Vec<SocketAddr>>,
    }

    impl Bench {
        fn new(threads_max: usize) -> Bench {
            let ((tell, begun), (answers, told)) = (mpsc::channel(), mpsc::channel());
            let told = Mutex::new(told);
            let resolver = Resolver::new(threads_max, move |name| {
                tell.send(name.to_owned()).expect("the test goes on");
                told.lock().expect("no test panics with it").recv().unwrap_or_default()
            });
            Bench { resolver, begun, answers }
        }

        fn begins(&self) -> String {
            self.begun.recv_timeout(LIMIT).expect("a thread takes the name")
        }
    }

    fn wait_for(lookup: &Lookup) -> Vec<SocketAddr> {
        let mut poller = Poller::new().unwrap();
        poller.registrar().add(lookup, Token(7), Interest::Read).unwrap();
        assert_eq!(
            poller.wait(Some(LIMIT)).unwrap().map(|ready| ready.token).collect::<Vec<_>>(),
            [Token(7)]
        );
        lookup.answer().expect("the descriptor is ready")
    }

    #[cfg(not(miri))]
    #[test]
    fn a_child_made_by_fork_has_a_system_resolver_of_its_own_and_no_use_of_its_parents() {
        let resolver = Resolver::system();
        // Its thread idles from then on, for as long as a test takes.
        wait_for(&resolver.look_up("127.0.0.1").expect("descriptors are left"));
        let pending = resolver.look_up("127.0.0.2").expect("descriptors are left");
        let child = testkit::child::fork(|| {
            let is_refused = resolver.look_up("127.0.0.1").is_err_and(|error| fork::Forked::is(&error));
            let is_over = pending.answer() == Some(Vec::new());
            drop(pending);
            let own = Resolver::system().look_up("127.0.0.1").expect("descriptors are left");
            is_refused && is_over && wait_for(&own) == [SocketAddr::from(([127, 0, 0, 1], 0))]
        });
        assert!(child.expect("processes are left").has_ended_well());
    }

    #[test]
    fn the_descriptor_is_ready_when_the_answer_is_there() {
        let bench = Bench::new(1);
        let lookup = bench.resolver.look_up("a").unwrap();
        assert_eq!((bench.begins().as_str(), lookup.answer()), ("a", None));
        bench.answers.send(vec![address(1), address(2)]).unwrap();
        assert_eq!(wait_for(&lookup), [address(1), address(2)]);
        let lookup = bench.resolver.look_up("b").unwrap();
        bench.answers.send(Vec::new()).unwrap();
        assert_eq!(wait_for(&lookup), []);
    }

    #[test]
    fn a_name_that_hangs_is_looked_up_once_for_all_who_want_it() {
        let bench = Bench::new(4);
        let first = bench.resolver.look_up("a").unwrap();
        assert_eq!(bench.begins(), "a");
        drop(first);
        let (second, third) = (bench.resolver.look_up("a").unwrap(), bench.resolver.look_up("a").unwrap());
        assert_eq!(bench.resolver.0.lock().threads, 1);
        bench.answers.send(vec![address(1)]).unwrap();
        assert_eq!((wait_for(&second), wait_for(&third)), (vec![address(1)], vec![address(1)]));
        assert!(bench.begun.try_recv().is_err(), "no second look-up");
    }

    #[test]
    fn no_more_threads_hang_than_are_allowed_and_what_was_given_up_is_not_looked_up() {
        let bench = Bench::new(2);
        let hanging = ["a", "b"].map(|name| bench.resolver.look_up(name).unwrap());
        let mut begun = [bench.begins(), bench.begins()];
        begun.sort();
        assert_eq!(begun, ["a", "b"]);
        let (given_up, waiting) =
            (bench.resolver.look_up("c").unwrap(), bench.resolver.look_up("d").unwrap());
        assert_eq!(bench.resolver.0.lock().threads, 2);
        drop(given_up);
        drop(hanging);
        bench.answers.send(Vec::new()).unwrap();
        assert_eq!(bench.begins(), "d");
        bench.answers.send(vec![address(4)]).unwrap();
        bench.answers.send(vec![address(4)]).unwrap();
        assert_eq!(wait_for(&waiting), [address(4)]);
    }

    #[test]
    fn threads_without_work_end_and_new_ones_come() {
        let mut resolver = Resolver::new(1, |_| vec![address(1)]);
        Arc::get_mut(&mut resolver.0).expect("nobody has it yet").idle_max = Duration::from_millis(1);
        for _ in 0..3 {
            assert_eq!(wait_for(&resolver.look_up("a").unwrap()), [address(1)]);
            while resolver.0.lock().threads > 0 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn the_system_knows_this_host_and_no_name_without_letters() {
        let resolver = Resolver::system();
        let addresses = wait_for(&resolver.look_up("localhost").unwrap());
        assert!(addresses.iter().any(|address| address.ip().is_loopback()), "{addresses:?}");
        assert_eq!(wait_for(&resolver.look_up("").unwrap()), []);
    }
}
