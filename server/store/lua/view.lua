-- Returns the view of a name.
--
-- KEYS  all four
-- ARGV  s: most waiters to show, most bytes of each value to show
-- Reply {false, 6, the first 100 holders (see view_holders), how many there are, ms for which the name stays closed, to
--       some at least (0: it does not), the semaphore's limit or 0, its revision, permits taken, newest token or 0, how many
--       wait, {{coordinator, since (µs), session, extras, client name, place}, …} in order}

local SEEN = 6
local HOLDERS_SHOWN = 100
local VALUE = 9 -- its place in view_hold's result

local function view(most, value_bytes)
  most = tonumber(most)
  load_queue()
  look()
  local shown = view_holders(HOLDERS_SHOWN)
  for _, hold in ipairs(shown) do
    if hold[VALUE] then hold[VALUE] = hold[VALUE]:sub(1, value_bytes) end
  end
  local number, closed, permits = #shown, 0, 0
  if many then
    number, closed, permits = many.count(), many.haunted_for(), many.permits_taken()
  elseif holder == CLOSED then
    closed = math.max(call('PTTL', lock), 1)
  end
  local waiting = most > 0 and first_waiters(most, false) or {}
  for _, waiter in ipairs(waiting) do table.remove(waiter, 1) end
  local limit, revision = limit_in_use()
  local token = token_of(call('GET', record))
  if not holder then strip() end
  return { false, SEEN, shown, number, closed, limit or 0, revision or 0, permits, token, count(), waiting }
end
