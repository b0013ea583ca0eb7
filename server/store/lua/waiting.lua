-- The first waiters of all coordinators, or of those that live, in order: {{owner id, coordinator, since (µs), session,
-- extras, client name, place}, …}.
local function first_waiters(most, are_living)
  local found, shown = {}, {}
  for coordinator, sign in pairs(attached or {}) do
    if not are_living or sign[1] + DEAD_AFTER > now then
      local start = '[' .. from(coordinator, sign[2])
      local line = call('ZRANGEBYLEX', queue, start, beyond(coordinator), 'LIMIT', '0', most)
      for _, member in ipairs(line) do
        found[#found + 1] = { unpack_bytes('>I8', member, #member - 23), member:sub(-16) }
      end
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  -- Many at a time: to begin a command takes longer than to carry it out.
  for first = 1, math.min(most, #found), 200 do
    local owners = {}
    for i = first, math.min(most, #found, first + 199) do owners[#owners + 1] = found[i][2] end
    for i, field in ipairs(call('HMGET', waiters, unpack(owners))) do
      local _, since, coordinator, _, details = read_waiter(owners[i], field)
      if since then
        local _, _, _, session, extras, client = read_details(details, 1)
        shown[#shown + 1] = { owners[i], coordinator, since, session, extras, client, found[first + i - 1][1] }
      end
    end
  end
  return shown
end
