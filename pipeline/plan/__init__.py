"""What runs: stage table, sweeps, slices, keys, states. Knows nothing of torch."""
