/// How deep containers and messages may stand inside each other, in both directions.
pub(crate) const DEPTH_MAX: u32 = 32;
