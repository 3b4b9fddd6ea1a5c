"""A local stand-in for a W&B server: what its sync sends, kept as a server keeps it."""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """A run as the server holds it; history: a line a step, by its number."""

    fields: dict[str, Any] = field(default_factory=dict)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    complete: bool = False

    @property
    def config(self) -> dict[str, Any]:
        return {name: entry["value"] for name, entry in json.loads(self.fields["config"]).items()}


@dataclass
class Version:
    """A version of an artifact: one for each digest of a collection."""

    collection: str
    type: str
    digest: str
    run: str
    aliases: list[str]
    manifest: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    state: str = "PENDING"


@dataclass
class WandbServer:
    """Keeps runs by id and artifacts; `refused` maps the name of a query to the status of its answer."""

    address: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    artifacts: list[Version] = field(default_factory=list)
    logins: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def version(self, collection: str) -> Version:
        """Return the one version of a collection."""
        (found,) = [version for version in self.artifacts if version.collection == collection]
        return found

    def answer(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Answer a query or mutation by its name."""
        with self.lock:
            found = getattr(self, f"_{re.sub('(?<!^)(?=[A-Z])', '_', name).lower()}", None)
            return found(given) if found else {}

    def _viewer(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "viewer": {"id": "1", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}
        }

    def _get_default_entity(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"viewer": {"id": "1", "entity": "me"}}

    def _server_features_query(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"serverInfo": {"features": []}}

    def _upsert_bucket(self, given: dict[str, Any]) -> dict[str, Any]:
        inserted = given["name"] not in self.runs
        run = self.runs.setdefault(given["name"], Run())
        run.fields |= {key: value for key, value in given.items() if value is not None}
        project = {"id": "p", "name": run.fields["project"], "entity": {"id": "e", "name": "me"}}
        bucket = {"id": given["name"], "name": given["name"], "displayName": run.fields.get("displayName")}
        bucket |= {"config": run.fields["config"], "historyLineCount": len(run.history), "project": project}
        return {"upsertBucket": {"inserted": inserted, "bucket": bucket | {"sweepName": None}}}

    def _runs(self, given: dict[str, Any]) -> dict[str, Any]:
        """List runs, as W&B's public API asks for them: by names, `{"name": {"$in": [...]}}`."""
        named = json.loads(given["filters"])["name"]["$in"]
        fits = [
            run for run in named if run in self.runs and self.runs[run].fields["project"] == given["project"]
        ]
        nodes = [{"id": run, "name": run, "historyLineCount": len(self.runs[run].history)} for run in fits]
        page = {"hasNextPage": False, "endCursor": None}
        edges = [{"node": node | {"tags": [], "state": "finished"}, "cursor": ""} for node in nodes]
        if not self.runs:
            return {"project": None}
        return {
            "project": {"internalId": "1", "runCount": len(nodes), "runs": {"edges": edges, "pageInfo": page}}
        }

    def _artifact_type(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"project": None}

    def _create_run_files(self, given: dict[str, Any]) -> dict[str, Any]:
        files = [
            {"name": name, "uploadUrl": f"{self.address}/up/run/{given['run']}/{name}"}
            for name in given["files"]
        ]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}

    def _create_artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        asked = given["input"]
        where = (asked["artifactCollectionName"], asked["artifactTypeName"], asked["digest"])
        known = [i for i, v in enumerate(self.artifacts) if (v.collection, v.type, v.digest) == where]
        if not known:
            aliases = [alias["alias"] for alias in asked["aliases"]]
            self.artifacts.append(Version(*where, asked["runName"], aliases))
        number = known[0] if known else len(self.artifacts) - 1
        sequence = {"id": where[0], "latestArtifact": None}
        state = self.artifacts[number].state
        return {
            "createArtifact": {"artifact": {"id": f"a{number}", "state": state, "artifactSequence": sequence}}
        }

    def _create_artifact_manifest(self, given: dict[str, Any]) -> dict[str, Any]:
        number = given["artifactID"]
        file = self._upload("wandb_manifest.json", f"manifest/{number}")
        return {"createArtifactManifest": {"artifactManifest": {"id": f"m{number}", "file": file}}}

    def _create_artifact_files(self, given: dict[str, Any]) -> dict[str, Any]:
        nodes = [
            self._upload(one["name"], f"artifact/{one['artifactID']}/{one['name']}")
            | {"artifact": {"id": one["artifactID"]}, "storagePath": "", "uploadMultipartUrls": None}
            for one in given["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def _commit_artifact(self, given: dict[str, Any]) -> dict[str, Any]:
        version = self.artifacts[int(given["artifactID"][1:])]
        version.state = "COMMITTED"
        return {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": version.digest}}}

    def _upload(self, name: str, place: str) -> dict[str, Any]:
        url = f"{self.address}/up/{place}"
        return {"id": place, "name": name, "displayName": name, "uploadUrl": url, "uploadHeaders": []}

    def put(self, path: str, body: bytes) -> None:
        """Take an uploaded file."""
        kind, owner, *rest = path.removeprefix("/up/").split("/", 2)
        with self.lock:
            if kind == "run":
                self.runs[owner].files[rest[0]] = body
            elif kind == "manifest":
                self.artifacts[int(owner[1:])].manifest = json.loads(body)
            else:
                self.artifacts[int(owner[1:])].files[rest[0]] = body

    def stream(self, path: str, body: dict[str, Any]) -> None:
        """Take lines of history and summary; a line sent again for the same step takes its place."""
        with self.lock:
            run = self.runs[path.split("/")[-2]]
            run.complete = run.complete or bool(body.get("complete"))
            for name, part in body.get("files", {}).items():
                for number, line in enumerate(part["content"], start=part["offset"]):
                    if name == "wandb-history.jsonl":
                        run.history[number] = json.loads(line)
                    if name == "wandb-summary.json":
                        run.summary = json.loads(line)


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def _body(self) -> bytes:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

        def _send(self, answer: Any, status: int = 200) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._send({})

        def do_PUT(self) -> None:
            server.put(self.path, self._body())
            self._send({})

        def do_POST(self) -> None:
            body = self._body()
            if self.path.startswith("/graphql"):
                return self._graphql(json.loads(body))
            if self.path.endswith("/file_stream"):
                server.stream(self.path, json.loads(body))
            return self._send({"exitcode": None, "limits": {}})

        def _graphql(self, asked: dict[str, Any]) -> None:
            found = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
            name = found[1] if found else ""
            server.logins.add(str(self.headers.get("Authorization")))
            server.asked.append(name)
            if name in server.refused:
                errors = [{"message": f"{name} refused"}]
                return self._send({"errors": errors, "data": None}, server.refused[name])
            return self._send({"data": server.answer(name, asked.get("variables") or {})})

    return Handler


@contextmanager
def running() -> Iterator[WandbServer]:
    """Serve on a free port of this machine until the block ends."""
    server = WandbServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up
    server.address = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def files_with(text: str, *folders: Path) -> list[Path]:
    """List the files below the folders that hold a text."""
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in found if text.encode() in path.read_bytes()]
