// Chapter play.
