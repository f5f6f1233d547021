// Chapter choose.
