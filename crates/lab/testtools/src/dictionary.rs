//! The data dictionary: that of a directory, or the built-in one.

use std::path::Path;
use std::sync::Arc;

use rwf::Dictionary;

use crate::xml::{FileFault, read};

const FIELDS: &str = include_str!("../../../../data/dictionary/tickcast-fields.dic");
const ENUMS: &str = include_str!("../../../../data/dictionary/tickcast-enums.def");

/// The files `RDMFieldDictionary` and `enumtype.def` of a directory; the built-in dictionary without one.
///
/// # Errors
/// [`FileFault`] names the file that cannot be read, or is no dictionary.
pub fn load(directory: Option<&Path>) -> Result<Arc<Dictionary>, FileFault> {
    let part = |name: &str, built_in: &str| match directory {
        None => Ok((format!("the built-in {name}"), built_in.to_owned())),
        Some(directory) => {
            let path = directory.join(name);
            read(&path).map(|text| (path.display().to_string(), text))
        }
    };
    let fault = |file: String, what: String| FileFault { file, line: None, what };
    let mut dictionary = Dictionary::new();
    let (name, text) = part("RDMFieldDictionary", FIELDS)?;
    dictionary.load_fields(text.as_bytes()).map_err(|error| fault(name, error.to_string()))?;
    let (name, text) = part("enumtype.def", ENUMS)?;
    dictionary.load_enums(text.as_bytes()).map_err(|error| fault(name, error.to_string()))?;
    Ok(Arc::new(dictionary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_dictionary_loads_and_a_missing_one_is_named() {
        assert!(load(None).expect("good").field(3902).is_some());
        let fault = load(Some(Path::new("/nonexistent"))).expect_err("not there").to_string();
        assert!(fault.starts_with("/nonexistent/RDMFieldDictionary: cannot be read"), "{fault}");
    }
}
