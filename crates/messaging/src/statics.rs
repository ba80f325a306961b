//! Sources that are found by configuration, without topic resolution.

use std::time::Duration;

use units::Nanos;

use crate::base::Base;
use crate::direct::Direct;
use crate::error::ContextError;
use crate::receiver::Heard;
use crate::receiving::Receiving;

/// A source that is not there, or was there and ended, is tried again so often: nobody advertises its return.
const TRY_EVERY: Duration = Duration::from_secs(1);

impl Receiving {
    /// Makes the sources known that the configuration names.
    pub(crate) fn learn_static_sources(&mut self, base: &mut Base) -> Result<(), ContextError> {
        let now = base.now;
        for source in &base.config.resolver_static_source {
            for record in source.records() {
                // Nobody asks yet.
                base.resolver.add_static(now, &source.topic, record, &mut Heard::default())?;
            }
        }
        if !base.config.resolver_static_source.is_empty() {
            self.static_due = base.now + TRY_EVERY;
        }
        Ok(())
    }

    /// Tries the configured sources that receivers want and do not hear.
    pub(crate) fn wake_static(&mut self, base: &mut Base, direct: &mut Direct, now: Nanos) {
        if now < self.static_due {
            return;
        }
        self.static_due = now + TRY_EVERY;
        let mut heard = Heard::default();
        base.resolver.report_static(&mut heard);
        self.take_heard(base, direct, heard);
    }
}
