-- Part after the operations that only look: returns the function for each letter.

return {
  s = view,
  e = edges,
  o = look_for_feed,
  q = request_release,
}
