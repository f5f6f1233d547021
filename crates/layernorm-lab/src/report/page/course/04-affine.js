// Chapter affine.
