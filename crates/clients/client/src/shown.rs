//! What consumers and providers alike are told of their session, as people read it.

use std::fmt;
use std::time::Duration;

use rwf::State;

use crate::{DisconnectReason, HostPort};

pub(crate) fn connected(
    f: &mut fmt::Formatter<'_>,
    host: &HostPort,
    component: impl fmt::Display,
) -> fmt::Result {
    write!(f, "connected to {host}")?;
    match component.to_string() {
        unnamed if unnamed.is_empty() => Ok(()),
        named => write!(f, " ({named})"),
    }
}

pub(crate) fn disconnected(
    f: &mut fmt::Formatter<'_>,
    host: &HostPort,
    reason: DisconnectReason,
    retry_in: Option<Duration>,
) -> fmt::Result {
    write!(f, "no connection to {host}: {reason}")?;
    if let Some(advice) = reason.advice() {
        write!(f, " ({advice})")?;
    }
    match retry_in {
        Some(delay) => write!(f, "; next attempt in {:.1} s", delay.as_secs_f64()),
        None => f.write_str("; nothing more is tried"),
    }
}

pub(crate) fn login_refused(f: &mut fmt::Formatter<'_>, state: State<'_>, retry: bool) -> fmt::Result {
    write!(f, "login refused: {state}")?;
    f.write_str(if retry { "; it is tried again" } else { "; it is not tried again" })
}
