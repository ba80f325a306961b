//! A run that fails is made smaller: fewer steps, parts and faults, as long as it fails in the same way.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::plan::{Host, Plan, Step};
use crate::world::{Outcome, World};

thread_local! {
    /// Panics of this thread are the results of attempts.
    static IS_ATTEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Panics of attempts are not printed.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_ATTEMPT.get() {
                print(panic);
            }
        }));
    });
}

/// Runs a plan; the error is what a panic says.
///
/// # Errors
/// A promise was broken.
pub fn attempt(plan: &Plan) -> Result<Outcome, String> {
    be_quiet();
    IS_ATTEMPT.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| World::new(plan.clone()).run())).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    });
    IS_ATTEMPT.set(false);
    result
}

/// Attempts to make a run smaller before it is shown.
const ATTEMPTS: usize = 800;

/// What is to be said of a run that fails: the command that repeats it, and a smaller one that fails in the same way.
#[must_use]
pub fn explain(plan: &Plan, failure: &str) -> String {
    let (smaller, of_smaller) = shrink(plan, failure, ATTEMPTS);
    let seed = plan.seed;
    format!(
        "seed {seed}: {failure}\nrepeat with: SEED={seed} cargo test --profile ci -p tickcast-topology --test topology \
         any_topology_under_any_faults -- --exact\nsmaller, it fails with: {of_smaller}\n{smaller:#?}"
    )
}

/// Runs a seed.
///
/// # Panics
/// If it fails; the message has a smaller run that fails too.
#[must_use]
pub fn check(seed: u64) -> Outcome {
    let plan = Plan::draw(seed);
    attempt(&plan).unwrap_or_else(|failure| panic!("{}", explain(&plan, &failure)))
}

/// What kind of failure it is: what stands before the first colon.
fn kind(failure: &str) -> &str {
    failure.split(':').next().unwrap_or_default()
}

/// A run that is at most so many attempts smaller than the one that fails, and how it fails.
#[must_use]
pub fn shrink(plan: &Plan, failure: &str, attempts: usize) -> (Plan, String) {
    let mut shrinker = Shrinker { best: plan.clone(), failure: failure.to_owned(), attempts };
    loop {
        let before = shrinker.attempts;
        let improved = shrinker.fewer_steps() | shrinker.fewer_parts() | shrinker.fewer_faults();
        if !improved || shrinker.attempts == 0 || shrinker.attempts == before {
            return (shrinker.best, shrinker.failure);
        }
    }
}

struct Shrinker {
    best: Plan,
    failure: String,
    attempts: usize,
}

impl Shrinker {
    /// Takes a smaller plan if it fails in the same way.
    fn takes(&mut self, smaller: Plan) -> bool {
        if self.attempts == 0 {
            return false;
        }
        self.attempts -= 1;
        match attempt(&smaller) {
            Err(failure) if kind(&failure) == kind(&self.failure) => {
                (self.best, self.failure) = (smaller, failure);
                true
            }
            _ => false,
        }
    }

