//! The ledger as `/ledger` shows it: what became of each update of providers.

use daemon::LISTED_MAX;
use market::distributor::{Distributor, ProviderLedger, PublishedLedger};
use serde_json::{Value, json};

/// A document of one hop: this one.
pub(crate) fn describe(core: &Distributor) -> Value {
    let others = core.ledger_of_others();
    let hop = json!({
        "role": "source-distributor",
        "instance": format!("{:016x}", core.instance()),
        "received": others.received,
        "of_no_item": others.of_no_item,
        "private": others.private,
        "unreadable": others.unreadable,
        "withdrawn": describe_providers(&others.withdrawn),
        "services": core.ledger().take(LISTED_MAX).map(|service| describe_service(&service)).collect::<Vec<Value>>(),
        "peers": core.peer_flows().take(LISTED_MAX).map(describe_flow).collect::<Vec<Value>>(),
    });
    json!({ "hops": [hop] })
}

fn describe_service(service: &PublishedLedger<'_>) -> Value {
    json!({
        "service": service.service,
        "providers": describe_providers(&service.providers),
        "posted": service.posted,
        "sequence": service.sequence,
        "updates": service.updates,
    })
}

fn describe_providers(ledger: &ProviderLedger) -> Value {
    json!({
        "received": ledger.received(),
        "published": ledger.published,
        "unwanted": ledger.unwanted,
        "standby": ledger.standby,
        "in_images": ledger.in_images,
        "without_image": ledger.without_image,
        "unusable": ledger.unusable,
    })
}

/// How far behind a point-to-point server is.
pub(crate) fn describe_flow((name, lacks, is_left_behind): (&str, u64, bool)) -> Value {
    json!({"name": name, "lacks_bytes": lacks, "left_behind": is_left_behind})
}
