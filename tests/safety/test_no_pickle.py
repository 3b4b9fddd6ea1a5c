"""No code of ours unpickles, evaluates or starts a shell: the syntax trees say so."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted([*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
PICKLERS = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
}
EXCEPTIONS = {"UnpicklingError"}
"""Names of a pickling module that load nothing."""
FORBIDDEN = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "os.system": "starts a shell",
    "os.popen": "starts a shell",
    "pd.read_pickle": "unpickles",
    "pd.read_hdf": "unpickles object columns",
    "torch.jit.load": "runs the file's own code",
    "torch.hub.load": "runs a repository's code",
    "torch.package.PackageImporter": "runs the file's own code",
    "yaml.load": "makes objects that the file names",
    "yaml.unsafe_load": "makes objects that the file names",
    "yaml.full_load": "makes objects that the file names",
    "tempfile.mktemp": "gives a name that another may take first",
    "shutil.unpack_archive": "writes where the archive says",
}
REQUIRED = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "np.save": ("allow_pickle", False),
    "np.lib.format.read_array": ("allow_pickle", False),
}
LOADMAT = {"pipeline/datasets/ground_truth.py"}
"""scipy.io.loadmat reads MATLAB's format, which holds no code; here of ImageNet's devkit."""


def dotted(node: ast.expr) -> str:
    return ast.unparse(node).replace("numpy.", "np.").replace("pandas.", "pd.")


def problems(text: str, name: str = "") -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"import {each.name}" for each in node.names if each.name.split(".")[0] in PICKLERS)
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PICKLERS:
            yield from (f"import {each.name}" for each in node.names if each.name not in EXCEPTIONS)
        if isinstance(node, ast.Call):
            yield from wrong_call(node, name)


def wrong_call(node: ast.Call, name: str) -> Iterator[str]:
    called = dotted(node.func)
    given = {each.arg: each.value for each in node.keywords}
    if called in FORBIDDEN:
        yield f"{called} {FORBIDDEN[called]}"
    if called in REQUIRED:
        argument, value = REQUIRED[called]
        found = given.get(argument)
        if not (isinstance(found, ast.Constant) and found.value is value):
            yield f"{called} without {argument}={value}"
    if called.endswith(("loadmat", "whosmat")) and name not in LOADMAT:
        yield f"{called} in a place that is not argued"
    if called.startswith(("archive.extract", "zip.extract", "tar.extract")) and "filter" not in given:
        yield f"{called} writes where the archive says"
    if "shell" in given and not (isinstance(given["shell"], ast.Constant) and given["shell"].value is False):
        yield f"{called} with shell"
    if "trust_remote_code" in given:
        yield f"{called} with trust_remote_code"


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from joblib import load", "import cloudpickle as c", "pd.read_pickle(p)",
        "torch.load(p)", "torch.load(p, weights_only=False)", "numpy.load(p)",
        "np.load(p, allow_pickle=True)",
        "yaml.load(t, Loader=L)", "eval(t)", "subprocess.run(t, shell=True)", "scipy.io.loadmat(p)",
        "m.from_pretrained(p, trust_remote_code=True)", "os.system(t)", "archive.extractall(p)",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert list(problems(code))


def test_no_code_of_ours_loads_pickles_or_starts_a_shell() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in CODE
        for problem in problems(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    assert len(CODE) > 300
    assert not found


def test_images_are_opened_in_one_place() -> None:
    opening = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pipeline").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and dotted(node.func).split(".")[-1] in ("open", "imread", "read_image", "decode_image")
        and dotted(node.func).startswith(("Image", "PIL", "plt", "cv2", "torchvision", "imageio"))
    }
    assert opening == {"pipeline/datasets/decoding.py"}


def test_the_one_shell_command_of_the_snakefile_quotes_what_it_is_given() -> None:
    text = (ROOT / "Snakefile").read_text(encoding="utf-8")
    commands = [line.strip() for line in text.split("shell:")[1:] for line in line.splitlines()[1:2]]
    assert commands == ['"{params.command:q} {wildcards.batch}"']
    assert 'batch="b[0-9a-f]{12}"' in text
