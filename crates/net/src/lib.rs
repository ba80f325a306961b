//! System calls for data: UDP with segmentation offload, TCP, polling, clocks, waiting, rings.
