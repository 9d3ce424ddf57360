"""A run or a soak as it goes on, read from its files alone: in the terminal and as a page."""
