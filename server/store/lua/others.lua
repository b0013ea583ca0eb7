-- Part after the rare operations: returns the function for each letter.

return {
  f = refresh,
  d = downgrade,
  x = force_release,
  y = force_release_one,
  v = set_value,
  k = set_count,
  s = view,
  e = edges,
  m = resume,
  o = look_for_feed,
}
