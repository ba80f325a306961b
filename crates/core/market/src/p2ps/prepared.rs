//! The dictionaries as clients download them.

use std::collections::HashMap;
use std::sync::Arc;

use rdm::RdmError;
use rdm::dictionary::{DictionaryKind, DictionaryRequest, PartSizes, PreparedDictionary, Verbosity};
use rwf::Dictionary;

/// The dictionaries as clients download them, encoded when the first one asks: by kind, verbosity and bytes of a
/// part. There are as many as kinds of ports and verbosities.
#[derive(Debug, Default)]
pub(super) struct Prepared(HashMap<(DictionaryKind, Verbosity, usize), Arc<PreparedDictionary>>);

impl Prepared {
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn of(
        &mut self,
        dictionary: &Dictionary,
        request: &DictionaryRequest<'_>,
        part_bytes: usize,
    ) -> Result<Arc<PreparedDictionary>, RdmError> {
        let (kind, verbosity) = (request.kind()?, request.verbosity);
        if let Some(known) = self.0.get(&(kind, verbosity, part_bytes)) {
            return Ok(Arc::clone(known));
        }
        let sizes = PartSizes { fields_bytes_max: part_bytes, enums_bytes_max: part_bytes };
        // One that cannot be encoded is answered like one that is not there: with an end.
        let made = PreparedDictionary::new(dictionary, kind, verbosity, sizes);
        let made = Arc::new(made.map_err(|_| RdmError::UnknownDictionary)?);
        self.0.insert((kind, verbosity, part_bytes), Arc::clone(&made));
        Ok(made)
    }
}
