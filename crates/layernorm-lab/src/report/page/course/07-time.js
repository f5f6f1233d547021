// Chapter time.
