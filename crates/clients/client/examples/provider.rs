//! Publishes items whose BID and ASK move: `provider HOST:PORT SERVICE ITEM...`.

use std::error::Error;
use std::time::Duration;

use tickcast_client::{
    Dictionary, Domain, Provider, ProviderConfig, ProviderServiceConfig, Real, RefreshSpec, UpdateSpec,
    Writer,
};

const FIELDS: &[u8] = include_bytes!("../../../../data/dictionary/tickcast-fields.dic");
const ENUMS: &[u8] = include_bytes!("../../../../data/dictionary/tickcast-enums.def");

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(host), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err("usage: provider HOST:PORT SERVICE ITEM...".into());
    };
    let services =
        vec![ProviderServiceConfig { name: service.clone(), id: 7, ..ProviderServiceConfig::default() }];
    let config = ProviderConfig { hosts: vec![host.parse()?], services, ..ProviderConfig::default() };
    let mut dictionary = Dictionary::new();
    dictionary.load_fields(FIELDS)?;
    dictionary.load_enums(ENUMS)?;
    let mut provider = Provider::new(&config)?.with_dictionary(&dictionary);
    let items = arguments
        .map(|name| provider.item(Domain::MARKET_PRICE, &service, &name))
        .collect::<Result<Vec<_>, _>>()?;
    let quote = |price: i64| {
        move |w: &mut Writer<'_>| {
            w.field_list(|f| {
                f.put("BID", Real::decimal(price, 2));
                f.put("ASK", Real::decimal(price + 4, 2));
            });
        }
    };
    for item in &items {
        let _ = provider.refresh(*item, &RefreshSpec::default(), quote(3990))?;
    }
    for price in 3991.. {
        for item in &items {
            let _ = provider.update(*item, &UpdateSpec::quote(), quote(price))?;
        }
        provider.flush();
        provider.dispatch(Duration::from_millis(200), &mut |event| eprintln!("{event}"))?;
    }
    Ok(())
}
