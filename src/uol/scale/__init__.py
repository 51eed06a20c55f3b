"""Work for more than one process or machine, distributed by Ray: bulk scoring, and the networks of an experiment."""

PART_SIZE = 1000  # images in a part of a bulk job
