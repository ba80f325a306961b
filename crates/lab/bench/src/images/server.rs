use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use clap::Args;
use client::{
    InteractiveConfig, InteractiveProvider, ProviderServiceConfig, PublishedItem, RefreshSpec, UpdateSpec,
};
use rwf::Domain;
use serde_json::json;
use units::Nanos;

use crate::BenchError;
use crate::chain::run_number;
use crate::end_to_end::{Items, Pacing, SERVICE, SERVICE_ID, pick};
use crate::options::Cpu;
use crate::process::{self, answer};
use crate::update::Profile;

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[arg(long)]
    own: u32,
    #[command(flatten)]
    profile: Profile,
    #[command(flatten)]
    cpu: Cpu,
}

/// An interactive provider that has the images of its items, and updates them at the rate that it is told.
pub(crate) fn server(args: &ServerArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let services = vec![ProviderServiceConfig {
        name: SERVICE.to_owned(),
        id: SERVICE_ID,
        ..ProviderServiceConfig::default()
    }];
    let config = InteractiveConfig { port: 0, services, ..InteractiveConfig::default() };
    let mut provider = InteractiveProvider::new(&config)?;
    let mut items = Vec::with_capacity(args.own as usize);
    for n in 0..args.own {
        let item = provider.item(Domain::MARKET_PRICE, SERVICE, &Items::own_name(0, n))?;
        provider.refresh(item, &RefreshSpec::default(), |w| args.profile.write_image(w))?;
        items.push(item);
    }
    answer(&json!({ "port": provider.local_address()?.port() }));
    let commands = process::commands();
    loop {
        match commands.try_recv() {
            Ok(command) => {
                let mut count = 0;
                let sent = Pacing::Sleep.run(&command, |due| {
                    for intended in due {
                        count += 1;
                        publish(&mut provider, args.profile, *pick(&items, count), (count, *intended, 0))?;
                    }
                    serve(&mut provider, Duration::ZERO)
                })?;
                publish(&mut provider, args.profile, items[0], (count, sent.end, run_number(&command)))?;
                serve(&mut provider, Duration::ZERO)?;
                answer(&sent.answer());
            }
            Err(TryRecvError::Empty) => serve(&mut provider, Duration::from_millis(1))?,
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}

fn serve(provider: &mut InteractiveProvider, timeout: Duration) -> Result<(), BenchError> {
    provider.dispatch(timeout, &mut |_, _| ())?;
    Ok(())
}

fn publish(
    provider: &mut InteractiveProvider,
    profile: Profile,
    item: PublishedItem,
    (count, intended, ends_run): (u64, Nanos, u8),
) -> Result<(), BenchError> {
    provider.update(item, &UpdateSpec::quote(), |w| profile.write(w, count, intended, ends_run))?;
    Ok(())
}
