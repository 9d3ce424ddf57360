"""What runs measured: failovers, outages, lag, latencies, by fault and preset."""
