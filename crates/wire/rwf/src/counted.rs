//! What map, series, vector and filter list have in common when written: flags and a number of entries that
//! are known only at the end, and parts that stand before the entries.

use crate::set_def::SetDefinitions;
use crate::{DataType, EncodeError, Place, Writer};

#[derive(Debug)]
pub(crate) struct CountedWriter<'w, 'b> {
    pub(crate) w: &'w mut Writer<'b>,
    pub(crate) container_type: DataType,
    place: Place,
    flags_at: usize,
    flags: u8,
    hint: Option<(u8, u32)>,
    summary_flag: u8,
    count_at: Option<usize>,
    count: usize,
}

impl<'w, 'b> CountedWriter<'w, 'b> {
    pub(crate) fn begin(w: &'w mut Writer<'b>, container_type: DataType, place: Place) -> Self {
        let flags_at = w.len();
        w.u8(0);
        CountedWriter {
            w,
            container_type,
            place,
            flags_at,
            flags: 0,
            hint: None,
            summary_flag: 0,
            count_at: None,
            count: 0,
        }
    }

    pub(crate) fn flag(&mut self, flag: u8) {
        self.flags |= flag;
    }

    pub(crate) fn container_type(&mut self) {
        self.w.container_type(self.container_type, self.place);
    }

    pub(crate) fn set_definitions(&mut self, flag: u8, defs: Option<SetDefinitions<'_>>) {
        if let Some(defs) = defs {
            self.flags |= flag;
            let fits = match defs {
                SetDefinitions::Fields(_) => self.container_type == DataType::FIELD_LIST,
                SetDefinitions::Elements(_) => self.container_type == DataType::ELEMENT_LIST,
                SetDefinitions::Encoded(_) => true,
            };
            if !fits {
                self.w.fail(EncodeError::BadType {
                    place: Place::SetDefinitions,
                    data_type: self.container_type,
                });
            }
            defs.put(self.w);
        }
    }

    /// What stands between the summary, if there is any, and the entries.
    pub(crate) fn before_entries(&mut self, summary_flag: u8, hint_flag: u8, hint: Option<u32>) {
        self.summary_flag = summary_flag;
        self.hint = hint.map(|hint| (hint_flag, hint));
    }

    pub(crate) fn summary(&mut self, write: impl FnOnce(&mut Writer<'b>)) {
        if self.count_at.is_some() || self.flags & self.summary_flag != 0 {
            self.w.fail(EncodeError::OutOfOrder { place: Place::Summary });
        }
        self.flags |= self.summary_flag;
        self.w.nested15(Place::Summary, write);
    }

    /// Begins the entries, if they have not begun, and counts one.
    #[inline]
    pub(crate) fn count_entry(&mut self) {
        if self.count_at.is_none() {
            self.begin_entries();
        }
        self.count += 1;
    }

    /// Takes the last entry back; its bytes are the caller's concern.
    pub(crate) fn uncount_entry(&mut self) {
        self.count -= 1;
    }

    /// Begins the entries even if none follows; what comes before them is then final.
    pub(crate) fn begin_entries(&mut self) {
        if self.count_at.is_some() {
            return;
        }
        if let Some((flag, hint)) = self.hint {
            self.flags |= flag;
            self.w.u30rb(hint, Place::TotalCountHint);
        }
        self.count_at = Some(self.w.len());
        self.w.u16(0);
    }

    /// An entry's permission data and the flag in the header that announces it.
    pub(crate) fn permission_data(&mut self, flag: u8, data: Option<&[u8]>) {
        if let Some(data) = data {
            self.flags |= flag;
            self.w.buf15(data, Place::PermissionData);
        }
    }

    pub(crate) fn end(mut self) {
        self.begin_entries();
        if let Some(count_at) = self.count_at {
            self.w.patch_count(count_at, self.count);
        }
        self.w.patch(self.flags_at, [self.flags]);
    }
}
