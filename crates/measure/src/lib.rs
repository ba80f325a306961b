//! Observers, histograms and reports.
