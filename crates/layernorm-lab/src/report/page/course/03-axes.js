// Chapter axes.
