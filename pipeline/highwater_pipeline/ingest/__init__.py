"""From run folders to tables: what is read, what is quarantined and why, what is skipped."""

from highwater_pipeline.ingest.ingesting import ingest
from highwater_pipeline.ingest.report import IngestReport, RunIngest, Taken

__all__ = ["IngestReport", "RunIngest", "Taken", "ingest"]
