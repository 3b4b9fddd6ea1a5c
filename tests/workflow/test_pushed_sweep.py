"""A sweep's W&B runs, as `assay run` writes them, arrive at a server with their pictures."""

import pytest
from workflow_project import TinyProject

from tests.report.wandb_server import running


@pytest.mark.long
def test_every_point_arrives_with_a_picture_of_its_units(
    copy: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running() as server:
        monkeypatch.setenv("WANDB_API_KEY", "5ec4e7" * 6 + "0000")
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        monkeypatch.setenv("HOME", str(copy.root))
        copy.run("sync", "sweep=tiny")
    points = [run for run in server.runs.values() if "units" in str(run.summary)]
    assert len(points) == 8
    for run in points:
        (picture,) = [content for name, content in run.files.items() if name.startswith("media/images/units")]
        assert picture.startswith(b"\xff\xd8\xff")
        assert len(picture) < 200_000
