-- Part after the rare operations that change something: returns the function for each letter.

return {
  f = refresh,
  d = downgrade,
  p = reduce,
  x = force_release,
  y = force_release_one,
  v = set_value,
  k = set_count,
  m = resume,
}
