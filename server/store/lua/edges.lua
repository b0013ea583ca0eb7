-- Returns the edges of the wait graph, for the detector of deadlocks.
--
-- KEYS  all four
-- ARGV  e
-- Reply {false, 8, 1 if these are all holders, {{owner id, session, extras, client name}, …}, those that end first
--       before others; none where they are too many, the first waiters whose coordinators live (see first_waiters), the
--       semaphore's limit or 0, its revision}

local EDGES = 8
local MOST = 512 -- holders, and waiters, that are shown

local function edges()
  load_queue()
  look()
  local is_complete = not many or many.count() <= MOST
  local found, shown = {}, {}
  if many and is_complete then
    for i, hold in ipairs(many.first(MOST)) do found[i] = hold[2] end
  elseif holder and not many then
    found[1] = record_of(holder) or nil
  end
  for i, hold in ipairs(found) do
    local _, _, _, session, extras, client = read_details(hold, DETAILS)
    shown[i] = { hold:sub(17, 32), session, extras, client }
  end
  local limit, revision = limit_in_use()
  return { false, EDGES, is_complete and 1 or 0, shown, first_waiters(MOST, true), limit or 0, revision or 0 }
end
