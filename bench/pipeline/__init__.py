"""The cost of the Spark pipeline: tables of any size, and its checks beside other engines."""
