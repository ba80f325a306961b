//! What status pages show beside clients: services, counts, items.

use daemon::Query;
use market::p2ps::{PointToPoint, ServiceInfo};
use market::{OwnedKey, Scratch};
use rwf::Domain;
use rwf::print::Pretty;
use serde_json::{Value, json};
use units::Nanos;

/// So much of an item's image is printed, about.
const IMAGE_BYTES: usize = 8 << 10;
/// Most lines of it.
const IMAGE_LINES_MAX: usize = 256;
/// Most characters of each: a field may hold kilobytes.
const LINE_CHARS_MAX: usize = 256;

/// The services that clients see.
pub(crate) fn describe_services(core: &PointToPoint) -> Value {
    let service = |known: ServiceInfo<'_>| {
        let mut described = json!({
            "id": known.id, "name": known.name, "up": known.up, "instance": known.instance.map(|i| format!("{i:016x}")),
            "items": known.items, "sequence": known.sequence,
        });
        if let Some(sides) = known.sides {
            let side =
                |(instance, up): (u64, bool)| json!({ "instance": format!("{instance:016x}"), "up": up });
            described["hot"] = sides.into_iter().flatten().map(side).collect();
        }
        described
    };
    core.inspect().services().map(service).collect()
}

/// What has gone in and out since the start.
pub(crate) fn describe_counts(core: &PointToPoint) -> Value {
    let counted = core.inspect().counters();
    json!({
        "stream_messages_in": counted.stream_messages_in.get(), "updates_in": counted.updates_in.get(),
        "updates_out": counted.updates_out.get(), "updates_conflated": counted.updates_conflated.get(),
        "messages_lost": counted.messages_lost.get(),
    })
}

/// Adds what a question wants to know of items.
pub(crate) fn describe_items(now: Nanos, query: &Query, core: &mut PointToPoint, document: &mut Value) {
    if query.busiest() > 0 {
        let busiest = core.busiest_items(now).map(|busiest| busiest.to_vec());
        let list = busiest.map(|busiest| {
            let shown = busiest.iter().take(query.busiest());
            shown.map(|busy| describe_busy(core, &busy.key, busy.updates_per_1000_s)).collect::<Vec<Value>>()
        });
        document["busiest"] = json!(list);
    }
    if let Some((service, domain, name)) = query.item() {
        document["item"] = json!(describe_item(core, service, Domain(domain), name));
    }
}

fn describe_key(core: &PointToPoint, key: &OwnedKey) -> Value {
    json!({
        "service": core.inspect().service_name(key.service), "domain": key.domain.0, "name": String::from_utf8_lossy(&key.name),
    })
}

fn describe_busy(core: &PointToPoint, key: &OwnedKey, updates_per_1000_s: u64) -> Value {
    let mut described = describe_key(core, key);
    described["updates_per_second"] = json!(updates_per_1000_s as f64 / 1000.0);
    described["watchers"] = json!(core.inspect().watcher_count(key));
    described
}

/// An item with the beginning of its image; nothing if nobody watches it.
pub(crate) fn describe_item(
    core: &PointToPoint,
    service: Option<&str>,
    domain: Domain,
    name: &str,
) -> Option<Value> {
    let item = core.inspect().item(service, domain, name.as_bytes())?;
    let mut scratch = Scratch::default();
    let image = item.cached.encode_begin(item.key.as_key(), IMAGE_BYTES, &mut scratch);
    let text = Pretty(image, Some(core.inspect().dictionary())).to_string();
    let mut lines = text.lines();
    let image: Vec<String> = lines
        .by_ref()
        .take(IMAGE_LINES_MAX)
        .map(|line| line.chars().take(LINE_CHARS_MAX).collect())
        .collect();
    let mut described = describe_key(core, item.key);
    described["watchers"] = json!(item.watchers);
    described["updates"] = json!(item.updates);
    described["suspect"] = json!(item.is_suspect);
    described["known"] = json!(item.cached.is_known());
    described["state"] = json!(item.cached.state().borrow().to_string());
    described["image"] = json!(image);
    described["image_is_cut"] = json!(lines.next().is_some());
    Some(described)
}
