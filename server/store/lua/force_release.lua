-- Takes the lock from all its holders, raises the token, and hands the lock on.
--
-- KEYS  all four
-- ARGV  x
-- Reply {handed, 5, 1 if anything was released, token now, {{owner id, coordinator}, …} of our former holds, unordered}

local FORCED = 5

local function force_release()
  load_queue()
  if attached then check_settled() end
  look()
  local found = many and many.all() or {}
  if holder and not many then found[1] = record_of(holder) or nil end
  local former = {}
  for i, hold in ipairs(found) do
    local owner = hold:sub(17, 32)
    local _, _, coordinator = read_details(hold, DETAILS)
    former[i] = { owner, coordinator }
    if coordinator ~= me then tell_owner(coordinator, 'F' .. owner .. lock) end
  end
  local is_taken = holder
  if is_taken then
    if many then many.drop() else call('DEL', lock) end
    holder = false
    if changes then
      table.sort(found, function(a, b) return token_of(a) < token_of(b) end)
      for _, hold in ipairs(found) do note('forced', view_hold(hold, 0)) end
      if not found[1] then note('forced', false) end
    end
    mint('')
  end
  local handed = hand_on()
  return { handed, FORCED, is_taken and 1 or 0, token_of(call('GET', record)), former }
end
