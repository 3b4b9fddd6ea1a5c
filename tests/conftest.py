"""What holds for all tests."""

from hypothesis import settings

# A busy machine may take its time: the suite runs beside real Snakemake runs.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")
