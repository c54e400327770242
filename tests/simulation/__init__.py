"""The whole protocol in one thread: production machines and store, modelled network, stream and disks."""
