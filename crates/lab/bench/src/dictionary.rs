//! The data dictionary that the fields of the workloads are of.

use rwf::Dictionary;

use crate::BenchError;

/// The dictionary that daemons have.
pub(crate) fn dictionary() -> Result<Dictionary, BenchError> {
    let mut dictionary = Dictionary::new();
    let fields = include_bytes!("../../../../data/dictionary/tickcast-fields.dic");
    let enums = include_bytes!("../../../../data/dictionary/tickcast-enums.def");
    dictionary.load_fields(fields).map_err(|e| BenchError::new(e.to_string()))?;
    dictionary.load_enums(enums).map_err(|e| BenchError::new(e.to_string()))?;
    Ok(dictionary)
}
