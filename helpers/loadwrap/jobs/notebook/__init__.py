"""From a notebook's cells to files that ranks can run, and back to the cells' own lines."""
