// Chapter blind.
