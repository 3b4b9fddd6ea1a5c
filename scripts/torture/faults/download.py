"""A download that breaks off: nothing half counts as whole, the run says what to do, and then goes on."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.files import sha256
from scripts.torture.campaign import Campaign
from scripts.torture.hub import Hub, serving
from scripts.torture.sweeps import Sweep
from scripts.torture.victim import Ended, Victim

FAULT = "download"
REVISION = "0123456789abcdef0123456789abcdef01234567"
TIMM, CLIP, LLAVA = "timm/test_efficientnet.r160_in1k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K", "tiny/llava"
MODEL = (
    "model=timm",
    "model.arch=test_efficientnet",
    "model.weights.tag=r160_in1k",
    f"model.weights.revision={REVISION}",
    "model.input_size=64",
    "layer=blocks.3",
    "explainer=top_concept,random",
    "scoring=oracle",
    "tracking=none",
)
LOAD_CLIP = f"""
from pipeline.models.open_clip_weights import architecture, find_weights
found = find_weights(architecture("ViT-B-32", "model.arch"),
                     dict(source="hub", tag="laion2b_s34b_b79k", revision="{REVISION}"))
print(found.path)
"""
LOAD_LLAVA = f"""
from transformers import LlavaForConditionalGeneration, LlavaProcessor
from pipeline.vlms.loading import load_parts
load_parts(LlavaForConditionalGeneration, LlavaProcessor, weights=dict(source="hub", tag="{LLAVA}",
           revision="{REVISION}"), attention="eager", dtype="float32", device="cpu")
print("loaded")
"""


def run(campaign: Campaign) -> None:
    """Break off weights of timm in a run, and those of open_clip and transformers where they are loaded."""
    weights = _weights()
    files = {(TIMM, "model.safetensors"): weights, (CLIP, "open_clip_model.safetensors"): weights}
    with serving(Hub(files | _llava(campaign.folder))) as hub:
        told = {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
        victim = campaign.victim("download")
        victim = replace(victim, extra=told | {"HF_HOME": str(victim.root / "hub")})
        _in_a_run(campaign, victim, hub, weights)
        for name, code, size in (
            ("open_clip", LOAD_CLIP, len(weights)),
            ("transformers", LOAD_LLAVA, 20_000),
        ):
            _where_loaded(campaign, victim, hub, name, code, size)


def _weights() -> bytes:
    import timm
    from safetensors.torch import save

    return bytes(save(timm.create_model("test_efficientnet").state_dict()))


def _llava(folder: Path) -> dict[tuple[str, str], bytes]:
    """Return the files of a small model in the hub's form: what stage vlm trains is no such folder."""
    from tests.vlms.conftest import save_llava

    saved = folder / "llava"
    save_llava(saved)
    return {(LLAVA, path.name): path.read_bytes() for path in sorted(saved.iterdir()) if path.is_file()}


def _in_a_run(campaign: Campaign, victim: Victim, hub: Hub, weights: bytes) -> None:
    demo = next((sweep for sweep in campaign.sweeps if sweep.name == "demo"), None)
    if demo is None:
        campaign.ledger.skip(FAULT, "the run of timm's weights needs sweep=demo")
        return
    sweep = Sweep("demo", (*demo.reductions, *MODEL), demo.quick)
    for turn, breaks_at in enumerate((len(weights) // 2, len(weights) - 1)):
        hub.breaks_at, hub.is_gone = breaks_at, False
        ended = victim.run("run", *sweep.arguments)
        campaign.ledger.did(FAULT, "broken downloads of timm's weights", f"at {breaks_at}: exit {ended.code}")
        _says(campaign, ended, victim, "timm")
        campaign.ledger.check(FAULT, "failed", ended.code == 1, f"{turn}: {ended}")
    hub.comes_back()
    ended = victim.run("run", *sweep.arguments)
    campaign.read(FAULT, ended, failed=ended.code != 0)
    campaign.ledger.check(FAULT, "the same command goes on", ended.code == 0, str(ended))
    left = victim.to_run(sweep)
    campaign.ledger.check(FAULT, "nothing to run", not left, str(left))
    whole = [
        path for path in victim.root.glob("hub/hub/models--timm*/blobs/*") if path.suffix != ".incomplete"
    ]
    sums = {sha256(path) for path in whole}
    campaign.ledger.check(FAULT, "the file in the cache is whole", len(sums) == 1, str(whole))


def _where_loaded(campaign: Campaign, victim: Victim, hub: Hub, name: str, code: str, breaks_at: int) -> None:
    for place in (breaks_at // 2, breaks_at - 1):
        hub.breaks_at, hub.is_gone = place, False
        ended = _python(victim, code)
        campaign.ledger.did(FAULT, f"broken downloads through {name}", f"at {place}: exit {ended.code}")
        campaign.ledger.check(FAULT, "failed", ended.code == 1, f"{name}: {ended}")
        explained = "pipeline.errors.AssayError" in ended.said and "check" in ended.said
        campaign.ledger.check(FAULT, "is an error that says what to do", explained, ended.said[-2000:])
        _nothing_half(campaign, victim, name)
    hub.comes_back()
    ended = _python(victim, code)
    campaign.ledger.check(FAULT, "the same call goes on", ended.code == 0, f"{name}: {ended}")


def _says(campaign: Campaign, ended: Ended, victim: Victim, name: str) -> None:
    campaign.read(FAULT, ended)
    _nothing_half(campaign, victim, name)


def _nothing_half(campaign: Campaign, victim: Victim, name: str) -> None:
    """Check that no name that a library looks up leads to a part of a file."""
    half = [str(path) for path in victim.root.glob("hub/hub/models--*/snapshots/*/*") if _is_half(path)]
    campaign.ledger.check(FAULT, "nothing half counts as whole", not half, f"{name}: {half}")


def _is_half(path: Path) -> bool:
    """Say whether a file of the cache is not the one that its name, a checksum, says."""
    return sha256(path) != path.resolve().name


def _python(victim: Victim, code: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=victim.root,
        env=victim.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout + done.stderr)
