# assay with everything but the docs' and developers' tools, for CPUs and NVIDIA GPUs (torch brings its own CUDA).
# docker build -t assay . ; docker run --rm -v "$PWD/results:/project/results" assay run sweep=demo
# Pinned by version; pin by digest (python:3.11.14-slim-bookworm@sha256:...) where your registry's policy asks.
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
# Libraries first: a change of the code alone builds no layer of them again.
COPY pyproject.toml constraints.txt ./
RUN python -m venv /opt/assay \
    && mkdir pipeline && touch README.md pipeline/__init__.py \
    && /opt/assay/bin/pip install --constraint constraints.txt ".[crowd,vlm,cluster]" \
    && /opt/assay/bin/pip uninstall --yes assay
COPY README.md ./
COPY pipeline ./pipeline
RUN /opt/assay/bin/pip install --no-deps .

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="assay" org.opencontainers.image.licenses="MIT"
ENV PATH=/opt/assay/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/home/assay
RUN useradd --create-home --uid 10001 --user-group assay && mkdir /project && chown assay:assay /project
COPY --from=build /opt/assay /opt/assay
# For --profile kubernetes, in the pod that starts the others.
COPY --from=registry.k8s.io/kubectl:v1.34.2 /bin/kubectl /usr/local/bin/kubectl
WORKDIR /project
# The project folder: what plans fingerprint, and what Snakemake reads.
COPY --chown=assay:assay Snakefile pyproject.toml constraints.txt ./
COPY --chown=assay:assay conf ./conf
COPY --chown=assay:assay profiles ./profiles
COPY --chown=assay:assay pipeline ./pipeline
USER 10001:10001
ENTRYPOINT ["assay"]
CMD ["--help"]
