//! The ledger: what became of each update of providers, by service.
//!
//! Two equations hold at every moment: all updates received = those of each service, by what became of them, and those
//! that were of none; and the updates on a stream = those published of providers + those that posts have made. Each side
//! is counted for itself. The simulator compares them in each world.

/// What became of the updates that providers sent of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderLedger {
    /// Published on the stream.
    pub published: u64,
    /// Kept in the image alone, because no point-to-point server wants the item.
    pub unwanted: u64,
    /// Of a provider that stands by: kept for when the other one is lost.
    pub standby: u64,
    /// Of an image whose last part has not come: they are in the image.
    pub in_images: u64,
    /// Of an item without an image: dropped.
    pub without_image: u64,
    /// They could not be read: their items are suspect until the next image.
    pub unusable: u64,
}

impl ProviderLedger {
    /// All that were received.
    #[must_use]
    pub fn received(&self) -> u64 {
        let ProviderLedger { published, unwanted, standby, in_images, without_image, unusable } = *self;
        published + unwanted + standby + in_images + without_image + unusable
    }

    fn add(&mut self, other: &ProviderLedger) {
        self.published += other.published;
        self.unwanted += other.unwanted;
        self.standby += other.standby;
        self.in_images += other.in_images;
        self.without_image += other.without_image;
        self.unusable += other.unusable;
    }
}

/// What became of the updates that were of no service, and of those of services that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DistributorLedger {
    /// All updates that providers have sent.
    pub received: u64,
    /// Of an item that was not known: it never had an image.
    pub of_no_item: u64,
    /// On private streams: they go to one client, and not on the backbone.
    pub private: u64,
    /// Their item could not be told, or they were malformed.
    pub unreadable: u64,
    /// Of services that were withdrawn.
    pub withdrawn: ProviderLedger,
}

impl DistributorLedger {
    /// A service is withdrawn.
    pub(super) fn close(&mut self, service: &ProviderLedger) {
        self.withdrawn.add(service);
    }
}

/// A service in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedLedger<'a> {
    /// Its name.
    pub service: &'a str,
    /// What became of the updates of providers.
    pub providers: ProviderLedger,
    /// Updates that posts of clients have made, published too.
    pub posted: u64,
    /// The number of the last message of the stream; the first one is 1.
    pub sequence: u64,
    /// Updates on the stream.
    pub updates: u64,
}
