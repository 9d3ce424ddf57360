"""The checks of highwater_checker as Spark jobs: the same definitions over tables of many runs."""
