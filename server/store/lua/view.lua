-- Shows a name.
--
-- KEYS  all four
-- ARGV  s: most waiters to show
-- Reply {false, 6, holder (see view_holder), ms for which the name stays closed (0: it is not closed), newest token or
--       0, how many wait, {{coordinator, since (µs), session, client name}, …} in order}

local SEEN = 6

local function view(most)
  most = tonumber(most)
  load_queue()
  local holder = call('GET', lock)
  local closed = 0
  if holder == CLOSED then closed = math.max(call('PTTL', lock), 1) end
  local shown = most > 0 and view_waiters(most) or {}
  return { false, SEEN, view_holder(holder), closed, token_of(call('GET', record)), count(), shown }
end
