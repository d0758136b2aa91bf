"""Draw the report of a run directory: one HTML page that needs no network."""

from symshare.report.page import write_report

__all__ = ["write_report"]
