use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::Args;
use client::{
    HostPort, Provider, ProviderConfig, ProviderServiceConfig, PublishError, PublishedItem, RefreshSpec,
    UpdateSpec,
};
use net::clock;
use rwf::Domain;
use serde_json::json;
use units::Nanos;

use super::Pacing;
use crate::BenchError;
use crate::chain::run_number;
use crate::options::Cpu;
use crate::process::{self, START_LIMIT, answer};
use crate::update::{PreparedUpdates, Profile};

/// Name of the service that workloads publish.
pub(crate) const SERVICE: &str = "BENCH";
/// Its number.
pub(crate) const SERVICE_ID: u16 = 1;

/// Which items there are: some that all mounts watch, and some for each mount alone.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Items {
    #[arg(long, default_value_t = 0)]
    pub(crate) common: u32,
    #[arg(long, default_value_t = 1)]
    pub(crate) mounts: u32,
    #[arg(long)]
    pub(crate) own: u32,
}

impl Items {
    pub(crate) fn common_name(n: u32) -> String {
        format!("C{n}")
    }

    pub(crate) fn own_name(mount: u32, n: u32) -> String {
        format!("O{mount}.{n}")
    }

    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        let pairs = [("--common", self.common), ("--mounts", self.mounts), ("--own", self.own)];
        pairs.iter().flat_map(|(name, count)| [(*name).to_owned(), count.to_string()]).collect()
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        self.common + self.mounts * self.own
    }

    /// The place of an item among all: the common ones stand first, then those of each mount.
    pub(crate) fn place(self, name: &str) -> Option<u32> {
        if let Some(n) = name.strip_prefix('C') {
            return n.parse().ok().filter(|n| *n < self.common);
        }
        let (mount, n) = name.strip_prefix('O')?.split_once('.')?;
        let (mount, n) = (mount.parse::<u32>().ok()?, n.parse::<u32>().ok()?);
        (mount < self.mounts && n < self.own).then(|| self.common + mount * self.own + n)
    }

    /// The place of the item that update number `count`, from 1 on, is for: half of them are for common items if there are
    /// both kinds.
    #[inline]
    pub(crate) fn pick(self, count: u64) -> usize {
        let (common, own) = (self.common as usize, (self.mounts * self.own) as usize);
        if common == 0 || own == 0 {
            return pick_place(common + own, count);
        }
        let n = count / 2;
        if count.is_multiple_of(2) { pick_place(common, n) } else { common + pick_place(own, n) }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PublisherArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    pacing: Pacing,
    #[command(flatten)]
    items: Items,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    cpu: Cpu,
}

/// A provider of such items, and which of them is next.
pub(crate) struct Publisher {
    pub(crate) provider: Provider,
    items: Items,
    /// By their places.
    published: Vec<PublishedItem>,
    profile: Profile,
    updates: PreparedUpdates,
    count: u64,
}

impl Publisher {
    /// Connects and publishes the image of each item.
    pub(crate) fn connect(port: u16, items: Items, profile: Profile) -> Result<Publisher, BenchError> {
        let services = vec![ProviderServiceConfig {
            name: SERVICE.to_owned(),
            id: SERVICE_ID,
            ..ProviderServiceConfig::default()
        }];
        let config = ProviderConfig {
            hosts: vec![HostPort::new("127.0.0.1", port)],
            services,
            keep_images: false,
            reconnect_delay_min_ms: 20,
            reconnect_delay_max_ms: 20,
            ..ProviderConfig::default()
        };
        let mut provider = Provider::new(&config)?;
        let mut open = |name: String| provider.item(Domain::MARKET_PRICE, SERVICE, &name);
        let own = (0..items.mounts).flat_map(|m| (0..items.own).map(move |n| Items::own_name(m, n)));
        let names = (0..items.common).map(Items::common_name).chain(own);
        let published = names.map(&mut open).collect::<Result<_, _>>()?;
        let updates = PreparedUpdates::new(profile)?;
        let mut publisher = Publisher { provider, items, published, profile, updates, count: 0 };
        publisher.publish_images()?;
        Ok(publisher)
    }

