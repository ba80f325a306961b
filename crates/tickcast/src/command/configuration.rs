use crate::cli::ConfigAction;
use crate::config::{self, RootConfig};
use crate::failure::Failure;

pub(crate) fn run(action: &ConfigAction) -> Result<(), Failure> {
    match action {
        ConfigAction::Check { file } => {
            config::load(Some(file), &[])?;
            println!("{}: no fault found", file.display());
        }
        ConfigAction::Show { config, json } => {
            let loaded = config.load()?;
            print!("{}", if *json { loaded.json() } else { loaded.show() });
        }
        ConfigAction::Reference => print!("{}", ::config::reference::<RootConfig>()),
    }
    Ok(())
}
