//! The data dictionary in use.

use std::path::Path;
use std::sync::Arc;

use rwf::Dictionary;

use crate::config::DictionaryConfig;
use crate::failure::Failure;

const FIELDS: &[u8] = include_bytes!("../../../data/dictionary/tickcast-fields.dic");
const ENUMS: &[u8] = include_bytes!("../../../data/dictionary/tickcast-enums.def");

/// The dictionary that the configuration names, or the built-in one.
pub(crate) fn load(config: &DictionaryConfig) -> Result<Arc<Dictionary>, Failure> {
    let read = |file: &Option<String>, built_in: &'static [u8]| match file {
        None => Ok(("built-in dictionary".to_owned(), built_in.to_vec())),
        Some(path) => match std::fs::read(Path::new(path)) {
            Ok(text) => Ok((path.clone(), text)),
            Err(e) => Err(Failure::Config(format!("cannot read the dictionary {path}: {e}"))),
        },
    };
    let mut dictionary = Dictionary::new();
    let (name, text) = read(&config.fields_file, FIELDS)?;
    dictionary.load_fields(&text).map_err(|e| Failure::Config(format!("{name}: {e}")))?;
    let (name, text) = read(&config.enums_file, ENUMS)?;
    dictionary.load_enums(&text).map_err(|e| Failure::Config(format!("{name}: {e}")))?;
    Ok(Arc::new(dictionary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_dictionary_loads() {
        let dictionary = load(&DictionaryConfig::default()).expect("it is part of the program");
        assert_eq!(dictionary.field_by_name("BID").map(|f| f.id), Some(22));
        assert_eq!(dictionary.enum_display(3428, 1), Some(&b"BID"[..]));
    }

    #[test]
    fn a_missing_file_is_named() {
        let config = DictionaryConfig { fields_file: Some("/nonexistent".to_owned()), enums_file: None };
        let failure = load(&config).expect_err("it does not exist");
        assert!(failure.to_string().contains("/nonexistent"), "{failure}");
    }
}
