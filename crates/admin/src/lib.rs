//! HTTP for operators: health, metrics, status.
