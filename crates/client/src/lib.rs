//! Consumer and provider API over RSSL.
