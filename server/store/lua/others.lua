-- Comes after the operations that are not asked for often: gives the function for each letter.

return {
  f = refresh,
  d = downgrade,
  x = force_release,
  v = set_value,
  k = set_count,
  s = view,
  e = edges,
  m = resume,
  o = look_for_feed,
}
