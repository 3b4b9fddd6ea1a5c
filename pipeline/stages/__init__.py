"""One module a stage: read inputs, call one function, write outputs."""
