"""What W&B is told of a sweep: one module a track, each with `records(config, inputs, pictures)`."""
