"""What two or more components share: ids, errors, messages, traces, ports, configuration."""
