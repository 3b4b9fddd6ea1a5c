"""The sweeps that are tortured: the demos of the three tracks, small enough to be run a hundred times."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sweep:
    """A named sweep, what makes it small, and stages that are quickly made again, the last one its tables."""

    name: str
    reductions: tuple[str, ...]
    quick: tuple[str, ...]

    @property
    def end(self) -> str:
        """The stage that makes its tables."""
        return self.quick[-1]

    @property
    def arguments(self) -> tuple[str, ...]:
        """What stands after `assay run`."""
        return (f"sweep={self.name}", *self.reductions)


ONE_THREAD = "numerics.threads=1"
REDUCED = (
    Sweep(
        "demo",
        (
            "dataset.n_images=300",
            "dataset.size=32",
            "unit.n=6",
            "scorer.epochs=2",
            "sampler.n_inputs=20",
            "stats.n_bootstrap=100",
            ONE_THREAD,
        ),
        ("images", "gallery", "comparison"),
    ),
    Sweep(
        "sae_demo",
        ("dataset.n_images=300", "sae.dictionary_size=64", "sae.seed=0", ONE_THREAD),
        ("pairs", "perturbation", "sae_comparison"),
    ),
    Sweep(
        "vlm_demo",
        ("vlm.n_steps=60", "questions.n_samples=8", "sii.n_samples=2", ONE_THREAD),
        ("questions", "synergy", "vlm_comparison"),
    ),
)
FULL = tuple(Sweep(sweep.name, (), sweep.quick) for sweep in REDUCED)
