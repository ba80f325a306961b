//! Reports of clients that are served otherwise than before: to the client, the counters and the log.

use market::Ration;
use market::p2ps::{ClientId, PointToPoint};
use server::{Step, StepChange};
use tracing::info;
use units::Nanos;

use crate::market_to_clients::MarketToClients;

/// Logs the steps of clients, of many not each.
#[derive(Debug, Default)]
pub(crate) struct StepLog(Ration);

impl StepLog {
    /// A client is served otherwise than before.
    pub(crate) fn report(
        &mut self,
        now: Nanos,
        client: ClientId,
        change: &StepChange,
        core: &mut PointToPoint,
        sink: &mut MarketToClients<'_>,
    ) {
        let is_conflated = change.step != Step::Tick;
        let is_at_interval = change.step == Step::Interval;
        let was_at_interval =
            core.client_info_of(client).is_some_and(|info| info.at_interval_since.is_some());
        let (backlog_bytes, oldest_ms) = (change.backlog_bytes, change.oldest.as_millis());
        let why = match (change.step, change.bytes_per_second) {
            (Step::Interval, _) => format!(
                "newest values are sent in rounds, because this client reads too slowly for them: {backlog_bytes} \
                 bytes wait, the oldest for {oldest_ms} ms"
            ),
            (Step::Conflated, _) if was_at_interval => {
                "newest values are sent as there is room again, because this client reads faster".to_owned()
            }
            (Step::Conflated, Some(rate)) => format!(
                "updates are conflated, because this client is sent {rate} bytes a second at most: \
                 {backlog_bytes} bytes wait, the oldest for {oldest_ms} ms"
            ),
            (Step::Conflated, None) => format!(
                "updates are conflated, because this client reads too slowly: {backlog_bytes} bytes wait, the \
                 oldest for {oldest_ms} ms"
            ),
            (Step::Tick | Step::Disconnected, _) => {
                "every update is sent again, because this client has caught up".to_owned()
            }
        };
        core.set_conflated(now, client, is_conflated, &why, sink);
        core.set_at_interval(now, client, is_at_interval, &why, sink);
        if let Some(held_back) = self.0.take(now) {
            info!(
                client = client.0,
                is_conflated, is_at_interval, backlog_bytes, oldest_ms, held_back, "client's step"
            );
        }
    }
}
