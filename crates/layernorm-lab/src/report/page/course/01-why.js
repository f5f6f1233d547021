// Chapter why.
