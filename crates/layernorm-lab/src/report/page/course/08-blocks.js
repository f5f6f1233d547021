// Chapter blocks.
