//! Ids of the fields that are published, under their names in the dictionary.

pub(crate) const DSPLY_NAME: i16 = 3;
pub(crate) const TRDPRC_1: i16 = 6;
pub(crate) const PRCTCK_1: i16 = 14;
pub(crate) const TRADE_DATE: i16 = 16;
pub(crate) const BID: i16 = 22;
pub(crate) const ASK: i16 = 25;
pub(crate) const BIDSIZE: i16 = 30;
pub(crate) const ASKSIZE: i16 = 31;
pub(crate) const ACVOL_1: i16 = 32;
pub(crate) const NUM_MOVES: i16 = 77;
pub(crate) const TRDVOL_1: i16 = 178;
pub(crate) const SALTIM: i16 = 379;
pub(crate) const QUOTIM: i16 = 1025;
pub(crate) const QUOTE_DATE: i16 = 3386;
pub(crate) const PROV_SYMB: i16 = 3422;
pub(crate) const ORDER_PRC: i16 = 3427;
pub(crate) const ORDER_SIDE: i16 = 3428;
pub(crate) const ORDER_SIZE: i16 = 3429;
pub(crate) const SALTIM_MS: i16 = 3854;
pub(crate) const QUOTIM_MS: i16 = 3855;
pub(crate) const TRADE_ID: i16 = 3900;
pub(crate) const LV_TIM_MS: i16 = 6527;
pub(crate) const QUOTIM_NS: i16 = 14265;
pub(crate) const SALTIM_NS: i16 = 14266;
