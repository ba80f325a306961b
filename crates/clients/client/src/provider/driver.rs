//! The provider with its socket.

use std::io;
use std::ops::Deref;
use std::time::Duration;

use net::clock;
use rdm::RdmError;
use rdm::directory::Service;
use rwf::{Dictionary, Domain, NakCode, State, Writer};

use super::{
    ItemError, ProviderCore, ProviderEvent, PublishError, PublishSpec, Published, PublishedItem,
    PublishedTicket, RefreshSpec, UpdateSpec,
};
use crate::driver::{Driver, driver_calls};
use crate::wire::READS_MAX;
use crate::{Identity, ProviderConfig, StartError};

/// Bytes read at once; a server has little to say to a provider.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// A non-interactive provider: publishes items at a distribution server.
///
/// What is published waits until [`Provider::flush`], or [`Provider::dispatch`], which also connects, reads
/// and looks at the time, and is therefore to be called again and again. Messages that were published between
/// two flushes share frames and system calls.
///
/// ```no_run
/// use std::time::Duration;
/// use tickcast_client::{
///     Domain, Provider, ProviderConfig, ProviderServiceConfig, Real, RefreshSpec, UpdateSpec, Writer,
/// };
///
/// let services = vec![ProviderServiceConfig { name: "NI_PUB".into(), ..Default::default() }];
/// let mut provider = Provider::new(&ProviderConfig { services, ..ProviderConfig::default() })?;
/// let item = provider.item(Domain::MARKET_PRICE, "NI_PUB", "IBM.N")?;
/// let bid = |n| move |w: &mut Writer<'_>| w.field_list(|f| f.put(22, Real::decimal(n, 2)));
/// let _ = provider.refresh(item, &RefreshSpec::default(), bid(3990))?;
/// for price in 3991.. {
///     let _ = provider.update(item, &UpdateSpec::quote(), bid(price))?;
///     provider.dispatch(Duration::from_millis(100), &mut |event| eprintln!("{event}"))?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Provider {
    driver: Driver<ProviderCore>,
}

impl Provider {
    /// A provider that connects with the first call of [`Provider::dispatch`].
    ///
    /// # Errors
    /// [`StartError`] for a configuration that cannot be used, or a system without resources.
    pub fn new(config: &ProviderConfig) -> Result<Provider, StartError> {
        let identity = Identity::of_process(config.password_file.as_deref())?;
        let core = ProviderCore::new(config, &identity, clock::seed())?;
        Ok(Provider { driver: Driver::new(core, READ_BUFFER_BYTES, config.tls.as_ref())? })
    }

    /// The same with a dictionary (a copy): fields can be put by their names, a value of another type than the
    /// dictionary's is refused, and images know which fields ripple, and which are texts that can be changed
    /// in part.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: &Dictionary) -> Provider {
        self.driver.core.set_dictionary(dictionary);
        self
    }

    /// The item of a key: a new one, or the one that was published before.
    ///
    /// # Errors
    /// As [`ProviderCore::item`].
    pub fn item(&mut self, domain: Domain, service: &str, name: &str) -> Result<PublishedItem, ItemError> {
        self.driver.core.item(&PublishSpec::new(domain, service, name))
    }

    /// The same with more to say about the item.
    ///
    /// # Errors
    /// As [`ProviderCore::item`].
    pub fn item_with(&mut self, spec: &PublishSpec<'_>) -> Result<PublishedItem, ItemError> {
        self.driver.core.item(spec)
    }

    /// Publishes the whole image of an item; see [`ProviderCore::refresh`].
    ///
    /// # Errors
    /// As [`ProviderCore::refresh`].
    pub fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<Published, PublishError> {
        self.driver.core.refresh(item, spec, payload)
    }

    /// Publishes a change; see [`ProviderCore::update`].
    ///
    /// # Errors
    /// As [`ProviderCore::update`].
    #[inline]
    pub fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: impl FnMut(&mut Writer<'_>),
    ) -> Result<Published, PublishError> {
        self.driver.core.update(item, spec, payload)
    }

    /// Publishes a state; see [`ProviderCore::status`].
    ///
    /// # Errors
    /// As [`ProviderCore::status`].
    pub fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<Published, PublishError> {
        self.driver.core.status(item, state)
    }

    /// Ends an item; see [`ProviderCore::close`].
    ///
    /// # Errors
    /// As [`ProviderCore::close`].
    pub fn close_item(&mut self, item: PublishedItem, text: &str) -> Result<Published, PublishError> {
        self.driver.core.close(item, text)
    }

    /// Answers that a post was taken; see [`ProviderCore::ack`].
    pub fn ack(&mut self, ticket: PublishedTicket) -> bool {
        self.driver.core.ack(ticket)
    }

    /// Answers that a post was refused; see [`ProviderCore::nak`].
    pub fn nak(&mut self, ticket: PublishedTicket, code: NakCode, text: &str) -> bool {
        self.driver.core.nak(ticket, code, text)
    }

    /// Changes what the directory says about a service; see [`ProviderCore::change_service`].
    ///
    /// # Errors
    /// As [`ProviderCore::change_service`].
    pub fn change_service(&mut self, name: &str, change: impl FnOnce(&mut Service)) -> Result<(), RdmError> {
        self.driver.core.change_service(name, change)
    }
}

impl Provider {
    /// Writes what was published, as far as the socket takes it. Returns whether all of it is written. That a
    /// connection is found dead here is told in the next call of [`Provider::dispatch`].
    pub fn flush(&mut self) -> bool {
        self.driver.flush()
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn backlog_bytes(&mut self) -> usize {
        self.driver.core.backlog_bytes()
    }

    /// After [`PublishError::WouldBlock`]: works and waits, for at most `timeout`, until at most half of the
    /// backlog is used, or there is no connection. Returns whether that is so.
    ///
    /// # Errors
    /// As [`Provider::dispatch`].
    pub fn wait_for_room<F: FnMut(ProviderEvent<'_>)>(
        &mut self,
        timeout: Duration,
        on_event: &mut F,
    ) -> io::Result<bool> {
        let deadline = clock::monotonic().after(timeout);
        loop {
            self.driver.work(READS_MAX, on_event);
            let now = clock::monotonic();
            if self.driver.core.has_room() || now >= deadline {
                return Ok(self.driver.core.has_room());
            }
            self.driver.wait(true, deadline, now)?;
        }
    }

    /// Logs out, writes what is pending, and closes the connection.
    pub fn close(mut self) {
        self.driver.core.stop(&mut |_| ());
        self.driver.close();
    }
}

driver_calls!(Provider, ProviderEvent);

impl Deref for Provider {
    type Target = ProviderCore;

    fn deref(&self) -> &ProviderCore {
        &self.driver.core
    }
}
