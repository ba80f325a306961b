//! The point-to-point server: RSSL front end and fan-out around the market core.
