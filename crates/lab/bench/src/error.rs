use std::fmt;
use std::io;

/// Why a workload did not come to an end.
#[derive(Debug)]
pub enum BenchError {
    /// Something went wrong while it ran.
    Run(String),
    /// What it found out cannot be written to standard output.
    Output(io::Error),
}

impl BenchError {
    pub(crate) fn new(text: impl Into<String>) -> BenchError {
        BenchError::Run(text.into())
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Run(text) => f.write_str(text),
            BenchError::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}

macro_rules! from {
    ($($error:ty),+) => {
        $(impl From<$error> for BenchError {
            fn from(error: $error) -> Self {
                BenchError::Run(error.to_string())
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
    measure::ends::Failure,
    measure::run::RunError
);
