"""Vision models whose units are judged, one file a library."""
