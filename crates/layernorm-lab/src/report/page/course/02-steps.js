// Chapter steps.