    fn fewer_steps(&mut self) -> bool {
        let mut improved = false;
        let mut size = self.best.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.steps.len() {
                let mut smaller = self.best.clone();
                let end = (at + size).min(smaller.steps.len());
                smaller.steps.drain(at..end);
                if self.takes(smaller) {
                    improved = true;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        improved
    }

    fn fewer_parts(&mut self) -> bool {
        let mut improved = false;
        for remove in [without_client, without_server, without_service] {
            let mut at = 0;
            while let Some(smaller) = remove(&self.best, at) {
                if self.takes(smaller) {
                    improved = true;
                } else {
                    at += 1;
                }
            }
        }
        improved
    }

    fn fewer_faults(&mut self) -> bool {
        let changes: [fn(&mut Plan); 9] = [
            |plan| plan.lags = false,
            |plan| plan.weather.loss = 0.0,
            |plan| plan.weather.to_bad = 0.0,
            |plan| plan.weather.duplicate = 0.0,
            |plan| plan.weather.reorder = 0.0,
            |plan| plan.weather.cut = 0.0,
            |plan| plan.small_window = false,
            |plan| plan.message_size = 6_144,
            |plan| plan.servers.iter_mut().for_each(|server| server.shards = 0),
        ];
        let mut improved = false;
        for change in changes {
            let mut smaller = self.best.clone();
            change(&mut smaller);
            if format!("{smaller:?}") != format!("{:?}", self.best) {
                improved |= self.takes(smaller);
            }
        }
        improved
    }
}

/// A number behind one that was removed is one less; the one that was removed is none.
fn behind(at: usize, removed: usize) -> Option<usize> {
    if at == removed { None } else { Some(at - usize::from(at > removed)) }
}

/// Steps with other numbers; those that speak of what is gone are left out.
fn renumber(
    plan: &mut Plan,
    host: impl Fn(Host) -> Option<Host>,
    client: impl Fn(usize) -> Option<usize>,
    item: impl Fn(usize) -> Option<usize>,
) {
    let steps = std::mem::take(&mut plan.steps);
    let step = |step: Step| {
        Some(match step {
            Step::Update(at, other) => Step::Update(item(at)?, other),
            Step::Refresh(at) => Step::Refresh(item(at)?),
            Step::Crash(at, span) => Step::Crash(host(at)?, span),
            Step::Break(a, b) => Step::Break(host(a)?, host(b)?),
            Step::Cut(a, b, span) => Step::Cut(host(a)?, host(b)?, span),
            Step::Slow(at, span) => Step::Slow(client(at)?, span),
            Step::Reopen(at, of) => Step::Reopen(client(at)?, item(of)?),
        })
    };
    plan.steps = steps.into_iter().filter_map(|(at, known)| Some((at, step(known)?))).collect();
}

fn without_client(plan: &Plan, at: usize) -> Option<Plan> {
    if at >= plan.clients.len() || plan.clients.len() == 1 {
        return None;
    }
    let mut smaller = plan.clone();
    smaller.clients.remove(at);
    let host = |host| match host {
        Host::Client(known) => behind(known, at).map(Host::Client),
        other => Some(other),
    };
    renumber(&mut smaller, host, |known| behind(known, at), Some);
    Some(smaller)
}

/// A server with all that stands behind it.
fn without_server(plan: &Plan, at: usize) -> Option<Plan> {
    if at >= plan.servers.len() {
        return None;
    }
    let mut smaller = plan.clone();
    if let Some(further) = smaller.servers.iter().rposition(|server| server.upstream == Some(at)) {
        smaller = without_server(&smaller, further)?;
    }
    if smaller.servers.iter().any(|server| server.upstream == Some(at)) {
        return without_server(&smaller, at);
    }
    while let Some(client) = smaller.clients.iter().position(|client| client.server == at) {
        smaller = without_client(&smaller, client)?;
    }
    smaller.servers.remove(at);
    if smaller.servers.is_empty() {
        return None;
    }
    for server in &mut smaller.servers {
        server.upstream = server.upstream.and_then(|known| behind(known, at));
    }
    for client in &mut smaller.clients {
        client.server = behind(client.server, at)?;
    }
    let host = |host| match host {
        Host::Server(known) => behind(known, at).map(Host::Server),
        other => Some(other),
    };
    renumber(&mut smaller, host, Some, Some);
    Some(smaller)
}

fn without_service(plan: &Plan, at: usize) -> Option<Plan> {
    if at >= plan.services.len() || plan.services.len() == 1 {
        return None;
    }
    let mut smaller = plan.clone();
    let gone = smaller.services.remove(at).items;
    let first: usize = plan.services[..at].iter().map(|service| service.items).sum();
    let host = |host| match host {
        Host::Provider(known) => behind(known, at).map(Host::Provider),
        other => Some(other),
    };
    let item = |item: usize| match item {
        item if item < first => Some(item),
        item if item < first + gone => None,
        item => Some(item - gone),
    };
    renumber(&mut smaller, host, Some, item);
    Some(smaller)
}
