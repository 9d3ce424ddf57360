"""Code of two or more components: ids, errors, messages, traces, ports, configuration."""
