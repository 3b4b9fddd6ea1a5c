# One DAG for a sweep: a rule a stage, a job a batch of results that are not there.
# `assay run` hands over a plan it has made; `snakemake --config sweep=NAME` makes one here.
import sys

from pipeline.plan.workflow import finish, plan_for
from pipeline.plan.batches import uses_process
from pipeline.plan.resources import Requests
from pipeline.plan.stages import STAGES
from pipeline.execution import run_batch

PLAN = plan_for(config, dry_run=workflow.dryrun)
# Jobs on other machines read this plan and make none of their own.
workflow.config_settings.config_args = [f"plan={PLAN.path}"]
REQUESTS = Requests(PLAN)


def group(wildcards):
    return REQUESTS[wildcards.batch].group


def memory(wildcards, attempt):
    return REQUESTS[wildcards.batch].memory_mb(attempt)


def minutes(wildcards, attempt):
    return REQUESTS[wildcards.batch].runtime(attempt)


def gpu(wildcards):
    return REQUESTS[wildcards.batch].gpu


wildcard_constraints:
    batch="b[0-9a-f]{12}",


localrules:
    all,


rule all:
    input:
        [ancient(marker) for marker in PLAN.markers],
    run:
        finish(PLAN)


for stage in STAGES:
    if uses_process(stage):

        rule:
            name:
                stage
            input:
                lambda wildcards: [
                    ancient(marker) for marker in PLAN.inputs(wildcards.batch)
                ],
            output:
                f"{PLAN.folder}/{stage}/{{batch}}.done",
            group:
                group
            threads: lambda wildcards: PLAN.threads(wildcards.batch)
            resources:
                mem_mb=memory,
                runtime=minutes,
                gpu=gpu,
            params:
                command=[
                    sys.executable,
                    "-m",
                    "pipeline.execution",
                    str(PLAN.path),
                    stage,
                ],
            shell:
                "{params.command:q} {wildcards.batch}"

    else:

        rule:
            name:
                stage
            input:
                lambda wildcards: [
                    ancient(marker) for marker in PLAN.inputs(wildcards.batch)
                ],
            output:
                f"{PLAN.folder}/{stage}/{{batch}}.done",
            group:
                group
            resources:
                mem_mb=memory,
                runtime=minutes,
                gpu=gpu,
            run:
                run_batch(PLAN, wildcards.batch)
