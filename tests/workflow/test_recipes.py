"""The recipes of docs/bring_your_own.md: their scripts run, and their sweeps can be planned."""

import re
from contextlib import chdir

from workflow_project import ROOT, TinyProject

PAGE = (ROOT / "docs" / "bring_your_own.md").read_text(encoding="utf-8")
BY_PEOPLE = "studies/mine/inputs.csv"
"""What the script that plays the raters reads, which a study must have made first."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_every_script_runs_and_every_sweep_and_model_of_the_page_can_be_planned(fresh: TinyProject) -> None:
    with chdir(fresh.root):
        for script in blocks("python"):
            if BY_PEOPLE not in script:
                exec(script, {})
    for content in blocks("yaml"):
        name = content.partition("\n")[0].removeprefix("# ")
        (fresh.root / name).write_text(content)
    (texts,) = re.findall(r"^unit,description\n[^`]*", PAGE, flags=re.MULTILINE)
    (fresh.root / "data" / "texts.csv").write_text(texts)
    (fresh.root / "data" / "my_llava").mkdir()
    (fresh.root / "data" / "my_llava" / "config.json").write_text("{}")
    sizes = {name: len(fresh.prepare(sweep=name).build.points) for name in ("mine", "my_texts", "my_sae")}
    assert sizes == {"mine": 3, "my_texts": 3, "my_sae": 3}
    assert len(fresh.prepare(sweep="my_vlm").build.points) == 3
    own = fresh.prepare("model=mine", "layer=layer3", "scoring=oracle", sweep="mine").build.points
    assert {point.values["model"]["arch"] for point in own} == {"resnet10t"}