    fn publish_images(&mut self) -> Result<(), BenchError> {
        let profile = self.profile;
        let deadline = clock::monotonic().after(START_LIMIT);
        while !self.provider.is_logged_in() {
            self.provider.dispatch(Duration::from_millis(100), &mut |_| ())?;
            if clock::monotonic() > deadline {
                return Err(BenchError::new("the source distributor does not take the login"));
            }
        }
        for item in &self.published {
            loop {
                match self.provider.refresh(*item, &RefreshSpec::default(), |w| profile.write_image(w)) {
                    Err(PublishError::WouldBlock { .. }) => {
                        self.provider.wait_for_room(Duration::from_secs(1), &mut |_| ())?;
                    }
                    Ok(_) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        while !self.provider.flush() {
            self.provider.dispatch(Duration::from_millis(10), &mut |_| ())?;
        }
        Ok(())
    }

    /// Publishes an update for each of these times, half of them to common items if there are both kinds.
    pub(crate) fn publish(&mut self, due: &[Nanos]) -> Result<(), BenchError> {
        if due.is_empty() {
            self.provider.work(&mut |_| ());
            return Ok(());
        }
        for intended in due {
            self.count += 1;
            let item = self.published[self.items.pick(self.count)];
            self.update(item, *intended, 0)?;
        }
        self.provider.flush();
        Ok(())
    }

    /// Publishes the end of a run, in an item that every mount watches.
    pub(crate) fn end_run(&mut self, run: u8, intended: Nanos) -> Result<(), BenchError> {
        let item = *self.published.first().ok_or_else(|| BenchError::new("no items"))?;
        self.update(item, intended, run)?;
        while !self.provider.flush() {
            self.provider.dispatch(Duration::from_millis(10), &mut |_| ())?;
        }
        Ok(())
    }

    fn update(&mut self, item: PublishedItem, intended: Nanos, ends_run: u8) -> Result<(), BenchError> {
        let (count, updates) = (self.count, &self.updates);
        loop {
            match self.provider.update(item, &UpdateSpec::quote(), |w| {
                updates.write(w, count, (intended, ends_run), clock::monotonic);
            }) {
                // The source distributor does not keep up; the time that is waited counts as latency.
                Err(PublishError::WouldBlock { .. }) => {
                    self.provider.wait_for_room(Duration::from_secs(1), &mut |_| ())?;
                }
                Ok(client::Published::Sent) => return Ok(()),
                Ok(other) => {
                    return Err(BenchError::new(format!("an update was {other:?}: the connection is lost")));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// All in turn, but not one after the other.
pub(crate) fn pick<T>(items: &[T], n: u64) -> &T {
    &items[pick_place(items.len(), n)]
}

/// The place of the same among so many.
#[inline]
pub(crate) fn pick_place(len: usize, n: u64) -> usize {
    (n.wrapping_mul(7919) % len as u64) as usize
}

pub(crate) fn publisher(args: &PublisherArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut publisher = Publisher::connect(args.port, args.items, args.profile)?;
    answer(&json!({ "ready": true }));
    let commands = process::commands();
    loop {
        match commands.recv_timeout(Duration::from_millis(20)) {
            Ok(command) => {
                let sent = args.pacing.run(&command, |due| publisher.publish(due))?;
                publisher.end_run(run_number(&command), sent.end)?;
                answer(&sent.answer());
            }
            Err(RecvTimeoutError::Timeout) => {
                publisher.provider.work(&mut |_| ());
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_has_a_place_and_its_share_of_the_updates() {
        let items = Items { common: 3, mounts: 4, own: 5 };
        let own = (0..4).flat_map(|mount| (0..5).map(move |n| Items::own_name(mount, n)));
        let names = (0..3).map(Items::common_name).chain(own);
        let places: Vec<_> = names.map(|name| items.place(&name)).collect();
        assert_eq!(places, (0..items.count()).map(Some).collect::<Vec<_>>());
        for name in ["C3", "O4.0", "O0.5", "O0", "X1", "", "C", "O.1", "C-1"] {
            assert_eq!(items.place(name), None, "{name}");
        }
        let mut counts = [0; 23];
        (1..=600).for_each(|count| counts[items.pick(count)] += 1);
        assert_eq!((&counts[..3], &counts[3..]), (&[100; 3][..], &[15; 20][..]));
        let alone = Items { common: 0, mounts: 1, own: 7 };
        let mut counts = [0; 7];
        (1..=70).for_each(|count| counts[alone.pick(count)] += 1);
        assert_eq!(counts, [10; 7]);
    }
}
