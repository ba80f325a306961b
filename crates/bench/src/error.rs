use std::fmt;
use std::io;

/// Why a workload did not come to an end.
#[derive(Debug)]
pub struct BenchError(String);

impl BenchError {
    pub(crate) fn new(text: impl Into<String>) -> BenchError {
        BenchError(text.into())
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BenchError {}

macro_rules! from {
    ($($error:ty),+) => {
        $(impl From<$error> for BenchError {
            fn from(error: $error) -> Self {
                BenchError(error.to_string())
            }
        })+
    };
}

from!(
    io::Error,
    serde_json::Error,
    client::StartError,
    client::ItemError,
    client::PublishError,
    client::SubscribeError,
    messaging::ContextError,
    rwf::DecodeError,
    rwf::EncodeError,
    rssl::ConfigError,
    net::tls::TlsError,
    roles::Failure
);
