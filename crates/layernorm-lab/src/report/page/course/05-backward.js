// Chapter backward.
