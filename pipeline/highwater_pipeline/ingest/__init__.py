"""From run folders to tables: rows, and quarantine with reasons for lines and files not read."""

from highwater_pipeline.ingest.ingesting import ingest
from highwater_pipeline.ingest.report import IngestReport, RunIngest, Taken

__all__ = ["IngestReport", "RunIngest", "Taken", "ingest"]
