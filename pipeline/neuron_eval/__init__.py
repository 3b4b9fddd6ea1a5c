"""How well a concept matches a unit: the metrics of NeuronEval, and the sanity tests that they face."""
