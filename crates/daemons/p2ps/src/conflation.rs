//! Reports of clients that are served otherwise than before: to the client, the counters and the log.

use std::time::Duration;

use market::p2ps::{ClientId, PointToPoint};
use server::{Step, StepChange};
use tracing::info;
use units::Nanos;

use crate::market_to_clients::MarketToClients;

/// So many steps are logged within [`SPAN`], the others counted.
const LOGGED: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// Which steps of clients are logged.
#[derive(Debug, Default)]
pub(crate) struct StepLog {
    since: Option<Nanos>,
    logged: u32,
    held_back: u64,
}

impl StepLog {
    /// Whether a step at `now` is to be logged, and how many were held back before it.
    fn admit(&mut self, now: Nanos) -> Option<u64> {
        if self.since.is_none_or(|since| now.since(since) >= SPAN) {
            (self.since, self.logged) = (Some(now), 0);
        }
        if self.logged == LOGGED {
            self.held_back += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.held_back))
    }

    /// A client is served otherwise than before.
    pub(crate) fn report(
        &mut self,
        now: Nanos,
        client: ClientId,
        change: &StepChange,
        core: &mut PointToPoint,
        sink: &mut MarketToClients<'_>,
    ) {
        let is_conflated = change.step == Step::Conflated;
        let (backlog_bytes, oldest_ms) = (change.backlog_bytes, change.oldest.as_millis());
        let why = match is_conflated {
            true => format!(
                "updates are conflated, because this client reads too slowly: {backlog_bytes} bytes wait, the \
                 oldest for {oldest_ms} ms"
            ),
            false => "every update is sent again, because this client has caught up".to_owned(),
        };
        core.set_conflated(now, client, is_conflated, &why, sink);
        if let Some(held_back) = self.admit(now) {
            info!(client = client.0, is_conflated, backlog_bytes, oldest_ms, held_back, "client's step");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_steps_a_few_are_logged_and_the_others_counted() {
        let (mut log, begin) = (StepLog::default(), Nanos(7));
        let admitted: Vec<u64> = (0..25).filter_map(|_| log.admit(begin)).collect();
        assert_eq!(admitted, [0; LOGGED as usize]);
        assert_eq!([log.admit(begin + SPAN), log.admit(begin + SPAN)], [Some(15), Some(0)]);
    }
}
