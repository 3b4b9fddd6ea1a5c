"""Methods that give a text to a unit, one file a method."""
