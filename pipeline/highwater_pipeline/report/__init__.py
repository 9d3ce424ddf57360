"""The report that people open: one page, the same in Markdown, and its tables as CSV."""
