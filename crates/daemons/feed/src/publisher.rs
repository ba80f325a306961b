use client::{ItemError, PublishError, PublishSpec, PublishedItem, RefreshSpec, UpdateSpec};
use rwf::{Domain, State, Writer};

/// Where a feed handler publishes: a provider's connection, or what a test looks at.
///
/// Payloads write the same each time they are called. An error says that the message is not published;
/// nothing waits.
pub trait Publisher {
    /// The item of that name, a new one if there is none; its messages are numbered.
    ///
    /// # Errors
    /// [`ItemError`].
    fn item(&mut self, domain: Domain, name: &str) -> Result<PublishedItem, ItemError>;

    /// Publishes a whole image.
    ///
    /// # Errors
    /// [`PublishError`].
    fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError>;

    /// Publishes a change.
    ///
    /// # Errors
    /// [`PublishError`].
    fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError>;

    /// Publishes a state.
    ///
    /// # Errors
    /// [`PublishError`].
    fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<(), PublishError>;
}

/// A provider publishes into the one service that it was made for.
pub(crate) struct ServicePublisher<'p> {
    pub(crate) provider: &'p mut client::Provider,
    pub(crate) service: &'p str,
}

impl Publisher for ServicePublisher<'_> {
    fn item(&mut self, domain: Domain, name: &str) -> Result<PublishedItem, ItemError> {
        let spec = PublishSpec { seq_nums: true, ..PublishSpec::new(domain, self.service, name) };
        self.provider.item_with(&spec)
    }

    fn refresh(
        &mut self,
        item: PublishedItem,
        spec: &RefreshSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError> {
        self.provider.refresh(item, spec, payload).map(drop)
    }

    fn update(
        &mut self,
        item: PublishedItem,
        spec: &UpdateSpec<'_>,
        payload: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(), PublishError> {
        self.provider.update(item, spec, payload).map(drop)
    }

    fn status(&mut self, item: PublishedItem, state: State<'_>) -> Result<(), PublishError> {
        self.provider.status(item, state).map(drop)
    }
}
