//! Gives everybody the item that he asks for, with a BID and ASK that move: `interactive PORT SERVICE`. Items
//! whose names begin with `NO` are not there; what is posted to an item goes to all who watch it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rwf::{DataType, Dictionary, NakCode, Real, StateCode, Writer};
use tickcast_client::{
    InteractiveConfig, InteractiveEvent, InteractiveProvider, ProviderServiceConfig, RefreshSpec, UpdateSpec,
};

const FIELDS: &[u8] = include_bytes!("../../../data/dictionary/tickcast-fields.dic");
const ENUMS: &[u8] = include_bytes!("../../../data/dictionary/tickcast-enums.def");

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(port), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err("usage: interactive PORT SERVICE".into());
    };
    let services = vec![ProviderServiceConfig { name: service, id: 1, ..Default::default() }];
    let config = InteractiveConfig { port: port.parse()?, services, ..InteractiveConfig::default() };
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(FIELDS)?;
    dictionary.load_enums(ENUMS)?;
    let mut provider = InteractiveProvider::new(&config)?.with_dictionary(Arc::new(dictionary));
    println!("listening on {}", provider.local_address()?);
    let mut wanted = Vec::new();
    for price in 3990.. {
        for item in &wanted {
            provider.update(*item, &UpdateSpec::quote(), quote(price))?;
        }
        provider.dispatch(Duration::from_millis(100), &mut |provider, event| {
            println!("{event:?}");
            match event {
                InteractiveEvent::Requested { item, name, .. } if name.starts_with("NO") => {
                    let _ = provider.close_item(item, StateCode::NOT_FOUND, "item not found");
                }
                InteractiveEvent::Requested { item, .. } => {
                    let _ = provider.refresh(item, &RefreshSpec::default(), quote(price));
                    wanted.push(item);
                }
                InteractiveEvent::Unwanted { item } => {
                    provider.forget(item);
                    wanted.retain(|other| *other != item);
                }
                InteractiveEvent::Post { item: Some(item), message, ticket, .. } => {
                    let post = message.post().filter(|post| post.container_type == DataType::FIELD_LIST);
                    if let Some(post) = post {
                        let _ = provider.update(item, &UpdateSpec::default(), |w| w.bytes(post.payload));
                    }
                    ticket.map(|ticket| provider.ack(ticket));
                }
                InteractiveEvent::Post { item: None, ticket: Some(ticket), .. } => {
                    provider.nak(ticket, NakCode::NOT_OPEN, "open the item first");
                }
                _ => {}
            }
        })?;
    }
    Ok(())
}

fn quote(price: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| {
        w.field_list(|f| {
            f.put(22, Real::decimal(price, 2));
            f.put(25, Real::decimal(price + 4, 2));
        });
    }
}
