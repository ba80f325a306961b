//! Consumer and provider API over RSSL.

mod config;
mod connector;
mod consumer;
mod driver;
mod endpoint;
mod identity;
mod login;
mod provider;
mod reason;
mod table;
mod wire;

pub use self::config::{
    ConsumerConfig, DictionaryMode, HostPort, HostPortError, ProviderConfig, ProviderServiceConfig,
};
pub use connector::Socket;
pub use consumer::{
    Consumer, ConsumerChannel, ConsumerCore, ConsumerEvent, DictionaryFault, EntryFields, FieldId, FieldRef,
    FieldView, Fields, ItemEvent, ItemHandle, ItemMsg, ItemRequestSpec, MapEntryView, MapEntryViews, MapView,
    OwnedEvent, OwnedItemEvent, ServiceChange, ServiceEvent, SubscribeError,
};
pub use driver::StartError;
pub use endpoint::Endpoint;
pub use identity::Identity;
pub use provider::{
    ItemError, Provider, ProviderCore, ProviderEvent, PublishError, PublishSpec, Published, PublishedItem,
    RefreshSpec, UpdateSpec,
};
pub use reason::{ConnectFailure, DisconnectReason};
