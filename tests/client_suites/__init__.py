"""Stock clients' own tests, run unchanged against a cluster of Highwater."""
