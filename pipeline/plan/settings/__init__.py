"""What each variant's settings may be; `pipeline.plan.schema` gathers them by group."""
