//! What can be set: one section for a consumer, one for a provider.

mod consumer;
mod host;
mod interactive;
mod provider;
mod queue;
mod standby;
mod tls;
mod web;

pub use consumer::{ConsumerConfig, DictionaryMode};
pub use host::{HostPort, HostPortError};
pub use interactive::InteractiveConfig;
pub use provider::{ProviderConfig, ProviderServiceConfig};
pub use queue::{QueueConfig, WhenFull};
pub use standby::{StandbyMode, StandbyServerConfig, WarmStandbyConfig};
pub use tls::ClientTlsConfig;
pub use web::WebSocketConfig;

use config::Complaint;

pub(crate) fn delays_in_order(min_ms: u32, max_ms: u32) -> Result<(), Vec<Complaint>> {
    if min_ms <= max_ms {
        return Ok(());
    }
    let keys = ["reconnect_delay_min_ms", "reconnect_delay_max_ms"];
    Err(vec![Complaint::new(keys, "reconnect_delay_min_ms must be at most reconnect_delay_max_ms")])
}
