"""Linear mixed models with random intercepts: REML, with Satterthwaite's degrees of freedom."""
