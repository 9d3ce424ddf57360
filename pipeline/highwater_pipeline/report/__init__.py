"""The report for people: one page as HTML, the same in Markdown, and its tables as CSV."""
