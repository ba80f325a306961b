//! Messages ready to be sent: of all fields, and of the fields of each view.

use std::collections::HashMap;
use std::sync::Arc;

use rwf::{DataType, Dictionary, Domain, EncodeError, UpdateMsg, encode_to_vec};
use server::{Outbox, Staged};

use crate::messages::{Fields, MessageSet, Stamp, TIM_TRK_1};

/// Most different views; streams with further ones get all fields.
const VIEWS_MAX: usize = 1_000;

/// Which fields a stream gets: all, or those of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(u32);

/// All fields.
pub(super) const WHOLE: ShapeId = ShapeId(0);

/// The messages of those who see the same fields.
struct Shape {
    /// The payload of the image.
    image: Box<[u8]>,
    updates: Box<[UpdateTemplate]>,
    sees_stamps: bool,
}

struct UpdateTemplate {
    fields: Fields,
    /// The message without a time stamp, on stream 0.
    bytes: Box<[u8]>,
    /// Where it lies in the outbox, until the next flush.
    staged: Option<Staged>,
}

/// All shapes.
pub(super) struct Templates {
    set: MessageSet,
    shapes: Vec<Shape>,
    views: HashMap<Arc<[i16]>, ShapeId>,
    /// Templates that are staged.
    staged: Vec<(ShapeId, usize)>,
    scratch: Vec<u8>,
    /// Bytes of the longest update with a time stamp.
    pub(super) update_bytes_max: usize,
}

impl Templates {
    pub(super) fn new(set: MessageSet, dictionary: &Dictionary) -> Result<Templates, crate::TestToolError> {
        set.check(dictionary)?;
        let whole = shape(&set.image, &set.updates, true).map_err(unencodable)?;
        // A stamp has an id, a length and at most eight bytes.
        let update_bytes_max = whole.updates.iter().map(|update| update.bytes.len()).max().unwrap_or(0) + 11;
        Ok(Templates {
            scratch: vec![0; update_bytes_max],
            set,
            shapes: vec![whole],
            views: HashMap::new(),
            staged: Vec::new(),
            update_bytes_max,
        })
    }

    /// The shape of a view.
    pub(super) fn of_view(&mut self, view: &Arc<[i16]>) -> ShapeId {
        if let Some(known) = self.views.get(view) {
            return *known;
        }
        if self.views.len() >= VIEWS_MAX {
            return WHOLE;
        }
        let updates: Vec<Fields> = self.set.updates.iter().map(|update| update.seen_by(view)).collect();
        let Ok(shape) = shape(&self.set.image.seen_by(view), &updates, view.contains(&TIM_TRK_1)) else {
            return WHOLE;
        };
        let id = ShapeId(self.shapes.len() as u32);
        self.shapes.push(shape);
        self.views.insert(Arc::clone(view), id);
        id
    }

    /// The payload of an image.
    pub(super) fn image(&self, shape: ShapeId) -> &[u8] {
        &self.shapes[shape.0 as usize].image
    }

    /// Puts an update into the outbox: the `turn`th of an item, with a time stamp or without. Whether it has the stamp.
    #[inline]
    pub(super) fn stage(
        &mut self,
        id: ShapeId,
        turn: u32,
        stamp: Option<Stamp>,
        outbox: &mut Outbox,
    ) -> (Staged, bool) {
        let shape = &mut self.shapes[id.0 as usize];
        let index = turn as usize % shape.updates.len();
        let template = &mut shape.updates[index];
        if let Some(stamp) = stamp.filter(|_| shape.sees_stamps)
            && let Some(bytes) = write(&template.fields, Some(stamp), &mut self.scratch)
        {
            return (outbox.stage(bytes), true);
        }
        let staged = *template.staged.get_or_insert_with(|| {
            self.staged.push((id, index));
            outbox.stage(&template.bytes)
        });
        (staged, false)
    }

    /// The outbox was flushed: what lay in it is gone.
    pub(super) fn on_flushed(&mut self) {
        for (shape, index) in self.staged.drain(..) {
            self.shapes[shape.0 as usize].updates[index].staged = None;
        }
    }
}

/// An update of the market price domain on stream 0, which is another one for each who gets it.
fn header() -> UpdateMsg<'static> {
    UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST)
}

fn write<'s>(fields: &Fields, stamp: Option<Stamp>, scratch: &'s mut [u8]) -> Option<&'s [u8]> {
    let mut w = rwf::Writer::new(scratch);
    header().encode_header(&mut w);
    fields.write(&mut w, stamp);
    w.finish().ok().map(|bytes| &*bytes)
}

fn shape(image: &Fields, updates: &[Fields], sees_stamps: bool) -> Result<Shape, EncodeError> {
    let updates = updates.iter().map(|fields| {
        let bytes = encode_to_vec(|w| {
            header().encode_header(w);
            fields.write(w, None);
        })?;
        Ok(UpdateTemplate { fields: fields.clone(), bytes: bytes.into(), staged: None })
    });
    let updates = updates.collect::<Result<_, EncodeError>>()?;
    Ok(Shape { image: image.payload()?.into(), updates, sees_stamps })
}

fn unencodable(error: EncodeError) -> crate::TestToolError {
    crate::TestToolError::Failed(format!("the messages cannot be encoded: {error}"))
}
