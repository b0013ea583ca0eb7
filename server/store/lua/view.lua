-- Shows a name.
--
-- KEYS  all five
-- ARGV  s: most waiters to show
-- Reply {false, 6, holder (see view_holder), ms for which the name stays closed (0: it is not closed), newest token or 0,
--       how many wait, {{coordinator, since (µs), session, client name}, …} in order}

local SEEN = 6

local function view(most)
  most = tonumber(most)
  load_queue()
  local holder = call('GET', lock)
  local shown = {}
  if refreshed and most > 0 then
    for i, owner in ipairs(call('ZRANGE', queue, 0, most - 1)) do
      local coordinator, since, _, details = unpack(cmsgpack.unpack(call('HGET', waiters, owner)))
      local _, _, _, session, client = read_details(details, 1)
      shown[i] = { coordinator, since, session, client }
    end
  end
  local closed = 0
  if holder == CLOSED then closed = math.max(call('PTTL', lock), 1) end
  return { false, SEEN, view_holder(holder), closed, token_of(call('GET', record)), call('ZCARD', queue), shown }
end
