//! Publish and subscribe by topic: contexts, sources, receivers on reliable multicast.
