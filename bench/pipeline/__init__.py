"""What the Spark pipeline costs: tables of any size, and its checks beside other engines."""
