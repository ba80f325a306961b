//! Gives everybody the item that he asks for, with a BID and ASK that move: `interactive PORT SERVICE
//! [WEBSOCKET_PORT [TLS_PORT WEBSOCKET_TLS_PORT CERTIFICATE KEY]]`. Items whose names begin with `NO` are not
//! there; what is posted to an item goes to all who watch it. How a client is connected is told when it logs in.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tickcast_client::{
    DataType, Dictionary, InteractiveConfig, InteractiveEvent, InteractiveProvider, NakCode,
    ProviderServiceConfig, Real, RefreshSpec, StateCode, TlsConfig, UpdateSpec, Writer,
};

const FIELDS: &[u8] = include_bytes!("../../../../data/dictionary/tickcast-fields.dic");
const ENUMS: &[u8] = include_bytes!("../../../../data/dictionary/tickcast-enums.def");

fn main() -> Result<(), Box<dyn Error>> {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(FIELDS)?;
    dictionary.load_enums(ENUMS)?;
    let mut provider = InteractiveProvider::new(&config()?)?.with_dictionary(Arc::new(dictionary));
    println!("listening on {}", provider.local_address()?);
    let mut wanted = Vec::new();
    for price in 3990.. {
        for item in &wanted {
            provider.update(*item, &UpdateSpec::quote(), quote(price))?;
        }
        provider.dispatch(Duration::from_millis(100), &mut |provider, event| {
            println!("{event:?}");
            match event {
                InteractiveEvent::Login { client, .. } => {
                    println!("{:?}", provider.connection(client));
                }
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

/// What the arguments say.
fn config() -> Result<InteractiveConfig, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, service, more @ ..] = &arguments[..] else {
        return Err(
            "usage: interactive PORT SERVICE [WEBSOCKET_PORT [TLS_PORT WEBSOCKET_TLS_PORT CERTIFICATE KEY]]"
                .into(),
        );
    };
    let services = vec![ProviderServiceConfig { name: service.clone(), id: 1, ..Default::default() }];
    let mut config =
        InteractiveConfig { port: port.parse()?, services, seq_nums: true, ..Default::default() };
    if let Some(port) = more.first() {
        config.websocket_port = Some(port.parse()?);
    }
    if let [_, rssl, websocket, certificate, key] = more {
        let tls = |port: &str| -> Result<TlsConfig, std::num::ParseIntError> {
            let (certificate_file, key_file) = (certificate.clone(), key.clone());
            Ok(TlsConfig { port: port.parse()?, certificate_file, key_file, ..TlsConfig::default() })
        };
        (config.rssl.tls, config.websocket.tls) = (Some(tls(rssl)?), Some(tls(websocket)?));
    }
    Ok(config)
}

fn quote(price: i64) -> impl FnMut(&mut Writer<'_>) {
    move |w| {
        w.field_list(|f| {
            f.put("BID", Real::decimal(price, 2));
            f.put("ASK", Real::decimal(price + 4, 2));
        });
    }
}
