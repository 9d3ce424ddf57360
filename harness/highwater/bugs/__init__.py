"""The catalogue's bugs as runs: the plan that shows each, its story, and its page."""
