"""A build: what is made of the tables, which partitions are computed, and the release that they become."""
