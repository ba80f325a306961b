//! One interface, several carriers: how source distributors and point-to-point servers reach each other.
