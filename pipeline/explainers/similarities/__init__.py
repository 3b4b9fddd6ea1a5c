"""How CLIP-Dissect compares a unit's activations with a concept's cosines, one file a similarity."""
